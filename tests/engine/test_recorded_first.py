"""A checkpoint gets its name when the losses before it are on disk: whoever goes on from it does not make them again."""

from __future__ import annotations

from pathlib import Path

from engine_small import FakeControl, small_config

from tuitrain.engine.checkpoint import folder_name
from tuitrain.engine.train import train
from tuitrain.events import Losses, RunStarted


class Recording(FakeControl):
    """Notes at each checkpoint which steps were told by then, and whether it was in place already."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told = 0
        self.noted: list[tuple[int, bool]] = []

    def recorded(self) -> None:
        step = self.told
        self.noted.append((step, (self.given_folder / "checkpoints" / folder_name(step)).exists()))


def test_all_losses_up_to_a_checkpoint_are_recorded_before_it_is_in_place(tmp_path: Path) -> None:
    control = Recording(tmp_path)
    for event in train(small_config(max_steps=10, checkpoint_every_steps=3), control):
        if isinstance(event, RunStarted):
            control.folder = control.given_folder
        elif isinstance(event, Losses):
            control.told = event.first_step + len(event.losses) - 1
    assert control.noted == [(3, False), (6, False), (7, False), (9, False), (10, False)]

"""A checkpoint gets its name when the losses before it are on disk: whoever goes on from it does not make them again."""

from __future__ import annotations

from pathlib import Path

from engine_small import FakeControl, small_config

from tuitrain.engine.checkpoint import folder_name
from tuitrain.engine.train import train
from tuitrain.events import Losses, RunStarted


class Recording(FakeControl):
    """Notes before each checkpoint which steps were told by then, and which checkpoints are in place already."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told = 0
        self.noted: list[tuple[int, set[str]]] = []

    def recorded(self) -> None:
        in_place = {folder.name for folder in (self.given_folder / "checkpoints").glob("*")}
        self.noted.append((self.told, in_place))


def test_all_losses_up_to_a_checkpoint_are_recorded_before_it_is_in_place(tmp_path: Path) -> None:
    control = Recording(tmp_path)
    for event in train(small_config(max_steps=10, checkpoint_every_steps=3), control):
        if isinstance(event, RunStarted):
            control.folder = control.given_folder
        elif isinstance(event, Losses):
            control.told = event.first_step + len(event.losses) - 1
    saved = (3, 6, 7, 9, 10)
    assert len(control.noted) == len(saved)
    for step, (told, in_place) in zip(saved, control.noted, strict=True):
        # The copy is written in a thread of its own: training may be further by now.
        assert told >= step
        assert folder_name(step) not in in_place

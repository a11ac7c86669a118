"""Lines that the table shows before they were ever measured, because not every machine can take them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NO_GPU = "needs a GPU"
NO_LEET = "wandb is not installed, or shows nothing of an offline run"


@dataclass(frozen=True)
class Awaited:
    """A line without a figure.

    Attributes:
        taken_by: the name of the figure, as `--only` takes it, that brings the line.
        name, target: as in the line when it is there.
        without: why it is not there, in a few words.
    """

    taken_by: str
    name: str
    target: str
    without: str


LINES = (
    Awaited("gpu-speed", "training speed, GPU, against the plain script", "≥ 25", NO_GPU),
    Awaited("gpu-speed", "training speed, GPU, bf16, compiled, not deterministic, against the plain script", "≥ 25", NO_GPU),
    Awaited("gpu-speed", "seed-cnn, data on the device, GPU", "≥ 3", NO_GPU),
    Awaited("gpu-speed", "training in the app, GPU", "≥ 0.98", NO_GPU),
    Awaited("speedrun", "speed run, mean accuracy", "≥ 0.999", NO_GPU),
    Awaited("speedrun", "speed run, training with the screen live", "≤ 2 s", NO_GPU),
    Awaited("watching", "watching a run beside W&B LEET, terminal output", "≤ 200 B/s", NO_LEET),
)


class NotMeasured(Exception):
    """A figure cannot be taken on this machine; the text says why, as `Awaited.without` does."""


def missing(names: Iterable[str], only: Iterable[str] | None = None) -> list[Awaited]:
    """The awaited lines that are not among `names`, of the figures named in `only` or of all."""
    there, wanted = set(names), None if only is None else set(only)
    return [line for line in LINES if line.name not in there and (wanted is None or line.taken_by in wanted)]

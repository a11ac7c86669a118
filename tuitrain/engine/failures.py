"""What went wrong in a run, as one sentence for the person who reads it."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

from tuitrain.text import clean

_LONGEST = 300


class RunFailed(Exception):
    """A run cannot go on. The text is one sentence that begins with the step.

    Attributes:
        step: the step that failed.
    """

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(f"step {step}: {reason}")
        self.step = step


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    lines = str(error).strip().splitlines()
    text = clean(lines[0].strip()) if lines else type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that a device, or the machine, has no memory left."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def describe(error: BaseException, doing: str, device: torch.device | str) -> str:
    """What happened while `doing` ("training"), and where in the code, as one sentence."""
    if is_out_of_memory(error):
        return f"{device} ran out of memory while {doing}; a smaller batch_size needs less ({first_line(error).rstrip('.')})."
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__} while {doing}: {first_line(error).rstrip('.')}{where}."

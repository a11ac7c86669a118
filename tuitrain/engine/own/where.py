"""A person's code that says where to train, as most scripts do; of a run the field `device` says it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from tuitrain.config import ConfigError
from tuitrain.engine.own import modules as own_modules

SCRIPTS_PLACE = 'what only a script does belongs below `if __name__ == "__main__":`'
_NUMBERING = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
"""By these CUDA numbers the cards when a process begins to use it, and the screens all the time."""


@contextmanager
def without_saying_where(field: str, value: str) -> Iterator[None]:
    """What a person's code sets inside for the process, and for all that it starts, is set back.

    Args:
        field, value: of the configuration, for the sentence.

    Raises:
        ConfigError: it has set something.
    """
    before = {name: os.environ.get(name) for name in _NUMBERING}
    try:
        yield
    finally:
        if said := [*_set_back(before), *_default_device()]:
            own_modules.note()
            own_modules.forget()  # imported anew they say it again
    if said:
        raise ConfigError(f"{field}: {value!r} sets {said[0]}, and it is device that says where a run trains; {SCRIPTS_PLACE}.")


def _set_back(before: Mapping[str, str | None]) -> Iterator[str]:
    """Which of these variables are others now, in words."""
    for name, was in before.items():
        if (found := os.environ.get(name)) == was:
            continue
        os.environ.pop(name, None)
        if was is not None:
            os.environ[name] = was
        yield f"{name} to {found!r}"


def _default_device() -> Iterator[str]:
    """That torch has one, in words. What the engine makes on the host would come to be there."""
    try:
        device = str(torch.get_default_device())
    except (AssertionError, RuntimeError):  # which of the GPUs that would be, nobody knows without one
        device = "cuda"
    if device != "cpu":
        torch.set_default_device(None)
        yield f"torch's default device to {device}"

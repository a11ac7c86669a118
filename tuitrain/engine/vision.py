"""The door to torchvision, which is an optional extra."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType

import torch

from tuitrain.config import ConfigError
from tuitrain.engine.places import one_line

# What torchvision's Python code asks to be declared while it is imported. Its data sets and models call none of them.
_DECLARED = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def imported(name: str) -> ModuleType:
    """The module `name`, whether it is torchvision or imports it, also beside a torch that torchvision's compiled part does not fit.

    torchvision built for CUDA next to a torch for the CPU cannot load its compiled operators, and its import then ends in
    "operator torchvision::nms does not exist". Declaring the operators is enough for everything that does not call them.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:
        if not any("operator torchvision::" in str(one) for one in _with_causes(error)):
            raise
        _declare_operators()
        return importlib.import_module(name)


def import_torchvision(needed_by: str) -> ModuleType:
    """torchvision with its data sets and models, see `imported`.

    Args:
        needed_by: what needs it, as the subject of the sentence when it is missing.

    Raises:
        ConfigError: torchvision is not installed or cannot be imported at all.
    """
    if importlib.util.find_spec("torchvision") is None:
        raise ConfigError(f"{needed_by} needs torchvision, which is not installed: pip install 'tuitrain[vision]'.")
    try:
        return imported("torchvision")
    except Exception as error:
        reason = one_line(error)
        raise ConfigError(
            f"{needed_by} needs torchvision, and the installed one does not fit torch {torch.__version__}: {reason}."
        ) from error


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, and those that it was raised from, as by a library that imports its parts when they are asked for."""
    while error is not None:
        yield error
        error = error.__cause__


def _declare_operators() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] == "torchvision":
            del sys.modules[name]
    for name, signature in _DECLARED.items():
        torch.library.define(f"torchvision::{name}", signature)

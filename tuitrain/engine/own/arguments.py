"""What a person's own functions are called with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeAlias

from torch import nn

from tuitrain.engine.own.signatures import hands_on, has, has_a_value, takes

CONFIG, NUM_CLASSES, MODEL, PARAMETERS = "config", "num_classes", "model", "parameters"
"""What a person's function can be called with; with the parameters of the model goes what is set of an optimizer."""
TRAIN, SPLIT, ROOT, DOWNLOAD = "train", "split", "root", "download"
"""And what makes one part of the data at a time, as torchvision's classes do: with a bool or "train" and "test", a folder, and `True`."""
NOT_CALLED = "not called"
"""The data itself, or the network, stands in a module."""
WORDS = frozenset({CONFIG, NUM_CLASSES, MODEL, PARAMETERS, TRAIN, SPLIT, ROOT, DOWNLOAD, NOT_CALLED})
Arguments: TypeAlias = Mapping[str, Collection[str]]
"""What each is called with, by its field."""


def arguments(field: str, function: Callable[..., Any]) -> tuple[str, ...] | None:
    """What a person's function for `field` is called with, by these names; `None`: it asks for more.

    One that takes an argument gets the configuration. What the class of a network takes is mostly something else, as is what a function
    takes that has a value for it, such as `pretrained=False`: where these can do without, they get the configuration only if they have a
    parameter of that name. So do classes of data, always. A network that has a parameter `num_classes`, or passes it on, gets the number
    of classes of the data. What makes data and has a parameter `train`, or `split`, makes the two parts one after the other; what can
    download them gets a folder for that. What makes an optimizer gets the model and, where it has a parameter for it, the configuration; a
    class of optimizers the parameters. Data or a network that is there already is not called.
    """
    if field == "optimizer":
        return _arguments_of_optimizer(function)
    if (field == "data" and not callable(function)) or (field == "model" and isinstance(function, nn.Module)):
        return (NOT_CALLED,)
    named = _by_name(field, function)
    values = dict.fromkeys(named)
    alone = takes(function, **values)
    if not takes(function, CONFIG, **values):
        return named if alone else None
    if has(function, CONFIG) or not (inspect.isclass(function) or has_a_value(function)):
        return CONFIG, *named
    if alone:
        return named
    return None if field == "data" else (CONFIG, *named)


def _by_name(field: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """What it is called with beside the configuration."""
    if field != "data":
        return (NUM_CLASSES,) if field == "model" and hands_on(function, NUM_CLASSES) else ()
    part = [name for name, kind in ((TRAIN, bool), (SPLIT, str)) if has(function, name, kind)][:1]
    comes_by_itself = has(function, ROOT) and has(function, DOWNLOAD, bool)
    return *part, *((ROOT, DOWNLOAD) if comes_by_itself else ())


def _arguments_of_optimizer(function: Callable[..., Any]) -> tuple[str, ...] | None:
    kind = function.func if isinstance(function, partial) else function
    if inspect.isclass(kind):
        return (PARAMETERS,)
    alone = takes(function, MODEL)
    if takes(function, MODEL, CONFIG) and (not alone or has(function, CONFIG)):
        return MODEL, CONFIG
    return (MODEL,) if alone else None

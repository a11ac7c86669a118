"""What a person's function can be called with, as its signature says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints


def takes(function: Callable[..., Any], *values: object, **named: object) -> bool:
    """Whether it can be called with as many values as these: a network's class often takes none, or asks for sizes."""
    try:
        inspect.signature(function).bind(*values, **named)
    except TypeError:
        return False
    except ValueError:  # what is written in C may tell nothing of its parameters: it gets the configuration
        return bool(values)
    return True


def has(function: Callable[..., Any], name: str, kind: type = object) -> bool:
    """Whether it has a parameter that can be given by this name, and has no value for it but one of this kind, or `None`."""
    parameter = _parameters(function).get(name)
    if parameter is None or parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return False
    return parameter.default is parameter.empty or parameter.default is None or isinstance(parameter.default, kind)


def needed(function: Callable[..., Any]) -> str:
    """The parameters that have to be given, in brackets; empty where none is known."""
    single = (one for one in _parameters(function).values() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
    named = ", ".join(one.name for one in single if one.default is one.empty)
    return f" ({named})" if named else ""


def has_a_value(function: Callable[..., Any]) -> bool:
    """Whether its first parameter has a value that says something, which is then not meant for a configuration."""
    first = next(iter(_parameters(function).values()), None)
    return first is not None and first.default is not first.empty and first.default is not None


def hands_on(function: Callable[..., Any], name: str) -> bool:
    """Whether it has a parameter `name`, or takes any names, as torchvision's and timm's functions do, for a class that has."""
    if has(function, name):
        return True
    return any(one.kind is one.VAR_KEYWORD for one in _parameters(function).values()) and hands_on(_given_the_rest(function), name)


def _given_the_rest(function: Callable[..., Any]) -> type:
    """The class that gets what a function takes and has no parameter for: the one that it is annotated to return; of a class the next one
    that it inherits `__init__` from. `object` where it does not say, or the name means nothing in its module."""
    if inspect.isclass(function):
        return (*(one for one in function.__mro__ if "__init__" in vars(one)), object)[1]
    try:
        made = get_type_hints(function).get("return")
    except Exception:  # an annotation may be any expression, and stay unevaluated
        return object
    return made if inspect.isclass(made) else object


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """What it takes, by name; nothing where that cannot be told, as of what is written in C."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}

"""Import strings: `my_package.nets:make_model` in a configuration becomes the function it names."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from tuitrain.config import ConfigError, RunConfig, own_functions
from tuitrain.engine import own_modules
from tuitrain.engine.places import own_place
from tuitrain.python import no_module
from tuitrain.text import clean, nearest

CALLED_WITH_NOTHING = "called_with_nothing"
"""What `called_with_nothing` found, in what is kept of a run's environment."""


def import_string(field: str, value: str) -> Callable[..., Any]:
    """The function that `value` names, looked for in the working directory first, as `python -m` does.

    Args:
        field: the configuration's field, for the sentence.
        value: an import string that `RunConfig` accepted.

    Raises:
        ConfigError: no such module, importing it fails, no such name in it, or the name is no function that takes the configuration or
            nothing.
    """
    module_name, _, name = value.partition(":")
    module = _import_module(field, value, module_name)
    if not hasattr(module, name):
        _check_not_hidden(field, value, module_name)
        raise ConfigError(f"{field}: {value!r}: the module {module_name} has no {name!r}.{nearest(name, _public_callables(module))}")
    function = getattr(module, name)
    if not callable(function):
        raise ConfigError(f"{field}: {value!r} is a {type(function).__name__}; it must be a function.")
    if not _takes(function, "config") and not _takes(function):
        raise ConfigError(f"{field}: {value!r} needs more than the configuration; it must be a function like make_{field}(config).")
    result: Callable[..., Any] = function
    return result


def called(function: Callable[..., Any], config: RunConfig) -> Any:
    """What a person's function returns, called as `wants_config` has it."""
    return function(config) if wants_config(function) else function()


def wants_config(function: Callable[..., Any]) -> bool:
    """Whether a function is called with the configuration, and not with nothing.

    One that takes an argument is. What the class of a network takes is mostly something else, such as the number of classes: where it can
    do without, it is called with the configuration only if it has a parameter of that name.
    """
    if not _takes(function, "config"):
        return False
    return not inspect.isclass(function) or not _takes(function) or "config" in inspect.signature(function).parameters


def called_with_nothing(config: RunConfig) -> list[str]:
    """The fields of those of a person's own functions that are called with nothing.

    Raises:
        ConfigError: see `import_string`.
    """
    return [field for field, value in own_functions(config).items() if not wants_config(import_string(field, value))]


def one_line(error: BaseException) -> str:
    """What went wrong in code that is not ours, as `ValueError: text (nets.py, line 3)` on one line, without a full stop at its end."""
    first = str(error).strip().partition("\n")[0].rstrip(".")
    # A SyntaxError says it by itself.
    where = "" if isinstance(error, SyntaxError) else own_place(error)
    return clean(f"{type(error).__name__}{f': {first}' if first else ''}{f' ({where})' if where else ''}")


def _import_module(field: str, value: str, module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        # It stays: the module may import its neighbours later, in the middle of training.
        sys.path.insert(0, here)
    # A module that was written a moment ago is not in the finder's cached folder listing.
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            _check_not_hidden(field, value, module_name)
            raise ConfigError(f"{field}: {value!r}: {no_module(error.name)}.") from None
        raise ConfigError(f"{field}: {value!r}: importing {module_name} failed: {one_line(error)}.") from error
    except BaseException as error:
        raise ConfigError(f"{field}: {value!r}: importing {module_name} failed: {one_line(error)}.") from error
    finally:
        # Now, and not when all is prepared: meanwhile it may be edited.
        own_modules.note()


def _check_not_hidden(field: str, value: str, module_name: str) -> None:
    """Raises: ConfigError: the working directory has a module or package of that name, and another one was imported before it."""
    package = module_name.partition(".")[0]
    module, own = sys.modules.get(package), PathFinder.find_spec(package, [str(Path.cwd())])
    if module is None or own is None:
        return
    places = {place for place in (own.origin, *(own.submodule_search_locations or ())) if place}
    if places.isdisjoint({getattr(module, "__file__", None), *getattr(module, "__path__", ())}):
        other = "Python's own" if package in sys.stdlib_module_names else "an installed one"
        name = clean(Path(own.origin).name if own.origin and own.submodule_search_locations is None else f"{package}/")
        raise ConfigError(f"{field}: {value!r}: the module {package} is {other}, not your {name}, which needs another name.")


def _takes(function: Callable[..., Any], *arguments: str) -> bool:
    """Whether it can be called with as many arguments as these: a network's class often takes none, or asks for sizes."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:  # what is written in C may tell nothing of its arguments: it gets the configuration
        return bool(arguments)
    return True


def _public_callables(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]

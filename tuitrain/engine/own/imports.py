"""Import strings: `my_package.nets:make_model` in a configuration becomes the function it names."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tuitrain.config import ConfigError, RunConfig, own_functions
from tuitrain.engine.own import modules as own_modules
from tuitrain.engine.own.arguments import CONFIG, MODEL, PARAMETERS, WORDS, Arguments, arguments
from tuitrain.engine.own.signatures import needed, takes
from tuitrain.engine.own.where import SCRIPTS_PLACE, without_saying_where
from tuitrain.engine.places import one_line
from tuitrain.engine.vision import imported
from tuitrain.import_strings import TORCHS, import_string_meant
from tuitrain.python import no_module
from tuitrain.text import clean, nearest


def import_string(field: str, value: str) -> Any:
    """The function that `value` names, or the data, looked for in the working directory first, as `python -m` does.

    Args:
        field: the configuration's field, for the sentence.
        value: an import string that `RunConfig` accepted.

    Raises:
        ConfigError: no such module, importing it fails or says where to train, no such name in it, or the name is no function that can be
            called as `arguments` has it.
    """
    module_name, _, name = value.partition(":")
    with without_saying_where(field, value):
        module = _import_module(field, value, module_name)
    if not hasattr(module, name):
        _check_not_hidden(field, value, module_name)
        raise ConfigError(f"{field}: {value!r}: the module {module_name} has no {name!r}.{nearest(name, _public_callables(module))}")
    function = getattr(module, name)
    if field != "data" and not callable(function):
        raise ConfigError(f"{field}: {value!r} is a {type(function).__name__}; it must be a function.")
    if field == "loss":
        _check_loss(value, function)
    elif field == "optimizer":
        _check_optimizer(value, function)
    elif field == "lr_schedule":
        _check_schedule(value, function)
    elif arguments(field, function) is None:
        wanted = f"it must be a function like make_{field}(config)"
        raise ConfigError(f"{field}: {value!r} needs more than the configuration{needed(function)}; {wanted}.")
    return function


def _check_loss(value: str, function: Callable[..., Any]) -> None:
    """Raises: ConfigError: it is neither a function of outputs and labels nor a class that is made of nothing."""
    if inspect.isclass(function):
        if not takes(function):
            raise ConfigError(f"loss: the class {value!r} cannot be made without arguments; it must be a function loss(outputs, labels).")
    elif not takes(function, "outputs", "labels"):
        raise ConfigError(f"loss: {value!r} cannot be called with outputs and labels; it must be a function loss(outputs, labels).")


def _check_optimizer(value: str, function: Callable[..., Any]) -> None:
    """Raises: ConfigError: it is neither a function of a model nor a class of optimizers."""
    wanted = "it must be a function make_optimizer(model, config), or a class of torch.optim.Optimizer"
    if inspect.isclass(function) and not issubclass(function, torch.optim.Optimizer):
        raise ConfigError(f"optimizer: {value!r} is no class of optimizers; {wanted}.")
    if arguments("optimizer", function) is None:
        raise ConfigError(f"optimizer: {value!r} cannot be called with a model; {wanted}.")


def _check_schedule(value: str, function: Callable[..., Any]) -> None:
    """Raises: ConfigError: it is no function of two numbers."""
    is_class = inspect.isclass(function)
    if is_class or not takes(function, 0, 1):
        found = "is a class" if is_class else "cannot be called with two numbers"
        wanted = "it must be a function of two numbers, the steps that are done and the steps that are planned"
        raise ConfigError(f"lr_schedule: {value!r} {found}; {wanted}.")


def called(field: str, function: Callable[..., Any], config: RunConfig, **offered: object) -> Any:
    """What a person's function for `field` returns, called with what `arguments` names of the configuration and what is `offered`.

    Raises:
        ConfigError: it raised something, or says where to train.
    """
    wanted, value = arguments(field, function) or (), getattr(config, field)
    named = {name: given for name, given in offered.items() if name in wanted}
    with without_saying_where(field, value):
        try:
            return function(*([config] if CONFIG in wanted else []), **named)
        except BaseException as error:  # whatever the person's code raises is a sentence about their code
            raise ConfigError(f"{field}: {value!r} raised {one_line(error)}.") from error


def noted_arguments(config: RunConfig) -> dict[str, str]:
    """For what is kept of a run's environment: what a person's own functions are called with that are called with something else than the
    configuration.

    Raises:
        ConfigError: see `import_string`.
    """
    wanted = {field: arguments(field, import_string(field, value)) or () for field, value in _asked_for_something(config).items()}
    return {_noted(field): ", ".join(names) for field, names in wanted.items() if names != (CONFIG,)}


def arguments_of_run(config: RunConfig, environment: Mapping[str, Any]) -> Arguments:
    """What a person's own functions were called with, as `noted_arguments` has kept it."""
    asked = _asked_for_something(config)
    kept = {field: str(environment.get(_noted(field), _untried(field, value))).split(", ") for field, value in asked.items()}
    return {field: [name for name in names if name in WORDS] for field, names in kept.items()}


def _untried(field: str, value: str) -> str:
    """What a person's own function is most likely called with, while nobody has looked at it."""
    if field != "optimizer":
        return CONFIG
    return PARAMETERS if value.startswith(TORCHS) else f"{MODEL}, {CONFIG}"


def _asked_for_something(config: RunConfig) -> dict[str, str]:
    """Those of a person's own functions that make something; a loss and a schedule are functions themselves."""
    return {field: value for field, value in own_functions(config).items() if field not in ("loss", "lr_schedule")}


def _noted(field: str) -> str:
    return f"{field}_called_with"


def _import_module(field: str, value: str, module_name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        # It stays: the module may import its neighbours later, in the middle of training.
        sys.path.insert(0, here)
    # A module that was written a moment ago is not in the finder's cached folder listing.
    importlib.invalidate_caches()
    try:
        return imported(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            _check_not_hidden(field, value, module_name)
            raise ConfigError(f"{field}: {value!r}: {no_module(error.name)}.{import_string_meant(field, value)}") from None
        raise ConfigError(f"{field}: {value!r}: importing {module_name} failed: {one_line(error)}.") from error
    except SystemExit as error:  # such as of a parser that was given our arguments
        raise ConfigError(f"{field}: {value!r}: importing {module_name} ends the program ({one_line(error)}); {SCRIPTS_PLACE}.") from error
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


def _public_callables(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]

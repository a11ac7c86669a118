"""An optimizer of the person's own: what their function makes of the model, or a class, such as one of torch's that is not built in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from tuitrain.config import ConfigError, RunConfig, written
from tuitrain.engine.own.arguments import CONFIG, MODEL, PARAMETERS, arguments
from tuitrain.engine.own.imports import import_string
from tuitrain.engine.own.signatures import takes
from tuitrain.engine.places import one_line

Parameters = Iterable[nn.Parameter] | list[dict[str, Any]]


def own_optimizer(config: RunConfig, model: nn.Module, parameters: Parameters) -> torch.optim.Optimizer:
    """What `config.optimizer` makes, which trains parameters of `model`.

    Args:
        parameters: those of the model, which are on their device; what a class of optimizers gets.

    Raises:
        ConfigError: it cannot be imported, takes not what is set, raised, or gave no optimizer of this model that a run can use.
    """
    value = config.optimizer
    function = import_string("optimizer", value)
    wanted = arguments("optimizer", function)
    settings: dict[str, Any] = {}
    if wanted == (PARAMETERS,):
        _check_settings(config, function)
        settings = class_settings(config)
    can_have = {MODEL: model, CONFIG: config, PARAMETERS: parameters}
    try:
        optimizer = function(*(can_have[name] for name in wanted or ()), **settings)
    except BaseException as error:  # whatever the person's code raises is a sentence about their code
        raise ConfigError(f"optimizer: {value!r} raised {one_line(error)}.") from error
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ConfigError(f"optimizer: {value!r} returned a {type(optimizer).__name__}; it must return a torch.optim.Optimizer.")
    if reason := _why_not(optimizer, model):
        raise ConfigError(f"optimizer: {value!r} {reason}.")
    return optimizer


def class_settings(config: RunConfig) -> dict[str, Any]:
    """What a class of optimizers, a built-in one too, gets beside the parameters: the learning rate, and of the other settings those that
    are not 0. AdamW, whose own decay is not 0, is told of none too."""
    others = {name: getattr(config, name) for name in ("momentum", "nesterov", "weight_decay")}
    told = {"weight_decay"} if config.optimizer == "adamw" else set()
    return {"lr": config.lr} | {name: value for name, value in others.items() if value or name in told}


def _check_settings(config: RunConfig, kind: Callable[..., Any]) -> None:
    """Raises: ConfigError: the class has no parameter for what is set."""
    for name, setting in class_settings(config).items():
        if takes(kind, PARAMETERS, **{name: setting}):
            continue
        if name == "lr":
            way = "a function make_optimizer(model, config) may give it what it takes"
            raise ConfigError(f"optimizer: the class {config.optimizer!r} takes no lr; {way}.")
        raise ConfigError(
            f"{name}: {written(setting)} is nothing that the optimizer {config.optimizer!r} takes; it must be {written(type(setting)(0))}."
        )


def _why_not(optimizer: torch.optim.Optimizer, model: nn.Module) -> str | None:
    """What about a person's optimizer stands in the way of a run with it, as the end of a sentence."""
    ours = {id(parameter) for parameter in model.parameters()}
    if any(id(parameter) not in ours for group in optimizer.param_groups for parameter in group["params"]):
        return "gives an optimizer of other parameters than those of the model that it is called with, which alone is trained"
    if any(not _is_rate(group.get("lr")) for group in optimizer.param_groups):
        return "gives an optimizer with parameters that have no number as their lr"
    if not takes(optimizer.step):
        return "asks for a closure, which computes the loss anew within a step; here a step computes it once"
    return None


def _is_rate(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def unkept(optimizer: torch.optim.Optimizer) -> str | None:
    """What of its state no checkpoint could hold, as the end of a sentence; `None` where all is tensors, numbers and text."""
    try:
        document = optimizer.state_dict()
        settings = [item for group in document["param_groups"] for item in group.items() if not _is_plain(item[1])]
        state = [item for values in document["state"].values() for item in values.items() if not _is_dense(item[1])]
    except Exception as error:  # whatever the person's code raises, or gives in the place of dictionaries
        return f"gives no state that could be kept: {one_line(error)}"
    found = next(chain(settings, (item for item in state if not _is_plain(item[1]))), None)
    if found is None:
        return None
    name, value = found
    return f"keeps {name}, which is {_named(value)}, and a checkpoint holds dense tensors of parameters, finite numbers and text"


def _is_dense(value: object) -> bool:
    return isinstance(value, Tensor) and value.layout == torch.strided and not value.is_complex()


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))


def _named(value: object) -> str:
    return str(value) if isinstance(value, float) else f"a {type(value).__name__}"

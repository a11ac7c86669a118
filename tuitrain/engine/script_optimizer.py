"""What an exported script says of the optimizer: how it is made, and what becomes of the gradients before an update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuitrain.config import RunConfig, is_import_string
from tuitrain.engine.imports import PARAMETERS, TORCHS, Arguments
from tuitrain.engine.own_optimizer import class_settings
from tuitrain.engine.script_speedrun import is_fitted

_NAMES = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}


def made(config: RunConfig, given: Arguments) -> str:
    """The expression that makes it; `given` is what the person's own functions are called with."""
    parameters = "groups" if is_fitted(config) else "model.parameters()"
    if is_import_string(config.optimizer):
        is_torchs = config.optimizer.startswith(TORCHS)
        name = f"torch.optim.{config.optimizer.removeprefix(TORCHS)}" if is_torchs else "make_optimizer"
        if PARAMETERS not in given["optimizer"]:
            return f"{name}({', '.join(given['optimizer'])})"
        return f"{name}({parameters}, {_named(class_settings(config))})"
    # AdamW's own default is not 0.
    settings = class_settings(config) | ({"weight_decay": config.weight_decay} if config.optimizer == "adamw" else {})
    return f"torch.optim.{_NAMES[config.optimizer]}({parameters}, {_named(settings)})"


def _named(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def clipped(config: RunConfig, lines: Sequence[str]) -> list[str]:
    """The lines of a step, with its gradients clipped before the update where that is asked for."""
    if config.max_grad_norm is None:
        return list(lines)
    # A person's own optimizer may have some of them only.
    own = '[one for group in optimizer.param_groups for one in group["params"]]'
    parameters = own if is_import_string(config.optimizer) else "model.parameters()"
    clip = f"        nn.utils.clip_grad_norm_({parameters}, {config.max_grad_norm})"
    return [each for line in lines for each in ((clip, line) if line.strip() == "optimizer.step()" else (line,))]

"""What an exported script says of the optimizer: how it is made, and what becomes of the gradients before an update."""

from __future__ import annotations

from collections.abc import Sequence

from tuitrain.config import RunConfig
from tuitrain.engine.optim import KINDS
from tuitrain.engine.own.arguments import PARAMETERS, Arguments
from tuitrain.engine.own.optimizer import class_settings
from tuitrain.engine.script.speedrun import is_fitted
from tuitrain.import_strings import TORCHS, is_import_string


def made(config: RunConfig, given: Arguments) -> str:
    """The expression that makes it; `given` is what the person's own functions are called with."""
    parameters = "groups" if is_fitted(config) else "model.parameters()"
    if config.optimizer in KINDS:
        kind = f"torch.optim.{KINDS[config.optimizer].__name__}"
    else:
        kind = f"torch.optim.{config.optimizer.removeprefix(TORCHS)}" if config.optimizer.startswith(TORCHS) else "make_optimizer"
    wanted = given.get("optimizer", (PARAMETERS,))
    if PARAMETERS in wanted:
        wanted = (parameters, *(f"{name}={value}" for name, value in class_settings(config).items()))
    return f"{kind}({', '.join(wanted)})"


def clipped(config: RunConfig, lines: Sequence[str]) -> list[str]:
    """The lines of a step, with its gradients clipped before the update where that is asked for."""
    if config.max_grad_norm is None:
        return list(lines)
    # A person's own optimizer may have some of them only.
    own = '[one for group in optimizer.param_groups for one in group["params"]]'
    parameters = own if is_import_string(config.optimizer) else "model.parameters()"
    clip = f"        nn.utils.clip_grad_norm_({parameters}, {config.max_grad_norm})"
    return [each for line in lines for each in ((clip, line) if line.strip() == "optimizer.step()" else (line,))]

"""The parts of an exported script that few recipes have: a schedule, averaged weights, views, and what the speed run's network asks for."""

from __future__ import annotations

import inspect

from tuitrain.config import RunConfig
from tuitrain.engine.augment import flip_shift, moves
from tuitrain.engine.averaging import Lookahead
from tuitrain.engine.schedule import FACTORS, after_warm_up, set_rates
from tuitrain.engine.views import six_views
from tuitrain.engine.warm_up import FIT_SAMPLES
from tuitrain.import_strings import is_import_string

OWN_SCHEDULE = "own_schedule"
"""What a script calls that of the person."""


def is_fitted(config: RunConfig) -> bool:
    """Whether the network is fitted to the data, and asks for groups of parameters."""
    return config.model == "speedrun"


def fit_lines(config: RunConfig, scaling: str) -> list[str]:
    """After `model` is on `device`, before it is copied or wrapped; `scaling` is how pixels become what the network takes."""
    if not is_fitted(config):
        return []
    dtype = "torch.float64" if config.precision == "fp64" else "torch.float32"
    return [
        f"inputs = train_inputs[:{FIT_SAMPLES}]",
        f"model.fit(inputs.to(device, {dtype}){scaling})",
        f"groups = model.parameter_groups(lr={config.lr}, weight_decay={config.weight_decay})",
    ]


def functions(config: RunConfig) -> list[str]:
    """What the training loop calls, as source."""
    wanted: list[object] = []
    wanted += [moves, flip_shift] if config.augment == "flip-shift" else []
    wanted += [FACTORS[config.lr_schedule]] if config.lr_schedule in FACTORS else []
    wanted += [after_warm_up] if warms_up_to_schedule(config) else []
    wanted += [set_rates] if _sets_rates(config) else []
    wanted += [Lookahead] if config.averaging == "lookahead" else []
    wanted += [six_views] if config.tta else []
    return [line for one in wanted for line in (inspect.getsource(one), "")]  # type: ignore[arg-type]


def before_lines(config: RunConfig, count: str) -> list[str]:
    """Before the training loop; `count` is how many training samples there are."""
    lines = []
    if config.lr_schedule != "none" or config.averaging != "none":
        steps = f"epochs * -(-{count} // batch_size)"
        lines.append(f"total_steps = {steps if config.max_steps is None else f'min({steps}, max_steps)'}")
    if config.averaging == "lookahead":
        lines.append("lookahead = Lookahead(model, total_steps)")
    return lines


def epoch_lines(config: RunConfig, count: str) -> list[str]:
    """At the beginning of an epoch; `count`: see `before_lines`."""
    return [f"    mirrored, shifts = moves({count}, seed, epoch)"] if config.augment == "flip-shift" else []


def augment_lines(config: RunConfig, rows: str) -> list[str]:
    """After a batch is made; `rows` says which of the training samples are in it."""
    moved = f"        inputs = flip_shift(inputs, mirrored[{rows}].to(device), shifts[{rows}].to(device))"
    return [moved] if config.augment == "flip-shift" else []


def step_lines(config: RunConfig) -> list[str]:
    """Between a batch that is ready and what is done with it."""
    if not _sets_rates(config):
        return []
    schedule, warmup = OWN_SCHEDULE if is_import_string(config.lr_schedule) else config.lr_schedule, config.warmup_steps
    if warms_up_to_schedule(config):
        factor = f"after_warm_up({schedule}, step, total_steps, {warmup})"
    elif schedule != "none":
        factor = f"{schedule}(step - 1, total_steps)"
    else:
        factor = f"min(1.0, step / {warmup})" if warmup else "1.0"
    return [f"        set_rates(optimizer, {factor}, epoch)"]


def update_lines(config: RunConfig) -> list[str]:
    """After an update."""
    return ["        lookahead.after_step(step, epoch)"] if config.averaging == "lookahead" else []


def end_lines(config: RunConfig) -> list[str]:
    """After the last step of an epoch."""
    return ["    lookahead.go_back()"] if config.averaging == "lookahead" else []


def warms_up_to_schedule(config: RunConfig) -> bool:
    """Whether a schedule follows a warm-up."""
    return config.lr_schedule != "none" and config.warmup_steps > 0


def _sets_rates(config: RunConfig) -> bool:
    return config.lr_schedule != "none" or config.warmup_steps > 0 or is_fitted(config)

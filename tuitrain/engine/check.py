"""What can be said against a configuration before its run's turn has come: without room on its devices, and with a glance at its data."""

from __future__ import annotations

from collections import deque

import torch

from tuitrain.config import MODELS, RunConfig, own_functions
from tuitrain.engine.criterion import make_criterion
from tuitrain.engine.data import rows_of, stand_in
from tuitrain.engine.models import build_model, model_dtype, takes_rows
from tuitrain.engine.own.imports import import_string
from tuitrain.engine.placement import place
from tuitrain.engine.strategies.choose import check_even, resolve
from tuitrain.engine.tryouts.data import check_data
from tuitrain.engine.tryouts.model import tried
from tuitrain.engine.tryouts.optimizer import try_optimizer
from tuitrain.engine.weights import given_weights
from tuitrain.import_strings import is_import_string

_UNKNOWN_CLASSES = 10
"""Of a person's own data, which is not asked for yet."""


def check(config: RunConfig) -> None:
    """Find the devices, choose the strategy, look for the data, and build and try the model, on the CPU; GPUs are only counted.

    Nothing is decoded or downloaded, and a person's own function for data is only looked for.

    Raises:
        ConfigError: a start would be refused for one of them.
    """
    given = None if config.weights is None else given_weights(config.weights)
    devices = place(config.device, tuple).devices
    resolve(config, devices)
    check_even(config, len(devices), [config.batch_size])
    data = stand_in(config)
    make_criterion(config)
    for field, value in own_functions(config).items():
        if field in ("optimizer", "lr_schedule"):
            import_string(field, value)
    if data is not None:
        data = rows_of(data) if takes_rows(config) else data
        check_data(config, data)
    elif is_import_string(config.data):
        import_string("data", config.data)
    model = build_model(config, _UNKNOWN_CLASSES) if data is None else build_model(config, data.scores, data.sample)
    if given is not None:
        given.fit(model)
    # A person's own model that is meant for a GPU may not be able to do without.
    if data is not None and (config.model in MODELS or all(device.type == "cpu" for device in devices)):
        tried(model.to(model_dtype(config)), data, config, torch.device("cpu"))
    # So may an optimizer.
    if all(device.type == "cpu" for device in devices):
        deque(try_optimizer(model, config, torch.device("cpu")), maxlen=0)

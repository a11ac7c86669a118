"""What can be said against a configuration before its run's turn has come: without its data, and without room on its devices."""

from __future__ import annotations

from tuitrain.config import RunConfig, is_import_string
from tuitrain.engine.imports import import_string
from tuitrain.engine.models import build_model
from tuitrain.engine.placement import place
from tuitrain.engine.strategies.choose import check_even, resolve


def check(config: RunConfig) -> None:
    """Find the devices, choose the strategy, and build the model, on the CPU; GPUs are only counted.

    Raises:
        ConfigError: a start would be refused for one of them.
    """
    devices = place(config.device, tuple).devices
    resolve(config, devices)
    check_even(config, len(devices), [config.batch_size])
    if is_import_string(config.data):
        import_string("data", config.data)
    build_model(config)

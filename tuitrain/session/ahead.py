"""A group's processes, started before this one loads torch: they load it too, and one after the other would take twice as long."""

from __future__ import annotations

from tuitrain.config import RunConfig, parse_device
from tuitrain.session.control import Control
from tuitrain.session.ranks import Ranks
from tuitrain.strategies import stands_for


def ranks_ahead(config: RunConfig, control: Control, agent: str, rank: str) -> Ranks | None:
    """The ranks that `config` will train with, which wait to be told so; `None` where that is not known yet, or they cannot be started.

    Args:
        config: its devices may not be there: nobody has looked.
        control: is told where the ranks will train.
        agent, rank: the modules that the launcher and each rank run.
    """
    devices = parse_device(config.device)
    if not isinstance(devices, tuple) or stands_for(config.strategy, devices) != "ddp":
        return None
    if config.rdzv_endpoint is not None:
        return None  # other machines would meet one that may be refused
    # They inherit the priority of this thread.
    control.placed(devices)
    try:
        return Ranks(agent, rank, config)
    except OSError:
        return None  # whoever starts them in their time says so

"""Small runs on torch's elastic launcher, and what is left of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tuitrain.config import RunConfig, with_changes
from tuitrain.engine.train import train
from tuitrain.events import Event, Losses, RunStarted
from tuitrain.recipes import load_recipe
from tuitrain.session.control import Control
from tuitrain.session.elastic import elastic_train
from tuitrain.session.rank_silence import Bounds

AGENT, RANK = "tuitrain.engine.ranks.agent", "tuitrain.engine.ranks.rank"
# Two processes import torch, on a machine that other tests keep busy.
BOUND = 120.0


def small_run(ranks: int, **changes: Any) -> RunConfig:
    """random-linear on several CPU ranks, in double precision."""
    small = {"device": ",".join(["cpu"] * ranks), "strategy": "ddp" if ranks > 1 else "single", "precision": "fp64"}
    return with_changes(load_recipe("random-linear"), small | changes)


def spread(bounds: Bounds | None = None) -> Callable[..., Any]:
    """The engine's train function, with a group for ddp."""
    return partial(train, spread=partial(elastic_train, agent=AGENT, rank=RANK, bounds=bounds))


def quiet_control() -> Control:
    """One that leaves the calling thread its priority: a test's own thread would hand the lower one on to all that it starts later."""
    control = Control(list)
    control.placed = lambda devices: None  # type: ignore[method-assign]
    return control


def events_of(config: RunConfig, folder: Path) -> list[Event]:
    """All events of a run that nobody disturbs."""
    control, events = quiet_control(), []
    for event in spread()(config, control):
        if isinstance(event, RunStarted):
            control.folder = folder
            folder.mkdir(exist_ok=True)
        events.append(event)
    return events


def losses_of(events: list[Event]) -> dict[int, float]:
    blocks = [event for event in events if isinstance(event, Losses)]
    return {block.first_step + index: loss for block in blocks for index, loss in enumerate(block.losses)}


def processes_of(pid: int, module: str) -> list[psutil.Process]:
    """The descendants of a process that run `module`, ranks in their order. Process numbers begin again at some time."""
    found = [child for child in psutil.Process(pid).children(recursive=True) if _command(child)[4:5] == [module]]
    return sorted(found, key=lambda child: (int(child.environ().get("RANK", 0)), child.create_time()))


def wait_until(holds: Callable[[], Any], bound: float) -> None:
    end = time.monotonic() + bound
    while not holds():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.05)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []

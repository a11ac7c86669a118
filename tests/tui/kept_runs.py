"""Runs in folders for the screens that read them, and waiting for what a thread reads."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from fakes import screen_text, seed_cnn, started
from textual.pilot import Pilot

from tuitrain.config import RunConfig
from tuitrain.events import Checkpoint, Eval, Event, Losses, Replica, Replicas, RunEnded, State, Step
from tuitrain.paths import METRICS
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.process import this_process
from tuitrain.runs.record import RunRecord
from tuitrain.runs.store import MetricsWriter

PATIENCE = 60.0


def events_of(steps: int) -> list[Event]:
    """A finished run of so many steps whose loss falls."""
    replica = Replica(index=0, device="cpu", input=(64, 3, 32, 32), output=(64, 10), loss=2.0)
    values = tuple(0.5 + 2 * math.exp(-step / 20) for step in range(1, steps + 1))
    return [
        State(state="running"),
        Losses(first_step=1, epoch=1, losses=values, times=tuple(1000.0 + step for step in range(steps))),
        Replicas(step=1, batch=(64, 3, 32, 32), replicas=(replica,)),
        Step(step=steps, epoch=1, loss=values[-1], lr=0.01, samples_per_second=640.0),
        Eval(step=steps, epoch=1, loss=0.7, loss_sum=1.4, accuracy=0.625),
        Checkpoint(step=steps, path=f"checkpoints/step-{steps:08}", kind="best"),
        RunEnded(state="finished", step=steps),
    ]


def keep(runs_dir: Path, run: str, *, steps: int = 40, config: RunConfig | None = None, **status: Any) -> Path:
    """A run folder of that id, begun when the id says, with `status` in its state.json."""
    status = {"started": f"{run[:4]}-{run[4:6]}-{run[6:8]}T{run[9:11]}:{run[11:13]}:00.000Z", **status}
    config = config or seed_cnn()
    sizes = {"train_samples": 640, "test_samples": 100, "steps_per_epoch": max(steps, 1), "total_steps": max(steps, 1)}
    start = started(recipe=config.recipe, data="synthetic", **sizes)
    folder = RunFolder.create(runs_dir, config, start, {"threads": 2, "torch": "2.9.0"})
    record, writer = RunRecord(config), MetricsWriter(folder.path / METRICS)
    for event in [start, *(events_of(steps) if steps else [State(state="running")])]:
        record.apply(event)
        writer.append([event])
    writer.close()
    folder.log(record.log.tail(100))
    folder.write_state(msgspec.structs.replace(folder.status.with_record(record), **status))
    if steps:
        checkpoint = folder.path / "checkpoints" / f"step-{steps:08}"
        checkpoint.mkdir()
        (checkpoint / "manifest.json").write_bytes(msgspec.json.encode({"step": steps, "kind": "epoch"}))
        with open(checkpoint / "model.safetensors", "wb") as weights:
            weights.truncate(3 * 2**20)
    path = runs_dir / run
    folder.path.rename(path)
    return path


def here(**status: Any) -> dict[str, Any]:
    """What the state of a run says that this very process seems to train."""
    return {"state": "running", "pid": os.getpid(), "pid_started": this_process().pid_started, "error": None, **status}


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Let the app go on until `condition` holds."""
    end = time.monotonic() + PATIENCE
    # Looking at the screen costs more than waiting: what takes long is looked at less often.
    rest = 0.005
    while not condition():
        assert time.monotonic() < end, screen_text(pilot.app)
        await pilot.pause(rest)
        rest = min(rest * 1.5, 0.1)


async def resize(pilot: Pilot[None], width: int, height: int) -> None:
    """Give the terminal another size, and let the app go on until its screen has it: Textual tells it a moment later."""
    await pilot.resize_terminal(width, height)
    await until(pilot, lambda: pilot.app.screen.size == (width, height))


async def until_shown(pilot: Pilot[None], *texts: str) -> str:
    """Let the app go on until the screen shows all of `texts`; what it shows then."""
    shown = ""

    def there() -> bool:
        nonlocal shown
        shown = screen_text(pilot.app)
        return all(text in shown for text in texts)

    await until(pilot, there)
    return shown


async def until_told(pilot: Pilot[None], text: str) -> None:
    """Let the app go on until a toast says `text`, however it wraps it."""
    await until(pilot, lambda: any(text in one.message for one in pilot.app._notifications))

"""A session and a sampler that the tests and pictures of the screens are made with: no threads, no devices, no clock."""

from __future__ import annotations

import math
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from textual.app import App
from textual.pilot import Pilot

from tuitrain.config import RunConfig, with_changes
from tuitrain.devices import DeviceSample, DeviceSnapshot, HistoryPoint, HostSample, ProcessSample
from tuitrain.events import (
    Checkpoint,
    Eval,
    Event,
    GpuSample,
    Losses,
    Notice,
    Progress,
    Replica,
    Replicas,
    ReplicaStat,
    ReplicaStats,
    RunEnded,
    RunStarted,
    State,
    Step,
)
from tuitrain.recipes import load_recipe
from tuitrain.runs.errors import RunError
from tuitrain.runs.made_with import config_of
from tuitrain.runs.record import RunRecord
from tuitrain.runs.silence import Wait
from tuitrain.runs.summary import RunSummary
from tuitrain.tui.app import TuitrainApp

RUN = "20261121-0413-seed-cnn-k3f"
GIB = 2**30


def started(**changes: Any) -> RunStarted:
    """The start of `seed-cnn` on CIFAR-10 and the CPU, with these changes."""
    usual = RunStarted(
        recipe="seed-cnn",
        device=("cpu",),
        strategy="single",
        data="cifar10",
        parameters=145_578,
        train_samples=50_000,
        test_samples=10_000,
        steps_per_epoch=782,
        total_steps=7820,
    )
    return msgspec.structs.replace(usual, **changes)


class FakeSession:
    """Does what it is told at once; `say` plays the engine."""

    def __init__(self) -> None:
        self.record: RunRecord | None = None
        self.refusal: str | None = None
        self.state: Literal["idle", "preparing", "running", "paused", "stopping", "ended"] = "idle"
        self.asked: list[str] = []
        self.started: list[RunConfig] = []
        self.resumed: list[Path | None] = []
        self.screen_attached = False
        self.slow_stop = False
        self.clock: Callable[[], float] = time.monotonic
        self._listeners: list[Callable[[Sequence[Event]], None]] = []

    def start(self, config: RunConfig, *, resume: Path | None = None) -> None:
        if self.state not in ("idle", "ended"):
            raise RuntimeError("a run is alive")
        self.started.append(config)
        self.resumed.append(resume)
        self.refusal = None
        self.record = RunRecord(config, self.clock)
        self.state = "preparing"
        self.say(Progress(phase="importing torch"))

    def say(self, *events: Event) -> None:
        assert self.record is not None
        for event in events:
            self.record.apply(event)
        for listener in self._listeners:
            listener(events)

    def begin(
        self,
        *,
        total: int = 7820,
        device: tuple[str, ...] = ("cpu",),
        shape: tuple[int, ...] = (64, 3, 32, 32),
        strategy: str = "single",
        readers: int = 0,
    ) -> None:
        """Past the preparations, to the first step's shapes."""
        self.state = "running"
        steps = max(total // 10, 1)
        self.say(
            started(run=RUN, device=device, strategy=strategy, readers=readers, steps_per_epoch=steps, total_steps=total),
            State(state="running"),
            Replicas(step=1, batch=shape, replicas=(Replica(index=0, device=device[0], input=shape, output=(shape[0], 10), loss=2.31),)),
        )

    def steps(self, count: int, *, noise: float = 0.15) -> None:
        """More steps of a loss that falls."""
        assert self.record is not None
        first = self.record.step + 1
        dice = random.Random(first)
        losses = tuple(0.5 + 1.8 * math.exp(-step / 900) + dice.uniform(-noise, noise) for step in range(first, first + count))
        last = first + count - 1
        epoch = (last - 1) // 782 + 1
        self.say(
            Losses(first_step=first, epoch=epoch, losses=losses, times=tuple(0.0 for _ in losses)),
            Step(step=last, epoch=epoch, loss=losses[-1], lr=0.01, samples_per_second=41234.0),
            ReplicaStats(
                step=last, replicas=(ReplicaStat(index=0, loss=losses[-1], step_seconds=0.0031, samples_per_second=41234.0, memory=GIB),)
            ),
        )

    def evaluate(self) -> None:
        assert self.record is not None
        step = self.record.step
        self.say(Eval(step=step, epoch=self.record.epoch, loss=0.6 + 1.8 * math.exp(-step / 900), loss_sum=200.0, accuracy=0.542))

    def end(self, state: Literal["finished", "stopped", "failed", "interrupted"] = "finished", error: str | None = None) -> None:
        assert self.record is not None
        self.state = "ended"
        self.say(RunEnded(run=RUN, state=state, step=self.record.step, error=error))

    def refuse(self, sentence: str) -> None:
        self.refusal = sentence
        self.state = "ended"
        for listener in self._listeners:
            listener(())

    def pause(self) -> None:
        self.asked.append("pause")
        self.state = "paused"
        self.say(State(state="paused"))

    def resume(self) -> None:
        self.asked.append("resume")
        self.state = "running"
        self.say(State(state="running"))

    def stop(self) -> None:
        self.asked.append("stop")
        if self.slow_stop or self.record is None:
            self.state = "stopping"
            return
        self.say(Checkpoint(step=self.record.step, path="checkpoints/step-00000001", kind="last"))
        self.end("stopped")

    def interrupt(self) -> None:
        self.asked.append("interrupt")

    def checkpoint(self) -> None:
        self.asked.append("checkpoint")

    def subscribe(self, listener: Callable[[Sequence[Event]], None]) -> None:
        self._listeners.append(listener)

    def join(self, timeout: float) -> bool:
        return self.state in ("idle", "ended")

    def note(self, event: GpuSample | Notice) -> None:
        if self.record is not None:
            self.record.apply(event)


class FakeLine:
    """A line on which the run says what a test puts into `says`."""

    def __init__(self) -> None:
        self.says: queue.Queue[Event | None] = queue.Queue()
        self.closed = threading.Event()

    def watch(self) -> Iterator[Event]:
        while (event := self.says.get()) is not None:
            yield event

    def close(self) -> None:
        self.closed.set()
        self.says.put(None)


class FakeOutside:
    """Other processes that do at once what they are asked, or refuse with `refusal`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.started: list[tuple[RunConfig, Path | None]] = []
        self.queued: list[tuple[RunConfig, Path | None]] = []
        self.revived: list[str] = []
        """Which queued runs are let wait again when the app starts."""
        self.handed: list[object] = []
        self.lines: list[FakeLine] = []
        self.answers = False
        """Whether somebody answers for live runs."""
        self.refusal: str | None = None
        self.surprise: Exception | None = None
        """What nobody foresees is raised."""
        self.may_go_on = threading.Event()
        """Cleared, a start or a handing over takes as long as the test likes."""
        self.may_go_on.set()

    def connect(self, path: Path) -> FakeLine | None:
        if not self.answers:
            return None
        self.lines.append(FakeLine())
        return self.lines[-1]

    def ask(self, path: Path, command: str) -> None:
        self._refuse()
        self.asked.append((path.name, command))

    def plan(self, run: RunSummary, changes: Mapping[str, str]) -> RunConfig:
        self._refuse()
        return with_changes(config_of(run.path), dict(changes), from_text=True)

    def start(self, config: RunConfig, runs_dir: Path, *, resume: Path | None = None, queue: bool = False) -> str:
        assert self.may_go_on.wait(60)
        self._refuse()
        (self.queued if queue else self.started).append((config, resume))
        return resume.name if resume else RUN

    def wait_again(self, run: RunSummary) -> str:
        self._refuse()
        self.asked.append((run.run, "wait"))
        return f"{run.run} waits for cpu."

    def revive(self, runs_dir: Path) -> list[str]:
        return self.revived

    def take_out(self, run: RunSummary, wait: Wait) -> str:
        self._refuse()
        self.asked.append((run.run, "stop"))
        status = msgspec.json.decode((run.path / "state.json").read_bytes())
        (run.path / "state.json").write_bytes(msgspec.json.encode({**status, "state": "stopped", "queue": None}))
        return f"{run.run} stopped at step 0"

    def hand_over(self, session: object) -> str:
        assert self.may_go_on.wait(60)
        self._refuse()
        self.handed.append(session)
        return RUN

    def _refuse(self) -> None:
        if self.surprise is not None:
            raise self.surprise
        if self.refusal is not None:
            raise RunError(self.refusal)


HOST = HostSample(name="AMD EPYC 7B13 64-Core Processor", cores=64, cpu_percent=12.0, ram_used=31 * GIB, ram_total=512 * GIB)


def card(index: int, **changes: object) -> DeviceSample:
    """A healthy card that is half busy."""
    fields: dict[str, object] = {
        "nvml_index": index,
        "cuda_index": index,
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_used": 7 * GIB,
        "memory_total": 80 * GIB,
        "memory_free": (73 - index) * GIB,
        "utilization": 83,
        "temperature": 61,
        "power": 412.0,
        "power_cap": 700.0,
        "processes": (),
    }
    return DeviceSample(**{**fields, **changes})  # type: ignore[arg-type]


def busy_card(index: int) -> DeviceSample:
    """A card that somebody else uses."""
    return card(index, processes=(ProcessSample(pid=1, name="python", user="alice", memory=18 * GIB),), memory_free=10 * GIB)


class FakeSampler:
    """Gives the snapshot that it holds."""

    def __init__(self, *devices: DeviceSample, error: str | None = None, host: HostSample = HOST) -> None:
        self.devices = devices
        self.error = error
        self.host = host
        self.age = 0.0
        self.stalled = 0.0
        self.taken: float | None = 0.0
        self.driver: str | None = None
        self.cuda: str | None = None
        self.past: dict[str, list[HistoryPoint]] = {}

    def latest(self) -> DeviceSnapshot:
        taken = None if self.taken is None else time.monotonic() - self.age
        return DeviceSnapshot(
            time=time.time(),
            taken=taken,
            devices=self.devices,
            host=self.host,
            driver_version=self.driver,
            cuda_version=self.cuda,
            error=f"NVML not responding for {self.stalled:.0f} s" if self.stalled else self.error,
            stalled_seconds=self.stalled,
        )

    def history(self, key: str, seconds: float = 3600) -> Sequence[HistoryPoint]:
        if key in self.past:
            return [point for point in self.past[key] if point.time >= time.time() - seconds]
        return [
            HistoryPoint(time=float(i), utilization=50 + 40 * math.sin(i / 3), memory_used=None, power=None, temperature=None)
            for i in range(60)
        ]


NO_GPU = "no NVIDIA driver found (libnvidia-ml.so.1 is missing)"


def cpu_sampler() -> FakeSampler:
    """A machine without a GPU."""
    return FakeSampler(error=NO_GPU)


def seed_cnn() -> RunConfig:
    """The first recipe."""
    return load_recipe("seed-cnn")


def screen_text(app: App[None]) -> str:
    """What the top screen shows."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def said(app: App[None]) -> str:
    """What is on the screen as one line, with sentences that were broken made whole again."""
    return " ".join(" ".join(line.strip("│ ") for line in screen_text(app).splitlines()).split())


async def settle(pilot: Pilot[None]) -> None:
    """Let messages, layout and the first beat of redraws pass, without waiting for the clock."""
    await pilot.pause()
    app = pilot.app
    assert isinstance(app, TuitrainApp)
    for _ in range(2):
        app.main.beat()
        await pilot.pause()

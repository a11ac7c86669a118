"""The doctor's examination beside everything else that the app does: a thread of its own that can be stopped and joined."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from tuitrain.devices.sampler import WAKE_SECONDS
from tuitrain.session.background import Background
from tuitrain.text import clean

if TYPE_CHECKING:
    from pathlib import Path

    from tuitrain.devices import DeviceSnapshot
    from tuitrain.devices.doctor.model import Check, Report
    from tuitrain.tui.sampler import SamplerLike


class Doctor(Protocol):
    """What the screen needs of `tuitrain.devices.doctor`. Both calls block, and end soon after `stop` is set."""

    def examine(self, snapshot: DeviceSnapshot, runs_dir: Path, *, say: Callable[[str], None], stop: threading.Event) -> Report:
        """Look at everything; `say` gets the name of what is being looked at."""
        ...

    def all_reduce(self, snapshot: DeviceSnapshot, *, stop: threading.Event) -> Check:
        """Let the GPUs, or two processes on the CPU, add numbers with one another."""
        ...

    def as_text(self, report: Report) -> str:
        """The report to paste into a forum."""
        ...


class MachineDoctor:
    """The doctor of the machine that the app runs on."""

    def examine(self, snapshot: DeviceSnapshot, runs_dir: Path, *, say: Callable[[str], None], stop: threading.Event) -> Report:
        """As `Doctor` says."""
        from tuitrain.devices.doctor import examine

        return examine(snapshot, runs_dir, say=say, stop=stop)

    def all_reduce(self, snapshot: DeviceSnapshot, *, stop: threading.Event) -> Check:
        """Between the first two GPUs that CUDA offers; between two processes on the CPU where there are fewer."""
        from tuitrain.devices.doctor import all_reduce, two_devices

        return all_reduce(two_devices(snapshot), stop=stop)

    def as_text(self, report: Report) -> str:
        """As `Doctor` says."""
        from tuitrain.devices.doctor import as_text

        return as_text(report)


class Examination(Background):
    """One examination, or one test of how the GPUs talk to one another, at a time: nothing may be begun while `busy`.

    Args:
        doctor: does the work.
        sampler: says what the devices do.
        runs_dir: where the runs are kept.
        changed: called from the thread when there is something new to show; it must not block.
    """

    def __init__(self, doctor: Doctor, sampler: SamplerLike, runs_dir: Path, changed: Callable[[], None]) -> None:
        super().__init__("tuitrain-doctor", changed)
        self.report: Report | None = None
        """The newest one; it stays while another examination is under way."""
        self.steps: Sequence[str] = ()
        """What is being looked at, and before it what this examination has looked at already."""
        self.asked_for: str | None = None
        """The check that was asked for by itself, where the newest work was about one."""
        self.problem: str | None = None
        """Why the last one came to nothing, in one sentence."""
        self._doctor = doctor
        self._sampler = sampler
        self._runs_dir = runs_dir

    def examine(self) -> None:
        """Look at everything."""
        self._start(self._examine)

    def all_reduce(self) -> None:
        """Test how the GPUs talk to one another, and put what comes of it into the report, which there must be."""
        self._start(self._all_reduce)

    def _start(self, work: Callable[[threading.Event], Report]) -> None:
        self.steps, self.problem, self.asked_for = (), None, None
        self._begin(partial(self._work, work))

    def _work(self, work: Callable[[threading.Event], Report], stop: threading.Event) -> None:
        problem, report = None, None
        try:
            report = work(stop)
        except Exception as error:  # the app lives on, whatever the machine answers
            first = str(error).strip().partition("\n")[0]
            problem = clean(f"The examination failed ({type(error).__name__}{': ' if first else ''}{first}).")
        if not stop.is_set():
            self.report, self.problem = report or self.report, problem

    def _examine(self, stop: threading.Event) -> Report:
        self._say("what NVML says")
        snapshot = self._sampler.latest()
        deadline = time.monotonic() + WAKE_SECONDS
        while snapshot.taken is None and not snapshot.stalled_seconds and time.monotonic() < deadline and not stop.wait(0.05):
            snapshot = self._sampler.latest()
        return self._doctor.examine(snapshot, self._runs_dir, say=self._say, stop=stop)

    def _all_reduce(self, stop: threading.Event) -> Report:
        self._say("how the devices talk, 30 s at most")
        found = self._doctor.all_reduce(self._sampler.latest(), stop=stop)
        assert self.report is not None
        self.asked_for = found.check
        checks = tuple(check for check in self.report.checks if check.check != found.check)
        return msgspec.structs.replace(self.report, checks=(*checks, found))

    def _say(self, what: str) -> None:
        self.steps = (*self.steps, clean(what))
        self._changed()

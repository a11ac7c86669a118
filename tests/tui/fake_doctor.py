"""A doctor that answers at once, or when it is let, with a report that the test chose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tuitrain.devices import DeviceSnapshot
from tuitrain.devices.doctor.model import Check, Count, Report

STEPS = ("on the PCI bus", "known to the driver", "may be opened", "seen by NVML", "left by CUDA_VISIBLE_DEVICES", "counted by torch")
LOOKED = ("the PCI bus", "the driver", "torch, in a process of its own")
PATIENCE = 60.0


def counts(*numbers: int | None, notes: dict[int, str] | None = None) -> tuple[Count, ...]:
    """The ladder with these numbers."""
    return tuple(
        Count(step=step, count=number, note=(notes or {}).get(place, ""))
        for place, (step, number) in enumerate(zip(STEPS, numbers, strict=True))
    )


def ok(check: str, title: str, found: str) -> Check:
    return Check(check=check, title=title, looked_at=f"/proc/{check}", found=found, verdict="ok")


VISIBLE = Check(
    check="visible-devices",
    title="CUDA_VISIBLE_DEVICES",
    looked_at="the environment variable CUDA_VISIBLE_DEVICES, read as torch reads it",
    found="'0,2' names GPU 2, and this machine has GPUs 0 and 1: an entry that is not there cuts the list, so only GPU 0 is left.",
    verdict="problem",
    mend="`export CUDA_VISIBLE_DEVICES=0,1`",
)
SHM = Check(
    check="shm",
    title="Shared memory",
    looked_at="the size of /dev/shm",
    found="64 MiB, the default of a container; workers and NCCL need more with two GPUs.",
    verdict="warning",
    mend="Start the container with: `docker run --shm-size=8g IMAGE`, or with --ipc=host.",
)
TWO_GPUS = Report(
    conclusion="This machine has 2 GPUs and torch counts 1: one got lost at CUDA_VISIBLE_DEVICES='0,2', whose entry 2 is not there.",
    counts=counts(2, 2, 2, 2, 1, 1, notes={0: "and an Intel UHD 770, which CUDA cannot use", 4: "entry 2 names no GPU and cuts the list"}),
    checks=(
        ok("driver", "Driver", "580.95.05, for CUDA up to 13.0"),
        ok("torch-build", "torch's build", "2.9.0 for CUDA 12.8"),
        VISIBLE,
        ok("uvm", "Unified memory module", "/dev/nvidia-uvm is there"),
        SHM,
        *(ok(f"more-{number}", f"Check {number}", f"all right {number}") for number in range(12)),
    ),
)
HEALTHY = Report(
    conclusion="All is well: torch sees both GPUs of this machine.",
    counts=counts(2, 2, 2, 2, 2, 2),
    checks=(ok("driver", "Driver", "580.95.05, for CUDA up to 13.0"), ok("torch-build", "torch's build", "2.9.0 for CUDA 12.8")),
)
REDUCED = Check(
    check="all-reduce",
    title="All-reduce",
    looked_at="two processes that add numbers",
    found="2 ranks over gloo on the CPU in 0.8 s.",
    verdict="ok",
)


class FakeDoctor:
    """Says what it looks at, waits for `gate` where it has one, and gives `reports` one after the other, the last one for ever."""

    def __init__(self, *reports: Report | Exception, looked: Sequence[str] = LOOKED) -> None:
        self.reports = list(reports or (TWO_GPUS,))
        self.looked = looked
        self.gate: threading.Event | None = None
        self.reduced: Check | Exception = REDUCED
        self.asked: list[str] = []
        self.runs_dir: Path | None = None
        self.snapshot: DeviceSnapshot | None = None
        self.stopped = False

    def examine(self, snapshot: DeviceSnapshot, runs_dir: Path, *, say: Callable[[str], None], stop: threading.Event) -> Report:
        self.asked.append("examine")
        self.snapshot, self.runs_dir = snapshot, runs_dir
        for what in self.looked:
            say(what)
        self._wait(stop)
        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        if isinstance(report, Exception):
            raise report
        return report

    def all_reduce(self, snapshot: DeviceSnapshot, *, stop: threading.Event) -> Check:
        self.asked.append("all-reduce")
        self._wait(stop)
        if isinstance(self.reduced, Exception):
            raise self.reduced
        return self.reduced

    def as_text(self, report: Report) -> str:
        return f"tuitrain doctor\n{report.conclusion}\n"

    def _wait(self, stop: threading.Event) -> None:
        while self.gate is not None and not self.gate.wait(0.01):
            if stop.is_set():
                self.stopped = True
                return

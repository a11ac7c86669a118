"""The monitor alone, and one sample, beside nvitop on the same stand-in for NVML."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import NamedTuple

import psutil

from benchmarks.pairs import Figure, Wanted, measure, own
from benchmarks.programs import TUITRAIN, Screen, runs_dir, side_by_side

STUB = Path(__file__).parents[1] / "tests" / "nvml_stub" / "nvml_stub.c"
NVITOP = str(Path(sys.executable).with_name("nvitop"))
SETTLE_SECONDS = 3.0
WATCHED_SECONDS = 18.0
MOST_START_SECONDS = 30.0
"""For what a program starts beside itself at first, such as tuitrain a process that reads torch's files once."""
SAMPLE_SECONDS = 0.5
WINDOWS = 2
"""The values hardly differ from one to the next."""

STEADY = "count 3\ncard * utilization 97\ncard * memory_used 19327352832\n"
BUSY = """count 3
card * utilization 91 97 88 95 99 93 90 96
card * memory_used 19327352832 19829620736 20329620736
card * power 412000 398000 431000 405000
card * temperature 61 61 62 62 61
"""
EIGHT = "count 8\n" + "".join(
    f"process {card} compute {os.getpid()} 1073741824\nprocess {card} compute 1 1073741824\n" for card in range(8)
)


@contextmanager
def stand_in(scenario: str) -> Iterator[dict[str, str]]:
    """The environment under which a program finds the stand-in with `scenario`; it is compiled into a folder that goes away."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-pthread", "-o", str(library), str(STUB)], check=True)
        path = Path(folder) / "scenario.txt"
        path.write_text(scenario)
        yield {"LD_LIBRARY_PATH": folder, "TUITRAIN_NVML_SCENARIO": str(path)}


@dataclass(frozen=True)
class Watched:
    """What a monitor took over `WATCHED_SECONDS`: bytes a second to the terminal, percent of a core, MB resident at the end."""

    rate: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Monitor:
    """A program that shows something.

    Attributes:
        command: starts it.
        env: variables for it.
        keys: what is typed to get to what is watched.
        children_stay: it works in processes of its own, so that there is no end of them to wait for.
    """

    command: list[str]
    env: Mapping[str, str]
    keys: str = ""
    children_stay: bool = False


def watched(monitors: Sequence[Monitor]) -> list[list[Watched]]:
    """What each of `monitors` takes in each of `WINDOWS`. They run at the same time: each needs so little of a core that none is in
    another's way, and all of them see the same machine."""
    with ExitStack() as open_screens:
        screens = [open_screens.enter_context(closing(Screen(each.command, dict(each.env)))) for each in monitors]
        settled = [Event() for _ in monitors]
        takers = zip(screens, monitors, settled, strict=True)
        return side_by_side([partial(_watch, screen, each, mine, settled) for screen, each, mine in takers])


def _watch(screen: Screen, monitor: Monitor, settled: Event, all_settled: Sequence[Event]) -> list[Watched]:
    screen.discard(SETTLE_SECONDS)
    screen.child.send(monitor.keys)
    screen.discard(SETTLE_SECONDS)
    root, patience = psutil.Process(screen.child.pid), time.perf_counter() + MOST_START_SECONDS
    while not monitor.children_stay and starting(root) and time.perf_counter() < patience:
        screen.discard(SAMPLE_SECONDS)
    settled.set()
    # What comes meanwhile is taken in: a program whose terminal nobody reads would stand still.
    while not all(each.is_set() for each in all_settled):
        screen.discard(SAMPLE_SECONDS)
    return [_window(screen, root) for _ in range(WINDOWS)]


def starting(root: psutil.Process) -> bool:
    """Whether something that it started beside itself has not ended; the shell that gives a killed tuitrain's terminal back stays."""
    with suppress(psutil.NoSuchProcess):
        return any(child.name() != "sh" for child in root.children())
    return True


def _window(screen: Screen, root: psutil.Process) -> Watched:
    before, begin = _used(root), time.perf_counter()
    count = screen.discard(WATCHED_SECONDS)
    seconds, after = time.perf_counter() - begin, _used(root)
    return Watched(count / seconds, 100 * (after.cpu - before.cpu) / seconds, after.memory)


class _Used(NamedTuple):
    """Seconds of the processor so far, and MB resident."""

    cpu: float
    memory: float


def _used(root: psutil.Process) -> _Used:
    """What a process and its children have used; one that has ended counts for its parent."""
    cpu = memory = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess), process.oneshot():
            cpu += sum(process.cpu_times()[:4])
            memory += process.memory_info().rss / 2**20
    return _Used(cpu, memory)


def monitor(wanted: Wanted) -> list[Figure]:
    """The GPU screen of three cards at 120×40, whose values hold still and whose values all change, beside nvitop."""
    with stand_in(STEADY) as steady, stand_in(BUSY) as busy, runs_dir() as (_, env):
        monitors = [
            monitor
            for nvml in (steady, busy)
            for monitor in (Monitor([TUITRAIN], {**env, **nvml}, "g"), Monitor([NVITOP, "--monitor"], nvml))
        ]
        steady_ours, steady_peer, busy_ours, busy_peer = watched(monitors)
    return [
        *watched_lines("GPU screen, 3 steady cards", steady_ours, steady_peer, "nvitop"),
        *watched_lines("GPU screen, 3 busy cards", busy_ours, busy_peer, "nvitop"),
    ]


def watched_lines(name: str, ours: Sequence[Watched], peer: Sequence[Watched], what: str) -> list[Figure]:
    """A line for each value."""
    return [
        own(f"{name}, {value}", list(map(of, ours)), list(map(of, peer)), most=most, unit=unit, what=what)
        for value, unit, most, of in VALUES
    ]


VALUES: tuple[tuple[str, str, float, Callable[[Watched], float]], ...] = (
    ("terminal output", "B/s", 200, lambda watched: watched.rate),
    ("processor", "% of a core", 1, lambda watched: watched.cpu),
    ("memory", "MB", 70, lambda watched: watched.memory),
)


_OURS = """
from tuitrain.devices.cards import CardReader
from tuitrain.devices.nvml import Nvml
reader = CardReader(Nvml())
take = lambda: (reader.glance(), reader.sample())
"""
_PEER = """
from nvitop import Device, take_snapshots
cards = Device.all()
take = lambda: take_snapshots(cards, gpu_processes=True)
"""
_ROUNDS = """
import json, time
for _ in range(20):
    take()
taken = []
for _ in range(100):
    begin = time.perf_counter()
    take()
    taken.append(time.perf_counter() - begin)
print(json.dumps(sorted(taken)[50]))
"""


def sample_cost(wanted: Wanted) -> list[Figure]:
    """One sample of eight cards with sixteen processes: the median of a hundred, beside nvitop's snapshot of the same cards."""
    with stand_in(EIGHT) as nvml:

        def median(program: str) -> float:
            done = subprocess.run(
                [sys.executable, "-c", program + _ROUNDS], env={**os.environ, **nvml}, capture_output=True, text=True, check=True
            )
            return float(json.loads(done.stdout))

        taken = measure(lambda: median(_OURS), lambda: median(_PEER), max(wanted.pairs, 5))
    ours, peer = [a for a, _ in taken], [b for _, b in taken]
    return [own("one sample of 8 cards", [1000 * a for a in ours], [1000 * b for b in peer], most=5, unit="ms", what="nvitop")]

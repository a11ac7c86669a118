"""The processes on a card: what NVML lists by number, and what the system knows of each number."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tuitrain.devices import nvml
from tuitrain.devices.questions import Questions
from tuitrain.devices.samples import ProcessSample
from tuitrain.python import ELSEWHERE
from tuitrain.text import clean
from tuitrain.wire import RANK_MODULE

if TYPE_CHECKING:
    import psutil

COMMAND_LENGTH = 200
NAME_LENGTH = 64

_FIRST_NAMESPACE = "pid:[4026531836]"
"""The kernel's own number for the machine's process numbers, as opposed to a container's."""
_CARD_FILES = ("/dev/nvidia", "/dev/dxg")
_SHARES_MICROSECONDS = 1_000_000
"""How old a sample of what a process did may be: drivers take one every sixth of a second to every second."""


class Listed:
    """One process as NVML lists it: its kind, bytes on the card, and how much of the card's time it took of late, 0..100."""

    __slots__ = ("kind", "memory", "utilization")

    def __init__(self, kind: str, memory: int | None) -> None:
        self.kind = kind
        self.memory = memory
        self.utilization: float | None = None


def listed(ask: Questions, total: int | None) -> dict[int, Listed] | None:
    """The processes of a card or instance by pid; one that both computes and draws is in two of NVML's lists. `total` is its memory."""
    found: dict[int, Listed] = {}
    computing = _ask_list(ask, "Compute")
    if computing is None:
        return None
    for kind, processes in (("C", computing), ("G", _ask_list(ask, "Graphics")), ("M+C", _ask_list(ask, "MPSCompute"))):
        for process in processes or ():
            memory = _believable(process.usedGpuMemory, total, kind)
            known = found.get(process.pid)
            if known is None:
                found[process.pid] = Listed(kind, memory)
            else:
                known.kind = "M+C" if kind == "M+C" else "C+G" if kind == "G" else known.kind
                known.memory = memory if known.memory is None else known.memory
    if found and (shares := _shares(ask, found.keys())) is not None:
        for pid, process in found.items():
            # Who did nothing has no sample.
            process.utilization = shares.get(pid, 0.0)
    return found


def _shares(ask: Questions, pids: Set[int]) -> Mapping[int, float | None] | None:
    """How much of the card's time processes took in the newest samples of the driver, 0..100; `None` where it keeps none, as for instances,
    or none of any of `pids`: in a container samples have the host's numbers.

    Asked from a second ago on, as nvitop does: from longer ago the driver gives means, and processes that have gone. Of such ones numbers
    far above 100 were seen (nvtop's issue 110), which are no answer.
    """
    samples = ask("nvmlDeviceGetProcessUtilization", time.time_ns() // 1000 - _SHARES_MICROSECONDS)
    if samples is None:
        return {} if ask.code == nvml.NOT_FOUND else None
    if samples and pids.isdisjoint(sample.pid for sample in samples):
        return None
    newest_last = sorted(samples, key=lambda sample: sample.timeStamp)
    return {sample.pid: float(sample.smUtil) if sample.smUtil <= 100 else None for sample in newest_last}


def _ask_list(ask: Questions, kind: str) -> Any:
    processes = ask(f"nvmlDeviceGet{kind}RunningProcesses_v3")
    if processes is None and ask.code == nvml.FUNCTION_NOT_FOUND:
        return ask(f"nvmlDeviceGet{kind}RunningProcesses_v2")
    return processes


def _believable(used: int | None, total: int | None, kind: str) -> int | None:
    """`used`, unless it cannot be.

    More than the card has, as where a driver lays its list out otherwise than the library says (see `nvml`). Nothing, though whoever
    computes has a context: in a container drivers list a process by its number there, and look for its bytes by the host's (HAMi-core's
    issue 112).
    """
    if used is None or used >= 2**63 or (total is not None and used > total):
        return None
    return None if used == 0 and kind != "G" else used


class _Known:
    """What is asked once of a process, and its CPU time at the last look."""

    def __init__(self, process: psutil.Process) -> None:
        self.process = process
        self.believed = False
        words = _command_line(process)
        module = _module_of_tuitrain(words)
        self.name = _text(process.name, NAME_LENGTH) if module is None else "tuitrain"
        self.user = _text(process.username, NAME_LENGTH)
        self.command = _text(lambda: " ".join(words), COMMAND_LENGTH)
        self.rank_of = _host_of(process) if module == RANK_MODULE else None
        self.started = process.create_time()
        self._cpu: tuple[float, float] | None = None

    def cpu_percent(self) -> float | None:
        """Of one core since the last look; `None` at the first."""
        times = self.process.cpu_times()
        spent, now = float(times.user + times.system), time.monotonic()
        last, self._cpu = self._cpu, (spent, now)
        if last is None or now <= last[1]:
            return None
        return max(0.0, 100 * (spent - last[0]) / (now - last[1]))


def _command_line(process: psutil.Process) -> list[str]:
    """Its words; those of a process of tuitrain's, to which Python is given its program as text, as if it had been started with `-m`."""
    import psutil

    try:
        words: list[str] = process.cmdline()
    # One that has ended and holds the card all the same, as after a fault of the driver, has a name and a user.
    except (psutil.AccessDenied, psutil.ZombieProcess, OSError):
        return []
    if words[1:2] != ["-c"] or not "".join(words[2:3]).startswith(ELSEWHERE):
        return words
    module = [] if "".join(words[4:5]).startswith("tuitrain.") else ["tuitrain"]
    return [words[0], "-m", *module, *words[4:]]


def _module_of_tuitrain(words: list[str]) -> str | None:
    """Which module of tuitrain's a command line starts; `None` for another's."""
    module = words[2] if words[1:2] == ["-m"] and len(words) > 2 else ""
    return module if module.partition(".")[0] == "tuitrain" else None


def _host_of(rank: psutil.Process) -> int | None:
    """The process that started the launcher of a rank."""
    import psutil

    with suppress(psutil.Error):
        launcher = rank.parent()
        host = None if launcher is None else launcher.parent()
        return None if host is None else host.pid
    return None


class ProcessTable:
    """What the system knows of the processes on the cards.

    In a container NVML still gives the machine's own numbers, which may belong to some other process here. There a number is believed only
    if its process has a card open; any other is foreign.

    Args:
        proc: where the kernel's process files are.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._contained = _own_namespace(proc) not in (None, _FIRST_NAMESPACE)
        self._known: dict[int, _Known] = {}
        self._round: dict[int, ProcessSample] = {}

    def sample(self, pid: int, process: Listed) -> ProcessSample:
        """One process on one card; within a round the system is asked once, however many cards the process is on."""
        if pid not in self._round:
            self._round[pid] = self._look(pid)
        return _on_card(self._round[pid], process)

    def end_round(self) -> None:
        """Forget the processes that were not asked for since the last `end_round`: the system gives old numbers to new processes."""
        self._known = {pid: known for pid, known in self._known.items() if pid in self._round}
        self._round.clear()

    def _look(self, pid: int) -> ProcessSample:
        # psutil takes longer to import than the first frame may wait for it.
        import psutil

        try:
            process = psutil.Process(pid)
            known = self._known.get(pid)
            # They are equal where pid and start time are.
            if known is None or known.process != process:
                known = _Known(process)
            if self._contained and not known.believed and not self._has_card_open(pid):
                return _unseen(pid, foreign=True)
            known.believed = True
            self._known[pid] = known
            return ProcessSample(
                pid=pid,
                name=known.name,
                user=known.user,
                memory=None,
                command=known.command,
                cpu_percent=known.cpu_percent(),
                host_memory=known.process.memory_info().rss,
                started=known.started,
                rank_of=known.rank_of,
            )
        except (psutil.Error, OSError, ValueError, OverflowError):
            return _unseen(pid, foreign=self._contained)

    def _has_card_open(self, pid: int) -> bool:
        folder = f"{self._proc}/{pid}/fd"
        try:
            return any(os.readlink(f"{folder}/{file}").startswith(_CARD_FILES) for file in os.listdir(folder))
        except OSError:
            return False


def _own_namespace(proc: str) -> str | None:
    try:
        return os.readlink(f"{proc}/self/ns/pid")
    except OSError:
        return None


def _unseen(pid: int, *, foreign: bool) -> ProcessSample:
    return ProcessSample(pid=pid, name=None, user=None, memory=None, foreign=foreign)


def _on_card(process: ProcessSample, on_card: Listed) -> ProcessSample:
    # Written out: msgspec.structs.replace takes three times as long, once for each process in each round.
    return ProcessSample(
        pid=process.pid,
        name=process.name,
        user=process.user,
        memory=on_card.memory,
        kind=on_card.kind,
        command=process.command,
        foreign=process.foreign,
        utilization=on_card.utilization,
        cpu_percent=process.cpu_percent,
        host_memory=process.host_memory,
        started=process.started,
        rank_of=process.rank_of,
    )


def _text(ask: Any, length: int) -> str | None:
    """A string of the system's that may be shown; `None` where it is empty or refused."""
    import psutil

    try:
        text = clean(ask())
    except (psutil.AccessDenied, KeyError, OSError):
        return None
    return (text if len(text) <= length else text[: length - 1] + "…") or None

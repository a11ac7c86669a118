"""Why a run is lost, as far as anybody can tell afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuitrain.runs.crash import CRASH, crashed
from tuitrain.runs.process import is_of_earlier_boot, is_of_this_boot, is_out_of_sight

if TYPE_CHECKING:
    from tuitrain.runs.status import RunStatus

_COUNTS = "/proc/vmstat"


def memory_kills() -> int | None:
    """How many processes Linux has ended for want of memory since the machine started, also where only a container's or a batch job's was
    used up; `None` where it does not tell."""
    try:
        with open(_COUNTS, "rb") as file:
            for line in file:
                name, _, count = line.partition(b" ")
                if name == b"oom_kill":
                    return int(count)
    except (OSError, ValueError):
        pass
    return None


def more_kills(before: int | None, now: int | None) -> bool:
    """Whether a process was ended for want of memory between two answers of `memory_kills`. Which one, the system tells root alone."""
    return before is not None and now is not None and now > before


def why_lost(status: RunStatus, folder: Path) -> str:
    """What became of the process that trained the run in `folder`, which is lost, in a sentence that stays true: a list keeps it."""
    process = status.process
    if (how := crashed(folder)) is not None:
        return f"Its process crashed: {how}; {CRASH} in its folder has the stacks. What it had written is kept."
    if is_of_earlier_boot(process, status.heartbeat):
        return f"{process.host} was started anew while it trained; what it had written is kept."
    if is_of_this_boot(process) and more_kills(status.memory_kills, memory_kills()):
        return "Its process is gone, perhaps for want of memory: the system has ended one for that since. What it had written is kept."
    if is_out_of_sight(process):
        return f"The process that trained it on {process.host} has given no sign for more than a minute; what it had written is kept."
    return "The process that trained it is gone; what it had written is kept."

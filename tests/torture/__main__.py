"""`make torture`: what may happen to a run, done to it again and again. A line for each fault; exit code 1 when one was not as expected."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

# One thread: a process that forks must have no others, and so many runs share the cores.
os.environ["OMP_NUM_THREADS"] = "1"
sys.path += [str(Path(__file__).parents[1] / room) for room in ("program", "engine", "nvml_stub")]
sys.path.append(str(Path(__file__).parents[2]))

from tally import Tally

from benchmarks.machine import describe

RESULTS = Path(__file__).parent / "results"

Fault = Callable[[Path, int], Tally]


def faults() -> dict[str, tuple[Fault, int]]:
    """Each fault by its name, and how often it is tried."""
    import at_random
    import damage
    import disk
    import kills
    import owners
    import pauses
    import terminals

    return {
        "kill": (kills.kill_and_resume, 200),
        "kill-save": (kills.kill_saves, 200),
        "kill-detached": (kills.kill_detached, 8),
        "no-space": (disk.no_space, 16),
        "too-large": (disk.too_large, 16),
        "read-only": (disk.read_only, 12),
        "damage": (damage.damaged, 140),
        "two-resumers": (owners.two_resumers, 50),
        "hand-over": (owners.hand_over, 20),
        "frozen": (pauses.frozen, 10),
        "locked": (pauses.locked, 3),
        "clock": (pauses.clock_jumps, 6),
        "data-gone": (pauses.data_gone, 4),
        "stalled": (terminals.stalled, 1),
        "resized": (terminals.resized, 3),
        "hang-up": (terminals.hung_up, 10),
        "random": (at_random.walks, 12),
    }


def main() -> int:
    """Run the faults that are named, or all; the exit code."""
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the faults")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the counts of this call are kept")
    parser.add_argument("--share", type=float, default=1.0, metavar="X", help="this part of the tries of each")
    wanted = parser.parse_args()
    known = faults()
    from host import Host

    names = wanted.only or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"there is no fault {unknown[0]!r}; there are {', '.join(known)}")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    began, bad = time.monotonic(), 0
    path = wanted.results.absolute() / time.strftime("%Y%m%d-%H%M%S.json", time.gmtime())
    tallies: dict[str, Tally] = {}
    scratch = Path(tempfile.mkdtemp(prefix="torture-"))
    scratch.chmod(0o711)  # some faults are another user's
    os.environ["TORTURE"], os.environ["XDG_RUNTIME_DIR"] = str(scratch), str(scratch)
    os.chdir(Path(__file__).parent)
    try:
        for name in names:
            fault, times = known[name]
            (scratch / name).mkdir(mode=0o711)
            try:
                tally = fault(scratch / name / "runs", max(round(times * wanted.share), 1))
            except Exception:
                traceback.print_exc()
                bad += 1
                print(f"[{name}] it could not be tried to its end", flush=True)
                continue
            bad += not tally.good
            tallies[name] = tally
            keep(path, tallies)
            print(f"[{name}] {tally.report()}", flush=True)
    finally:
        Host.end_all()
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"{len(names)} faults, {len(names) - bad} as expected, in {time.monotonic() - began:.0f} s")
    return bool(bad)


def keep(path: Path, tallies: dict[str, Tally]) -> None:
    """Write down what was counted so far in this call."""
    faults = [
        {"fault": fault, "name": one.name, "tried": one.tried, "expected": one.expected}
        | {"facts": one.facts, "left_out": one.left_out, "problems": one.problems}
        for fault, one in tallies.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": describe(), "faults": faults}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""`python -m benchmarks DATA [--only NAME ...] [--pairs N]`: every figure against its peer, taken in turn in the same run.

DATA is a folder with train/<class>/*.jpg and test/<class>/*.jpg, such as CIFAR-10 as images. Prints the table and keeps it, with a
description of the machine, in benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import figures, machine
from benchmarks.pairs import Figure

RESULTS = Path(__file__).parent / "results"


def table(taken: list[Figure]) -> str:
    """The figures as a Markdown table."""
    lines = ["| Figure | tuitrain | peer | ratio (95 %) | target | holds |", "|--|--|--|--|--|--|"]
    for line in taken:
        span = f"{line.ratio:g} ({line.low:g} to {line.high:g}, {line.pairs} pairs)"
        holds = "yes" if line.holds else f"no: {line.note}" if line.note else "no"
        lines.append(f"| {line.name} | {line.ours} | {line.peer} | {span} | {line.target} | {holds} |")
    return "\n".join(lines)


def keep(stamp: str, described: dict[str, Any], taken: list[Figure]) -> None:
    """Write what has been taken so far."""
    RESULTS.mkdir(exist_ok=True)
    document = {"machine": described, "figures": [asdict(line) for line in taken]}
    (RESULTS / f"{stamp}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    """Take the figures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*", choices=sorted(figures.ALL), default=sorted(figures.ALL))
    parser.add_argument("--pairs", type=int, default=5)
    args = parser.parse_args()
    taken: list[Figure] = []
    described, stamp = machine.describe(), time.strftime("%Y%m%d-%H%M", time.gmtime())
    for name in args.only:
        for line in figures.ALL[name](args.data.resolve(), args.pairs):
            taken.append(line)
            print(table([line]).splitlines()[-1], flush=True)
        # After each, so that one that cannot be taken costs only itself.
        keep(stamp, described, taken)
    print("\n" + table(taken))


if __name__ == "__main__":
    main()

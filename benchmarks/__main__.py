"""`python -m benchmarks DATA [--only NAME ...] [--pairs N] [--minutes N] [--results DIR]`: figures against their peers, taken in turn.

DATA is a folder with train/<class>/*.jpg and test/<class>/*.jpg, such as CIFAR-10 as images. Prints the table and keeps it, with a
description of the machine, in benchmarks/results/. `python -m benchmarks.table` puts the newest of each figure into the README.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

from benchmarks import figures, machine
from benchmarks.pairs import Wanted
from benchmarks.results import RESULTS, Keeper
from benchmarks.table import heading, line_of


def main() -> int:
    """Take the figures that were asked for; 1 when one could not be taken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--only", nargs="+", choices=list(figures.ALL), default=list(figures.ALL), metavar="NAME", help=" ".join(figures.ALL)
    )
    parser.add_argument("--pairs", type=int, default=Wanted.pairs, help="how often most figures are taken (%(default)s)")
    parser.add_argument("--minutes", type=float, default=Wanted.minutes, help="how long the memory is watched (%(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the figures are kept")
    args = parser.parse_args()
    wanted = Wanted(args.data.resolve(), args.pairs, args.minutes)
    if not (wanted.data / "train").is_dir():
        parser.error(f"{args.data} has no folder train; it must hold train/<class>/*.jpg and test/<class>/*.jpg")
    keeper, missing = Keeper(args.results, machine.describe()), []
    print(heading(), flush=True)
    for name in args.only:
        begin = time.perf_counter()
        try:
            taken = figures.ALL[name](wanted)
        except Exception:  # one that cannot be taken costs only itself
            traceback.print_exc()
            print(f"| {name} | not measured | | | | |", flush=True)
            missing.append(name)
            continue
        keeper.add(taken)
        print("\n".join(map(line_of, taken)), flush=True)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    print(f"kept in {keeper.path}" if len(missing) < len(args.only) else "nothing was measured", file=sys.stderr)
    if missing:
        print(f"not measured: {', '.join(missing)}", file=sys.stderr)
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m benchmarks [DATA] [--only NAME ...] [--pairs N] [--minutes N] [--results DIR]`: figures against their peers, taken in turn.

DATA is a folder with train/<class>/*.jpg and test/<class>/*.jpg, such as CIFAR-10 as images; without it the built-in synthetic images are
written into one for the time being. Prints the table and keeps it, with a description of the machine, in benchmarks/results/.
`python -m benchmarks.table` puts the newest of each figure into the README.

How long all of it took is said at its end; more pairs and more minutes take as much longer.
"""

from __future__ import annotations

import argparse
import compileall
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import tuitrain
from benchmarks import figures, machine
from benchmarks.awaited import NotMeasured, missing
from benchmarks.images import images
from benchmarks.pairs import Figure, Wanted
from benchmarks.results import RESULTS, Keeper
from benchmarks.table import awaited_line, heading, line_of


def main() -> int:
    """Take the figures that were asked for; 1 when one that this machine can take was not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--only", nargs="+", choices=list(figures.ALL), default=None, metavar="NAME", help=" ".join(figures.ALL))
    parser.add_argument("--pairs", type=int, default=Wanted.pairs, help="how often most figures are taken (%(default)s)")
    parser.add_argument("--minutes", type=float, default=Wanted.minutes, help="how long the memory is watched (%(default)s)")
    parser.add_argument("--seeds", type=int, default=Wanted.seeds, help="how many speed runs are made (%(default)s)")
    parser.add_argument("--steps", type=int, help="how long they are at most; given, they are made without a GPU too")
    parser.add_argument("--within", type=float, default=Wanted.within, help="seconds after which a half of speedrun begins no more seeds")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where the figures are kept")
    args = parser.parse_args()
    if args.data is not None and not (args.data / "train").is_dir():
        parser.error(f"{args.data} has no folder train; it must hold train/<class>/*.jpg and test/<class>/*.jpg")
    # As pip leaves an installed program, and the peers too: where PYTHONDONTWRITEBYTECODE is set, each start would compile it anew.
    compileall.compile_dir(Path(tuitrain.__file__).parent, quiet=1)
    begin = time.perf_counter()
    keeper = Keeper(args.results, machine.describe())
    with images(None if args.data is None else args.data.resolve()) as data:
        taken, failed = take(args.only, Wanted(data, args.pairs, args.minutes, args.seeds, args.steps, args.within), keeper)
    tell(taken, failed, time.perf_counter() - begin)
    print(f"kept in {keeper.path}" if taken else "nothing was measured", file=sys.stderr)
    return bool(failed)


def take(only: Sequence[str] | None, wanted: Wanted, keeper: Keeper) -> tuple[list[Figure], list[str]]:
    """Take the figures named in `only`, or all, print and keep each; the lines, and the names of the figures that failed."""
    lines: list[Figure] = []
    failed: list[str] = []
    reasons: dict[str, str] = {}
    print(heading(), flush=True)
    for name in only or figures.ALL:
        begin = time.perf_counter()
        try:
            taken = figures.ALL[name](wanted)
        except NotMeasured as error:
            reasons[name] = str(error)
            continue
        except Exception:  # one that cannot be taken costs only itself
            traceback.print_exc()
            print(f"| {name} | not measured | | | | |", flush=True)
            failed.append(name)
            continue
        keeper.add(taken)
        lines += taken
        print("\n".join(map(line_of, taken)), flush=True)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    for line in missing((line.name for line in lines), only):
        print(awaited_line(line, why=reasons.get(line.taken_by, "")), flush=True)
    return lines, failed


def tell(taken: Sequence[Figure], failed: Sequence[str], seconds: float) -> None:
    """How many targets hold, which do not, and how long it all took; to stderr."""
    missed = [line.name for line in taken if not line.holds]
    print(f"{len(taken) - len(missed)} of {len(taken)} targets hold; {seconds / 60:.1f} minutes", file=sys.stderr)
    for what, names in (("missed", missed), ("not measured", failed)):
        if names:
            print(f"{what}: {'; '.join(names)}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

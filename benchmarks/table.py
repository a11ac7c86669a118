"""`python -m benchmarks.table [--check]`: the newest of each figure in benchmarks/results/ as tables of the README, and so the faults of
`make torture`.

They stand between two lines `<!-- figures -->` and two lines `<!-- torture -->`. With `--check` nothing is written, and the exit code
is 1 when the README does not hold the tables that would be written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import reliability
from benchmarks.awaited import Awaited, missing
from benchmarks.pairs import Figure
from benchmarks.results import RESULTS, Kept, newest
from benchmarks.sections import OTHERS, SECTIONS, place_of

README = Path(__file__).parents[1] / "README.md"
FIGURES = "<!-- figures -->"
FAULTS = "<!-- torture -->"
_COLUMNS = ("Figure", "tuitrain", "peer", "ratio (95 %)", "target", "holds")
_RATIO_TARGET = re.compile(r"[≤≥] (\d+(?:\.\d+)?)")


def heading(*more: str) -> str:
    """The table's first two lines."""
    columns = (*_COLUMNS, *more)
    return f"| {' | '.join(columns)} |\n|{'--|' * len(columns)}"


def line_of(line: Figure, *more: str) -> str:
    """One figure's line."""
    return f"| {' | '.join((line.name, line.ours, line.peer, _span(line), line.target, _holds(line), *more))} |"


def awaited_line(line: Awaited, *more: str, why: str = "") -> str:
    """A line that was not measured, and why; without a `why` of its own, for the reason for which it mostly is not."""
    return f"| {' | '.join((line.name, 'not measured', '-', '-', line.target, why or line.without, *more))} |"


def _span(line: Figure) -> str:
    if line.peer == "-":
        return "-"
    if line.low == line.high:
        return f"{line.ratio:g}"
    return f"{line.ratio:g} ({line.low:g} to {line.high:g}, {line.pairs} pairs)"


def _holds(line: Figure) -> str:
    said = ("median yes, interval no" if not _wholly(line) else "yes") if line.holds else "no"
    return f"{said}: {line.note}" if line.note and not line.holds else said


def _wholly(line: Figure) -> bool:
    """Whether the interval is within the target too, where the target is about the ratio."""
    target = _RATIO_TARGET.fullmatch(line.target)
    if target is None:
        return True
    limit = float(target[1])
    return line.low >= limit if line.target.startswith("≥") else line.high <= limit


def markdown(kept: list[Kept]) -> str:
    """A table for each section, with a letter for the machine of each line, and what was never measured; and what the letters mean."""
    letters: dict[str, str] = {}
    lines: dict[str, str] = {}
    for one in kept:
        letter = letters.setdefault(described(one.machine), _letter(len(letters)))
        lines[one.figure.name] = line_of(one.figure, f"{letter}, {one.stamp[:4]}-{one.stamp[4:6]}-{one.stamp[6:8]}")
    lines |= {line.name: awaited_line(line, "-") for line in missing(lines)}
    tables = [part for title in (*SECTIONS, OTHERS) for part in _section(title, lines)]
    legend = [f"- {letter}: {machine}" for machine, letter in letters.items()]
    return "\n".join([*tables, "Taken on:", "", *legend])


def _section(title: str, lines: Mapping[str, str]) -> list[str]:
    """Of all lines, by their names, those of one section under its title; nothing where it has none."""
    names = sorted((name for name in lines if place_of(name)[0] == title), key=lambda name: place_of(name)[1])
    return [f"**{title}**", "", heading("on"), *(lines[name] for name in names), ""] if names else []


def _letter(number: int) -> str:
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 26] * (number // 26 + 1)


def described(machine: dict[str, Any]) -> str:
    """A machine and its programs in a line."""
    gpus = ", ".join(machine["gpus"]) or "no GPU"
    bf16 = "with" if machine["bf16_instructions"] else "without"
    amx = " and AMX" if machine.get("amx") else ""  # the first results do not say
    programs = f"Python {machine['python']}, torch {machine['torch']}, Textual {machine['textual']}"
    return f"{machine['cores']} cores of {machine['cpu']}, {bf16} bf16 instructions{amx}, {gpus}; {programs}"


def with_table(text: str, marker: str, table: str) -> str:
    """`text` with `table` between its two lines `marker`.

    Raises:
        ValueError: it has not exactly two.
    """
    parts = text.split(marker)
    if len(parts) != 3:
        raise ValueError(f"it must hold the line {marker} exactly twice, and holds it {len(parts) - 1} times")
    return f"{parts[0]}{marker}\n{table}\n{marker}{parts[2]}"


def main() -> int:
    """Write the table, or check it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.table", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--readme", type=Path, default=README, metavar="FILE")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--torture", type=Path, default=reliability.RESULTS, metavar="DIR")
    args = parser.parse_args()
    text = args.readme.read_text(encoding="utf-8")
    try:
        wanted = with_table(text, FIGURES, markdown(newest(args.results)))
        wanted = with_table(wanted, FAULTS, reliability.markdown(reliability.newest(args.torture)))
    except ValueError as error:
        parser.error(f"{args.readme.name}: {error}")
    if args.check:
        if text != wanted:
            print(f"{args.readme.name} does not hold the newest figures; python -m benchmarks.table writes them", file=sys.stderr)
        return int(text != wanted)
    args.readme.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

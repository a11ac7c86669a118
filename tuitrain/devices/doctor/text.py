"""The report as text to read or to paste into a forum, and as JSON."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator

import msgspec

from tuitrain.devices.doctor.model import Check, Count, Report, Verdict

WIDTH = 80
GLYPHS: dict[Verdict, str] = {"ok": "✓", "warning": "!", "problem": "✗"}
_COLOURS: dict[Verdict, str] = {"ok": "32", "warning": "33", "problem": "31"}
_HOME = re.compile(r"/(?:home|Users)/[^/\s,;:]+")


def as_text(report: Report, *, colour: bool = False) -> str:
    """The report in 80 columns: the conclusion, the versions, the counting, what is wrong, what is doubtful, and the rest in short.

    Names of home folders are left out. With `colour` the verdicts are coloured for a terminal.
    """
    ordered = [check for verdict in ("problem", "warning", "ok") for check in report.checks if check.verdict == verdict]
    lines = [*_wrapped(report.conclusion), ""]
    lines += [line for check in ordered if check.check == "versions" for line in _wrapped(check.found)]
    lines += ["", "GPUs", *_ladder(report.counts)]
    for verdict in ("problem", "warning"):
        for check in ordered:
            if check.verdict == verdict:
                lines += ["", *_in_full(check, colour)]
    lines += ["", *(line for check in ordered if check.verdict == "ok" and check.check != "versions" for line in _in_short(check, colour))]
    return _without_names("\n".join(lines).rstrip() + "\n")


def as_json(report: Report) -> str:
    """`{"conclusion", "verdict", "counts": […], "checks": […]}` on one line; a check's `command` is the first one of its `mend`."""
    checks = [msgspec.structs.asdict(check) | {"mend": check.plain_mend, "command": check.command} for check in report.checks]
    parts = {"conclusion": report.conclusion, "verdict": report.verdict, "counts": report.counts, "checks": checks}
    return _without_names(msgspec.json.encode(parts).decode())


def _without_names(text: str) -> str:
    """Home folders as "~": they hold the user's name, and a forum needs none."""
    home = os.path.expanduser("~").rstrip("/")
    # A home such as "/" or "/root" holds no name, and "/" would be found everywhere.
    if home.count("/") > 1:
        text = re.sub(re.escape(home) + r"(?=/|\b)", "~", text)
    return _HOME.sub("~", text)


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False)


def _ladder(counts: tuple[Count, ...]) -> Iterator[str]:
    longest = max((len(count.step) for count in counts), default=0)
    before: int | None = None
    for count in counts:
        number = "?" if count.count is None else str(count.count)
        lost = count.count is not None and before is not None and count.count < before
        start = f"  {number:>3}  {count.step:<{longest}}  "
        note = f"{'← ' if lost else ''}{count.note}".rstrip()
        yield from (_wrapped(note, start, " " * len(start)) if note else [start.rstrip()])
        before = before if count.count is None else count.count


def _word(verdict: Verdict, colour: bool) -> str:
    word = f"{GLYPHS[verdict]} {verdict}"
    return f"\x1b[{_COLOURS[verdict]}m{word}\x1b[0m" if colour else word


def _in_full(check: Check, colour: bool) -> Iterator[str]:
    yield f"{_word(check.verdict, colour)}: {check.title}"
    yield from _wrapped(check.found, "  ", "  ")
    yield from _wrapped(f"looked at: {check.looked_at}", "  ", "  ")
    for number, piece in enumerate(check.pieces):
        start = "  → " if number == 0 else "    "
        # One line, however long: a command is there to be copied.
        yield from [f"{start}$ {piece.text}"] if piece.is_command else _wrapped(piece.text, start, "    ")


def _in_short(check: Check, colour: bool) -> list[str]:
    # Wrapped before it is coloured: what colours has no width.
    plain = f"{GLYPHS['ok']} ok"
    lines = _wrapped(f"{plain}  {check.title}: {check.found}", "", " " * (len(plain) + 2))
    return [lines[0].replace(plain, _word("ok", colour), 1), *lines[1:]]

"""What the doctor says: frozen values that a screen, a text and JSON all show."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Verdict = Literal["ok", "warning", "problem"]

_WORST_FIRST: tuple[Verdict, ...] = ("problem", "warning")
_MARK = "`"


class Piece(NamedTuple):
    """A part of what mends a check: words to read, or a command that a shell takes as it is."""

    text: str
    is_command: bool


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at.

    `check` is a short id such as "driver" or "torch-build". `mend` is the command or change that mends it, `None` where there is nothing
    to do. In it each command stands between backquotes, so that it can be told from the words around it.
    """

    check: str
    title: str
    looked_at: str
    found: str
    verdict: Verdict
    mend: str | None = None

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The words and commands of the mend in their order, without what only joins them."""
        parts = (self.mend or "").split(_MARK)
        pieces = (Piece(part if at % 2 else part.lstrip(" .,;").rstrip(), bool(at % 2)) for at, part in enumerate(parts))
        return tuple(piece for piece in pieces if piece.text)

    @property
    def plain_mend(self) -> str | None:
        """The whole mend as one text, without marks."""
        return None if self.mend is None else self.mend.replace(_MARK, "")

    @property
    def command(self) -> str | None:
        """The first command of the mend, as a shell takes it; `None` where words alone mend it."""
        return next((piece.text for piece in self.pieces if piece.is_command), None)


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many GPUs are left at one step from the PCI bus to torch. `count` is `None` where nobody knows; `note` says what is odd."""

    step: str
    count: int | None
    note: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the doctor found; `conclusion` is one or two sentences that name the first step at which a GPU got lost, and why."""

    conclusion: str
    counts: tuple[Count, ...]
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the checks."""
        found = {check.verdict for check in self.checks}
        return next((verdict for verdict in _WORST_FIRST if verdict in found), "ok")

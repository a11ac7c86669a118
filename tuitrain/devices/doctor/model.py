"""What the doctor says: frozen values that a screen, a text and JSON all show."""

from __future__ import annotations

from typing import Literal

import msgspec

Verdict = Literal["ok", "warning", "problem"]

_WORST_FIRST: tuple[Verdict, ...] = ("problem", "warning")


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at.

    `check` is a short id such as "driver" or "torch-build". `mend` is the command or change that mends it, `None` where there is nothing
    to do.
    """

    check: str
    title: str
    looked_at: str
    found: str
    verdict: Verdict
    mend: str | None = None


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

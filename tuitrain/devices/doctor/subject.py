"""What a check is about; the checks of one concern say what they found through it."""

from __future__ import annotations

import msgspec

from tuitrain.devices.doctor.model import Check, Verdict
from tuitrain.text import plural


class Subject(msgspec.Struct, frozen=True):
    """The parts of a check that are the same whatever is found. A mend holds its commands between backquotes, as `Check` says."""

    check: str
    title: str
    looked_at: str

    def ok(self, found: str) -> Check:
        """All is well, or nothing is to be done."""
        return self._check(found, "ok", None)

    def warning(self, found: str, mend: str) -> Check:
        """Something that will hurt sooner or later, or that may be meant."""
        return self._check(found, "warning", mend)

    def problem(self, found: str, mend: str) -> Check:
        """Something that does not work now."""
        return self._check(found, "problem", mend)

    def _check(self, found: str, verdict: Verdict, mend: str | None) -> Check:
        return Check(check=self.check, title=self.title, looked_at=self.looked_at, found=found, verdict=verdict, mend=mend)


def cards(count: int) -> str:
    """ "1 GPU", "2 GPUs"."""
    return f"{count} {plural('GPU', count)}"

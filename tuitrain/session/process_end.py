"""How a process that was started from here has ended, for a sentence."""

from __future__ import annotations

import os
from typing import IO

from tuitrain.runs.crash import crash_in
from tuitrain.text import clean

_READ_BYTES = 65_536
_LONGEST = 300


def how_it_ended(code: int) -> str:
    """ "was ended by signal 9", or "ended with exit code 1"."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def last_line(errors: IO[bytes]) -> str:
    """What it wrote last to the file of its stderr, or of a crash how and where, behind a colon; empty where it wrote nothing."""
    errors.seek(max(errors.seek(0, os.SEEK_END) - _READ_BYTES, 0))
    text = errors.read().decode(errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return f": {crash_in(text) or clean(lines[-1].strip())[:_LONGEST].rstrip('.')}" if lines else ""

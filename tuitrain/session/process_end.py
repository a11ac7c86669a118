"""How a process that was started from here has ended, for a sentence."""

from __future__ import annotations

import os
from typing import IO

from tuitrain.text import clean

_READ_BYTES = 4096
_LONGEST = 300


def how_it_ended(code: int) -> str:
    """ "was ended by signal 9", or "ended with exit code 1"."""
    return f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"


def last_line(errors: IO[bytes]) -> str:
    """What it wrote last to the file of its stderr, behind a colon; empty where it wrote nothing."""
    errors.seek(max(errors.seek(0, os.SEEK_END) - _READ_BYTES, 0))
    lines = [line for line in errors.read().decode(errors="replace").splitlines() if line.strip()]
    return f": {clean(lines[-1].strip())[:_LONGEST].rstrip('.')}" if lines else ""

"""The one door for strings from outside: names, files, logs, GPU names."""

from __future__ import annotations

import re

# C0 and C1 controls (a terminal obeys them) and the bidirectional marks (they reorder what a person reads).
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` on one line, with every control and bidirectional character replaced by a space-like `·`."""
    return _UNSAFE.sub("·", text)

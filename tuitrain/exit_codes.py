"""What processes of ours end with; a signal that ends one adds its number to 128. Users' scripts rely on them."""

from __future__ import annotations

DONE = 0
FAILED = 1
"""The run failed."""
REFUSED = 2
"""Wrong usage or configuration; nothing was begun."""
INTERRUPTED = 130

"""Times as files and users' scripts have them: ISO 8601 text in UTC."""

from __future__ import annotations

from datetime import datetime, timezone


def utc(seconds: float) -> str:
    """A Unix time as ISO 8601 text in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_utc(text: str) -> float | None:
    """The Unix time of an ISO 8601 text in UTC; `None` when it is none."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None

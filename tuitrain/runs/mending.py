"""A run's metrics file before the run goes on: one that is missing or damaged makes room for a new one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from tuitrain.files import mode_at
from tuitrain.runs.errors import RunError
from tuitrain.runs.store import MetricsWriter
from tuitrain.text import clean

BUSY_SECONDS = 5.0


def sound_metrics(path: Path) -> str | None:
    """See to it that there is a sound metrics file at `path`; only the process that has the run's claim may call this.

    Returns:
        A sentence about what was wrong, `None` where nothing was.

    Raises:
        RunError: it cannot be read for another reason than damage, or no new one can be made.
    """
    try:
        missing = mode_at(path) is None
    except OSError as error:
        raise RunError(f"{path.name} cannot be read: {error.strerror}.") from None
    if missing:
        MetricsWriter(path).close()
        return f"{path.name} is missing; the curves begin anew."
    problem = _damage(path)
    if problem is None:
        return None
    aside = _free_name(path)
    try:
        path.rename(aside)
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}-journal").rename(aside.with_name(f"{aside.name}-journal"))
    except OSError as error:
        raise RunError(f"{path.name} is damaged ({problem}) and cannot be set aside: {error.strerror}.") from None
    MetricsWriter(path).close()
    return f"{path.name} is damaged ({problem}); it is set aside as {aside.name}, and the curves begin anew."


def _damage(path: Path) -> str | None:
    """What is wrong with the structure of a file.

    Raises:
        RunError: nobody can tell, because it is locked or the disk refuses.
    """
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            found: str = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.OperationalError as error:
        raise RunError(f"{path.name} cannot be read: {clean(str(error))}.") from None
    except sqlite3.DatabaseError as error:
        return clean(str(error))
    if not tables:
        return "it is empty"
    return None if found == "ok" else clean(found.splitlines()[-1])


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"damaged-{number}-{path.name}")).exists():
        number += 1
    return aside

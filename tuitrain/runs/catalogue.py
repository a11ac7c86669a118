"""The runs that are kept: listed from their `state.json` alone, and found by id."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from tuitrain.paths import ANOTHER_RUNS_DIR, CONFIG, STATE
from tuitrain.runs.errors import RunError
from tuitrain.runs.summary import RunSummary, started_of, summarize
from tuitrain.text import clean, first_few, nearest

_SHOWN_CANDIDATES = 5
_SHORTEST_PART = 3
"""Letters of the random end of an id; fewer may stand in any of them by chance."""


def list_runs(runs_dir: Path) -> list[RunSummary]:
    """Every run in `runs_dir`, newest first; none where there is no such folder.

    Raises:
        RunError: the folder cannot be read.
    """
    now = time.time()
    runs = [summarize(folder, now) for folder in map(Path, folders(runs_dir)) if is_run(folder)]
    return sorted(runs, key=newest_first, reverse=True)


def folders(runs_dir: Path) -> list[str]:
    """The paths of the folders in `runs_dir` that may be runs; none where there is no such folder.

    Raises:
        RunError: it cannot be read.
    """
    try:
        with os.scandir(runs_dir) as entries:
            visible = (entry for entry in entries if not entry.name.startswith("."))
            return [entry.path for entry in visible if entry.is_dir() or (entry.is_symlink() and _leads_nowhere(entry.path))]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"the runs folder {clean(str(runs_dir))} cannot be read: {error.strerror}; {ANOTHER_RUNS_DIR}.") from None


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, be it a damaged one. Of one that cannot be looked into the name says so."""
    for name in (STATE, CONFIG):
        try:
            os.stat(f"{folder}/{name}")
            return True
        except PermissionError:
            return bool(started_of(folder.name))
        except OSError:
            pass
    return bool(started_of(folder.name)) and _leads_nowhere(folder)


def _leads_nowhere(folder: str | Path) -> bool:
    """Whether it is a link to something that is not there, such as a disk that is not mounted."""
    return os.path.islink(folder) and not os.path.exists(folder)


def newest_first(run: RunSummary) -> tuple[bool, str, str]:
    """What the list is sorted by, in descending order: what has not begun will be the newest."""
    return run.queue is not None, run.started, run.run


def find(runs_dir: Path, ref: str) -> RunSummary:
    """The run that `ref` names: its id, a prefix that no other id has, or `last` for the newest.

    Raises:
        RunError: there is no such run, or there are several.
    """
    return find_each(runs_dir, [ref])[0]


def find_each(runs_dir: Path, refs: Sequence[str]) -> list[RunSummary]:
    """The runs that `refs` name, as for `find`, each once.

    Raises:
        RunError: of one of them there is no such run, or there are several.
    """
    runs = list_runs(runs_dir)
    if not runs:
        raise RunError(f"RUN: there are no runs in {clean(str(runs_dir))} yet.")
    found = [_named(runs, ref) for ref in refs]
    return list({run.path: run for run in found}.values())


def in_words(runs: Sequence[RunSummary]) -> str:
    """Runs for a sentence: the id of one, the number of several with the first ids."""
    shown = first_few([run.run for run in runs], _SHOWN_CANDIDATES)
    return shown if len(runs) == 1 else f"{len(runs):,} runs: {shown}"


def _named(runs: Sequence[RunSummary], ref: str) -> RunSummary:
    if ref == "last":
        return runs[0]
    matches = [run for run in runs if run.run == ref] or [run for run in runs if ref and run.run.startswith(ref)]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        if called := [run for run in runs if run.name == ref != ""]:
            raise RunError(f"RUN: {clean(ref)!r} is the name of {in_words(called)}; it must be an id, the start of one, or last.")
        ids = [run.run for run in runs]
        # What comes before the last characters is a time, of which any three digits may be a part.
        holding = sorted((run for run in ids if len(ref) >= _SHORTEST_PART and ref in run), key=lambda run: not run.endswith(ref))
        part = f" Did you mean {holding[0]!r}?" if holding else ""
        hint = nearest(ref, ids) or part or " It must be an id, the start of one, or last; `tuitrain runs` lists them."
        raise RunError(f"RUN: there is no run {clean(ref)!r}.{hint}")
    raise RunError(f"RUN: {clean(ref)!r} is the start of {in_words(matches)}.")

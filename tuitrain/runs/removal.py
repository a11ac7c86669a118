"""A run, deleted: gone from every list before the first file of its folder goes, also when whoever deletes it does not come to the end."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tuitrain.paths import CONFIG, STATE
from tuitrain.runs import claim
from tuitrain.runs.catalogue import is_run
from tuitrain.runs.errors import RunError
from tuitrain.runs.silence import Wait, let_pass
from tuitrain.runs.summary import RunSummary, summarize
from tuitrain.text import clean

_HIDDEN = ".deleted-"


def delete(folder: Path, wait: Wait = let_pass) -> RunSummary:
    """Remove the run in `folder` with all its files, or the link to it; what cannot be removed whole stays listed and can be deleted later.

    Args:
        folder: the run folder.
        wait: called while it is watched whether a process that is out of sight still has the run.

    Returns:
        The run as it was.

    Raises:
        RunError: it is not there any more, it is live, or its folder cannot be removed.
    """
    # Not looked for by its id: while somebody was asked it may have gone, and the id of another run may begin with its own.
    if not is_run(folder):
        raise RunError(f"RUN: {clean(folder.name)} is not there any more.")
    run = summarize(folder, time.time())
    check_deletable(run)
    try:
        _remove(folder, wait)
    except OSError as error:
        # Not the paths of the error: while it is removed the folder has another name.
        raise RunError(f"RUN: {run.run} cannot be removed: {error.strerror or clean(str(error))}.") from None
    return run


def check_deletable(run: RunSummary) -> None:
    """Check that a run may be deleted.

    Raises:
        RunError: it is live.
    """
    if run.live:
        raise RunError(f"RUN: {run.run} is {run.state} (pid {run.pid} on {run.host}); stop it first.")


def _remove(path: Path, wait: Wait) -> None:
    """Remove the run in `path`, or the link to it, and what processes that were killed have left half removed beside it.

    What cannot be removed whole takes its name again, so that it is listed and can be deleted later.

    Args:
        wait: called while it is watched whether a process that is out of sight still has it.

    Raises:
        RunError: a process has it, or `wait` gave up.
        OSError: it cannot be removed.
    """
    # Before it is renamed: a process that lives would go on writing where it was, and be silent here.
    free = claim.check_free(path, wait=wait)
    hidden = path.with_name(f"{_HIDDEN}{os.urandom(4).hex()}-{path.name}")
    with _locked(path):
        path.rename(hidden)
        try:
            # Nobody can take it any more, and somebody may have since it was looked.
            if claim.is_claimed(hidden, but_by=free):
                raise RunError(f"RUN: {clean(path.name)} belongs to another process meanwhile; stop it first.")
            _remove_files(hidden)
        except BaseException:
            with suppress(OSError):
                hidden.rename(path)
            raise
    _sweep(path.parent)


def _remove_files(folder: Path) -> None:
    """Remove a run's folder, or the link to it; the files by which it is known to be one go last."""
    if folder.is_symlink():
        folder.unlink()
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in (STATE, CONFIG):
            path.unlink()
    shutil.rmtree(folder)


def _sweep(runs_dir: Path) -> None:
    with suppress(OSError):
        for name in os.listdir(runs_dir):
            left = runs_dir / name
            if name.startswith(_HIDDEN) and not left.is_symlink():
                with _locked(left) as alone:
                    if alone:
                        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """While entered, nobody else removes `folder`; `False` where somebody does or nobody can tell. The lock ends with its process."""
    descriptor = None
    try:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except OSError:
            alone = False
        yield alone
    finally:
        if descriptor is not None:
            os.close(descriptor)

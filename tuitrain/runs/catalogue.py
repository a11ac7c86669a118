"""The runs that are kept: listed from their `state.json` alone, found by id, shown, deleted."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tuitrain.events import LIVE_STATES, RunState
from tuitrain.paths import BEST, CHECKPOINTS, CONFIG, MANIFEST, STATE
from tuitrain.runs.errors import RunError
from tuitrain.runs.label import read_label
from tuitrain.runs.status import InQueue, RunStatus, has_process, is_lost, read_status
from tuitrain.text import clean, nearest, readable

if TYPE_CHECKING:
    from tuitrain.runs.silence import Wait

_ID_TIME = re.compile(r"(\d{4})(\d{2})(\d{2})-(\d{2})(\d{2})-")
_SHOWN_CANDIDATES = 5
_SHORTEST_PART = 3
"""Letters of the random end of an id; fewer may stand in any of them by chance."""


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list. `run` is the folder's name, control characters replaced.

    A run whose `state.json` cannot be read has the state "lost", and `broken` says why.
    """

    path: Path
    run: str
    name: str = ""
    recipe: str = ""
    state: RunState = "lost"
    attached: int = 0
    device: tuple[str, ...] = ()
    strategy: str = ""
    data: str = ""
    step: int = 0
    epoch: int = 0
    loss: float | None = None
    accuracy: float | None = None
    started: str = ""
    host: str = ""
    pid: int | None = None
    note: str = ""
    error: str | None = None
    broken: str | None = None
    queue: InQueue | None = None

    @property
    def live(self) -> bool:
        """Whether a process trains it now, or waits for its turn."""
        return self.state in LIVE_STATES and not self.left

    @property
    def waits(self) -> bool:
        """Whether it is in the queue and its turn has not come."""
        return self.queue is not None and (self.left or not self.queue.turn)

    @property
    def left(self) -> bool:
        """Whether it is in the queue and no process waits for its turn."""
        return self.queue is not None and self.pid is None

    @property
    def here(self) -> bool:
        """Whether a process of this machine trains it, or was the last to do so."""
        return self.host == clean(socket.gethostname())

    @property
    def of_this_process(self) -> bool:
        """Whether the calling process trains it, or was the last to do so."""
        return self.here and self.pid == os.getpid()

    @property
    def state_words(self) -> str:
        """The state as it is shown: a live run that no screen shows is "detached"."""
        if self.queue is not None:
            return f"{self.state}, nobody waits" if self.left else self.state if self.waits else f"{self.state}, begins"
        return f"{self.state}, detached" if self.live and not self.attached else self.state

    def to_json(self) -> dict[str, Any]:
        """The run as `runs --json` prints it."""
        fields = [field for field in self.__struct_fields__ if field not in _INTERNAL]
        return {field: msgspec.to_builtins(getattr(self, field)) for field in fields}


_INTERNAL = ("path", "note", "error", "broken", "queue")


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
        raise RunError(f"--runs-dir: {clean(str(runs_dir))} cannot be read: {error.strerror}.") from None


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, be it a damaged one. Of one that cannot be looked into the name says so."""
    for name in (STATE, CONFIG):
        try:
            os.stat(folder / name)
            return True
        except PermissionError:
            return bool(_ID_TIME.match(folder.name))
        except OSError:
            pass
    return bool(_ID_TIME.match(folder.name)) and _leads_nowhere(folder)


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
    shown = ", ".join(run.run for run in runs[:_SHOWN_CANDIDATES])
    more = f" and {len(runs) - _SHOWN_CANDIDATES} more" if len(runs) > _SHOWN_CANDIDATES else ""
    return shown if len(runs) == 1 else f"{len(runs)} runs: {shown}{more}"


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
        part = next((f" Did you mean {run!r}?" for run in ids if len(ref) >= _SHORTEST_PART and ref in run), "")
        hint = nearest(ref, ids) or part or " It must be an id, the start of one, or last; `tuitrain runs` lists them."
        raise RunError(f"RUN: there is no run {clean(ref)!r}.{hint}")
    raise RunError(f"RUN: {clean(ref)!r} is the start of {in_words(matches)}.")


def checkpoints(folder: Path) -> list[dict[str, Any]]:
    """`{"step", "kind", "path"}` of each checkpoint in a run folder, by step; the one that is the best has the kind "best"."""
    found = []
    best = _best(folder)
    for manifest in sorted((folder / CHECKPOINTS).glob(f"step-*/{MANIFEST}")):
        try:
            content = msgspec.json.decode(manifest.read_bytes(), type=_Manifest)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            # Only a checkpoint with a whole manifest can be used, so only such a one is listed.
            continue
        kind = "best" if manifest.parent.name == best else clean(content.kind)
        found.append({"step": content.step, "kind": kind, "path": readable(manifest.parent)})
    return sorted(found, key=lambda checkpoint: checkpoint["step"])


def delete(folder: Path, wait: Wait | None = None) -> RunSummary:
    """Remove the run in `folder` with all its files, or the link to it; what cannot be removed whole stays listed and can be deleted later.

    Args:
        folder: the run folder.
        wait: called while it is watched whether a process that is out of sight still has the run.

    Returns:
        The run as it was.

    Raises:
        RunError: it is not there any more, it is live, or its folder cannot be removed.
    """
    # The list does without.
    from tuitrain.runs.removal import remove
    from tuitrain.runs.silence import let_pass

    # The folder and no name: while somebody was asked it may have gone, and another run's name may begin with its own.
    if not is_run(folder):
        raise RunError(f"RUN: {clean(folder.name)} is not there any more.")
    run = summarize(folder, time.time())
    check_deletable(run)
    try:
        remove(folder, wait or let_pass)
    except OSError as error:
        # Not the paths of the error: while it is removed the folder has another name.
        raise RunError(f"RUN: {run.run} cannot be removed: {error.strerror or clean(str(error))}.") from None
    return run


def check_deletable(run: RunSummary) -> None:
    """Whether a run may be deleted.

    Raises:
        RunError: it is live.
    """
    if run.live:
        raise RunError(f"RUN: {run.run} is {run.state} (pid {run.pid} on {run.host}); stop it first.")


class _Manifest(msgspec.Struct):
    step: int
    kind: str


def _best(folder: Path) -> str | None:
    try:
        return (folder / CHECKPOINTS / BEST).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def summarize(folder: Path, now: float) -> RunSummary:
    """The row of the run in `folder`, whatever state its files are in; `now` is Unix seconds."""
    try:
        status = read_status(folder)
    except RunError as error:
        label = read_label(folder)
        return RunSummary(
            path=folder,
            run=clean(folder.name),
            name=label.name_or(""),
            started=_started_of(folder.name),
            note=label.note_or(""),
            broken=str(error),
        )
    return row_of(folder, status, now)


def row_of(folder: Path, status: RunStatus, now: float) -> RunSummary:
    """The row of the run in `folder`, which has this status; `now` is Unix seconds."""
    state: RunState = "lost" if is_lost(status, now) else status.state
    queue = status.queue if state == "queued" else None
    return RunSummary(
        path=folder,
        run=status.run,
        name=status.name,
        recipe=status.recipe,
        state=state,
        attached=status.attached if state in LIVE_STATES else 0,
        device=status.device,
        strategy=status.strategy,
        data=status.data,
        step=status.step,
        epoch=status.epoch,
        loss=status.loss,
        accuracy=status.accuracy,
        started=status.started,
        host=status.host,
        pid=None if queue is not None and not has_process(status, now) else status.pid or None,
        note=status.note,
        error=status.error,
        queue=queue,
    )


def _started_of(run: str) -> str:
    """When a run began, from its id alone; empty when the id does not say."""
    match = _ID_TIME.match(run)
    return "{}-{}-{}T{}:{}:00.000Z".format(*match.groups()) if match else ""

"""`tuitrain stop` and its like: what a live run is told from another terminal, and the sentence when that cannot be."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from tuitrain.events import END_STATES, Command, RunState
from tuitrain.runs.errors import RunError
from tuitrain.runs.process import is_out_of_sight
from tuitrain.runs.silence import Wait, let_pass
from tuitrain.runs.status import RunStatus, has_process, read_status, written_as
from tuitrain.runs.summary import RunSummary, summarize
from tuitrain.session.lines import Word
from tuitrain.session.lines.client import RunLine, Unanswered
from tuitrain.session.resume import was_saved
from tuitrain.text import clean, passing_line

OBEY_SECONDS = 60.0
"""How long a run may take to the end of a step."""
REACH_SECONDS = 10.0
"""How long a process that makes a run its own, as when it is handed over, may take until it listens."""
CLOSE_SECONDS = 10.0
"""How long its process may take to let go of a run that has ended."""
_SILENT_SECONDS = 2.0
"""Steps that take longer are told of on a terminal."""
_POLL_SECONDS = 0.05


def stop(run: RunSummary, wait: Wait = let_pass) -> str:
    """Stop a live run and wait until it has ended; what became of it.

    Args:
        run: the run.
        wait: called while it is watched whether a process that is out of sight waits for the turn of a queued one.

    Raises:
        RunError: it cannot be told so, or has not ended after `OBEY_SECONDS`.
    """
    if run.left:
        from tuitrain.session.queued import take_out

        return take_out(run, wait)
    ended, line = _obeyed(run, "stop", END_STATES)
    with line:
        # Whoever stops a run may want to go on with it next: its process must have let go of it.
        line.wait_for_end(CLOSE_SECONDS)
    return f"{run.run} {ended.state} at step {ended.step:,}"


def pause(run: RunSummary) -> str:
    """Pause a live run and wait until it waits; what became of it.

    Raises:
        RunError: it cannot be told so, or does not wait after `OBEY_SECONDS`.
    """
    return _change(run, "pause", "paused")


def go_on(run: RunSummary) -> str:
    """Let a paused live run go on; what became of it.

    Raises:
        RunError: it cannot be told so, or still waits after `OBEY_SECONDS`.
    """
    return _change(run, "resume", "running")


def reach(run: RunSummary, command: Word) -> RunLine:
    """A line to the process that trains a live run, for one command.

    Raises:
        RunError: there is none; the sentence says why, and what to do instead.
    """
    verb = {"resume": "let go on", "watch": "watch"}.get(command, command)
    if run.broken:
        raise RunError(f"RUN: {run.broken}")
    if run.state == "lost":
        then = f"`tuitrain resume {run.run}` goes on from its last checkpoint" if was_saved(run) else "it was never saved; start it anew"
        raise RunError(f"RUN: {run.run} is lost: its process (pid {run.pid} on {run.host}) is gone; {then}.")
    if run.waits and command in ("pause", "resume"):
        raise RunError(f"RUN: {run.run} is {run.state_words} and has not begun; there is nothing to {verb}.")
    if not run.live:
        raise RunError(f"RUN: {run.run} {run.state} at step {run.step:,}; there is nothing to {verb}.")
    if not run.here:
        raise RunError(f"RUN: {run.run} trains on {run.host} (pid {run.pid}), and only there it can be told to {command}.")
    line = RunLine.connect(run.path)
    if line is None and (other := written_as(run.path)) not in ("", run.run):
        raise RunError(f"RUN: {run.run} cannot be reached: {_of_another(run, other)}")
    if line is None and is_out_of_sight(read_status(run.path).process):
        where = f"in another container of {run.host}, or on another machine of that name"
        raise RunError(f"RUN: {run.run} trains {where}, and only there it can be told to {command}.")
    if line is None and run.path.stat().st_uid != os.getuid():
        raise RunError(f"RUN: {run.run} (pid {run.pid}) cannot be reached: it belongs to another user ({_owner(run)}).")
    if line is None:
        reason = f"its process has no control socket; `kill {run.pid}` ends it with a last checkpoint."
        raise Unanswered(f"RUN: {run.run} (pid {run.pid}) cannot be reached: {reason}")
    return line


def _of_another(run: RunSummary, other: str) -> str:
    """That the process of which this folder tells is that of run `other`: what ends that process would end the other run."""
    then = f"name {other} instead" if os.path.isdir(run.path.parent / other) else f"rename it back to {other}"
    return f"its process (pid {run.pid}) is that of run {other}, whose folder was copied or renamed to this one; {then}."


def _change(run: RunSummary, command: Command, state: RunState) -> str:
    if run.state == state:
        return f"{run.run} is {state} at step {run.step:,}"
    status, line = _obeyed(run, command, (state, *END_STATES))
    line.close()
    return f"{run.run} {'is ' if status.state == state else ''}{status.state} at step {status.step:,}"


def _obeyed(run: RunSummary, command: Command, states: Collection[RunState]) -> tuple[RunStatus, RunLine]:
    """Give a command and wait until the run is in one of `states`; with the line to the process that was told last.

    A process to which the run is handed over meanwhile is told too: the one before may have ended without having obeyed.
    """
    begin, said = time.monotonic(), ""
    line, told = _told(run, command)
    try:
        while (waited := time.monotonic() - begin) < OBEY_SECONDS:
            status = read_status(run.path)
            if waited > _SILENT_SECONDS and said != (said := _way_out(status) or "it obeys at the end of a step"):
                passing_line(said)
            if status.state in states:
                return status, line
            if not has_process(status, time.time()):
                if read_status(run.path) != status:
                    continue  # the last that it wrote before it went
                if status.queue is not None:
                    gone = f"its process (pid {status.pid}) ended and has not written that it was taken out"
                    raise RunError(f"RUN: {run.run} is still in the queue: {gone}.")
                raise RunError(f"RUN: {run.run} is lost: its process (pid {status.pid}) went before it could {command}.")
            if status.pid != told:
                line.close()
                line, told = _told(summarize(run.path, time.time()), command)
            time.sleep(_POLL_SECONDS)
        late = _way_out(read_status(run.path)) or f"`tuitrain show {run.run}` says when"
        raise RunError(f"RUN: {run.run} was told to {command} and has not after {OBEY_SECONDS:.0f} s; {late}.")
    except BaseException:
        line.close()
        raise
    finally:
        passing_line("")


def _way_out(status: RunStatus) -> str:
    """What ends a run that hangs in a step; of any other nothing."""
    if not status.stalled_seconds:
        return ""
    return f"no step for {status.stalled_seconds:.0f} s: `kill -9 {status.pid}` ends the run at once"


def _told(run: RunSummary, command: Command) -> tuple[RunLine, int | None]:
    """Give a command to the process that trains a run; the line to it, and its pid. One that takes the run over may need a while."""
    end = time.monotonic() + REACH_SECONDS
    while True:
        try:
            line = reach(run, command)
            try:
                line.ask(command)
            except BaseException:
                line.close()
                raise
            return line, run.pid
        except Unanswered:
            if time.monotonic() >= end:
                raise
        time.sleep(_POLL_SECONDS)
        run = summarize(run.path, time.time())


def _owner(run: RunSummary) -> str:
    import pwd

    uid = run.path.stat().st_uid
    try:
        return clean(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return f"uid {uid}"

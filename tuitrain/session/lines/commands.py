"""`tuitrain stop` and its like: what a live run is told from another terminal, and the sentence when that cannot be."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable

from tuitrain.events import END_STATES, RunState
from tuitrain.runs.catalogue import RunSummary
from tuitrain.runs.errors import RunError
from tuitrain.runs.status import RunStatus, has_process, read_status
from tuitrain.session.lines import Command
from tuitrain.session.lines.client import RunLine
from tuitrain.session.resume import was_saved
from tuitrain.text import clean

OBEY_SECONDS = 60.0
"""How long a run may take to the end of a step."""
CLOSE_SECONDS = 10.0
"""How long its process may take to let go of a run that has ended."""
_POLL_SECONDS = 0.05


def stop(run: RunSummary) -> str:
    """Stop a live run and wait until it has ended; what became of it.

    Raises:
        RunError: it cannot be told so, or has not ended after `OBEY_SECONDS`.
    """
    if run.left:
        from tuitrain.session.queued import take_out

        return take_out(run)
    with reach(run, "stop") as line:
        line.ask("stop")
        ended = _wait(run, "stop", lambda status: status.state in END_STATES)
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


def reach(run: RunSummary, command: Command) -> RunLine:
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
    if run.host != socket.gethostname():
        raise RunError(f"RUN: {run.run} trains on {run.host} (pid {run.pid}), and only there it can be told to {command}.")
    line = RunLine.connect(run.path)
    if line is None:
        raise RunError(f"RUN: {run.run} (pid {run.pid}) cannot be reached: {_why_not(run)}")
    return line


def _change(run: RunSummary, command: Command, state: RunState) -> str:
    if run.state == state:
        return f"{run.run} is {state} at step {run.step:,}"
    with reach(run, command) as line:
        line.ask(command)
    status = _wait(run, command, lambda status: status.state in (state, *END_STATES))
    return f"{run.run} {'is ' if status.state == state else ''}{status.state} at step {status.step:,}"


def _wait(run: RunSummary, command: Command, done: Callable[[RunStatus], bool]) -> RunStatus:
    end = time.monotonic() + OBEY_SECONDS
    while time.monotonic() < end:
        status = read_status(run.path)
        if done(status):
            return status
        if not has_process(status, time.time()):
            raise RunError(f"RUN: {run.run} is lost: its process (pid {status.pid}) went before it could {command}.")
        time.sleep(_POLL_SECONDS)
    raise RunError(f"RUN: {run.run} was told to {command} and has not after {OBEY_SECONDS:.0f} s; `tuitrain show {run.run}` says when.")


def _why_not(run: RunSummary) -> str:
    owner = run.path.stat().st_uid
    if owner != os.getuid():
        return f"it belongs to another user ({_name(owner)})."
    return f"its process has no control socket; `kill {run.pid}` ends it with a last checkpoint."


def _name(uid: int) -> str:
    import pwd

    try:
        return clean(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return f"uid {uid}"

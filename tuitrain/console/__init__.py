"""`tuitrain run` without the app: shown as it trains, or started in the background."""

from __future__ import annotations

import queue
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tuitrain.config import RunConfig
from tuitrain.console.printers import Preparations, Printer, notice_to_stderr, to_stderr
from tuitrain.console.terminal import Terminal, cursor_for_the_shell, show, signals_interrupt
from tuitrain.events import Event, RunEnded
from tuitrain.exit_codes import DONE, FAILED, INTERRUPTED, REFUSED
from tuitrain.files import to_nowhere
from tuitrain.session import Session
from tuitrain.text import clean_lines

EXIT_CODES = {"finished": DONE, "stopped": DONE, "failed": FAILED, "interrupted": INTERRUPTED}


def follow(session: Session, config: RunConfig, printer: Printer, *, resume: Path | None = None) -> int:
    """Train `config` in `session`, or go on so with the run in folder `resume`, and show it until it has ended; the exit code.

    Printing happens here, in the main thread: a reader that stalls holds up neither training nor the store. When the terminal goes, the
    run goes on without it.
    """
    batches: queue.SimpleQueue[Sequence[Event]] = queue.SimpleQueue()
    session.subscribe(batches.put)
    session.prints_errors = True
    code = DONE
    terminal = Terminal(session, printer.out)
    with signals_interrupt(session, terminal) as received:
        session.start(config, resume=resume)
        try:
            while batch := batches.get():
                show(printer, batch, session.record, terminal)
                for event in batch:
                    if isinstance(event, RunEnded):
                        code = EXIT_CODES[event.state]
        except BrokenPipeError:
            # Nobody reads any more (`tuitrain run … | head`): end as at Ctrl+C.
            to_nowhere(printer.out.fileno())
            session.interrupt()
            code = INTERRUPTED
        finally:
            printer.close()
        while not session.join(1.0):
            pass
        _print_notices(batches)
    if session.refusal is not None:
        to_stderr(clean_lines(session.refusal))
        return REFUSED
    return 128 + received[0] if received else code


def _print_notices(batches: queue.SimpleQueue[Sequence[Event]]) -> None:
    """What was said after the run's last event: the notices of its `on_end`, which are no part of the run's events any more."""
    while not batches.empty():
        for event in batches.get():
            notice_to_stderr(event)


def detach(config: RunConfig, runs_dir: Path, *, resume: Path | None = None, queue: bool = False, as_json: bool = False) -> int:
    """Start a run in the background, say on stderr how far it is, and print its id when it trains, or is in the queue; the exit code.

    Raises:
        ConfigError: it is refused.
    """
    # It needs processes, which the rest of this module does not.
    from tuitrain.session import detached

    preparations = Preparations()
    try:
        with cursor_for_the_shell():
            run = detached.start(config, runs_dir, resume=resume, queue=queue, heard=preparations.show)
    finally:
        preparations.close()
    try:
        print(msgspec.json.encode({"run": run}).decode() if as_json else run, flush=True)
    except OSError as error:
        # The run is there all the same, and nobody would know which.
        to_nowhere(sys.stdout.fileno())
        reason = "it is closed" if sys.__stdout__ is None else error.strerror
        to_stderr(f"standard output: {reason}; run {run} {'is in the queue' if queue else 'trains in the background'}.")
        return FAILED
    return DONE

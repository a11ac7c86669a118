"""Signals to a run without a screen: the first ends it with a checkpoint, its echo says nothing, a second one ends the process."""

from __future__ import annotations

import os
import pty
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest

from tuitrain.config import RunConfig
from tuitrain.console import detach
from tuitrain.console.terminal import signals_interrupt
from tuitrain.session.unseen import end_on_signals


@contextmanager
def in_console(session: Any) -> Iterator[list[int]]:
    with signals_interrupt(session, SimpleNamespace(hang_up=lambda: None)) as received:  # type: ignore[arg-type]
        yield received


@contextmanager
def unseen(session: Any) -> Iterator[list[int]]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield end_on_signals(session)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("listen", [in_console, unseen])
def test_an_echo_is_not_a_second_signal(
    listen: Callable[[Any], AbstractContextManager[list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, codes = list[str](), list[int]()
    monkeypatch.setattr(os, "_exit", codes.append)
    moments = iter([100.0, 100.2, 101.0])
    monkeypatch.setattr("tuitrain.signals.time", SimpleNamespace(monotonic=lambda: next(moments)))
    with listen(SimpleNamespace(state="running", interrupt=lambda: asked.append("interrupt"))) as received:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert (asked, received, codes) == (["interrupt"], [signal.SIGTERM], [])
        signal.raise_signal(signal.SIGINT)
    assert codes == [128 + signal.SIGINT]


def test_signals_are_obeyed_on_a_terminal_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    done, codes = list[str](), list[int]()
    monkeypatch.setattr(os, "_exit", codes.append)
    moments = iter([100.0, 101.0])
    monkeypatch.setattr("tuitrain.signals.time", SimpleNamespace(monotonic=lambda: next(moments)))
    held, terminal = pty.openpty()
    termios.tcflow(terminal, termios.TCOOFF)
    with open(terminal, "w") as stderr, in_console(SimpleNamespace(state="running", interrupt=lambda: done.append("interrupt"))):
        monkeypatch.setattr(sys, "stderr", Busy(stderr, done))
        signal.raise_signal(signal.SIGTERM)
        assert done == ["interrupt", "said"]
        signal.raise_signal(signal.SIGTERM)
        assert codes == [128 + signal.SIGTERM]
    os.close(held)


def followed(signal_comes: Callable[..., Any], _: pytest.MonkeyPatch) -> None:
    with in_console(SimpleNamespace(state="running")):
        signal_comes()


def detached_from(signal_comes: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuitrain.session.detached.start", signal_comes)
    detach(RunConfig(), Path())


@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGTSTP])
@pytest.mark.parametrize("start", [followed, detached_from])
def test_the_shell_gets_its_terminal_with_a_cursor(
    monkeypatch: pytest.MonkeyPatch, start: Callable[[Callable[..., Any], pytest.MonkeyPatch], None], number: signal.Signals
) -> None:
    obeyed = list[tuple[int, object]]()
    raised = signal.raise_signal
    monkeypatch.setattr(signal, "raise_signal", lambda number: obeyed.append((number, signal.getsignal(number))))
    held, terminal = pty.openpty()

    def signal_comes(*_: object, **__: object) -> str:
        monkeypatch.setattr(sys, "stderr", stderr)
        raised(number)
        raised(number)
        return "a run"

    with open(terminal, "w") as stderr, open(held, "rb") as shown:
        start(signal_comes, monkeypatch)
        assert obeyed == 2 * [(number, signal.SIG_DFL)]
        twice = 2 * b"\x1b[?25h"
        assert shown.read(len(twice)) == twice


@pytest.mark.parametrize(
    ("state", "words"), [("preparing", "before the next step"), ("running", "after this step, with a checkpoint"), ("ended", "on_end")]
)
def test_what_ends_is_said(capsys: pytest.CaptureFixture[str], state: str, words: str) -> None:
    with in_console(SimpleNamespace(state=state, interrupt=lambda: None)):
        signal.raise_signal(signal.SIGTERM)
    assert capsys.readouterr().err == f"tuitrain: ending {words}; once more ends at once\n"


class Busy:
    """A stream of which the interrupted thread is in the midst of a write."""

    def __init__(self, terminal: IO[str], done: list[str]) -> None:
        self.fileno, self.isatty = terminal.fileno, terminal.isatty
        self._done = done

    def write(self, text: str) -> int:
        self._done.append("said")
        raise RuntimeError("reentrant call")

"""Output to a terminal that stalls or goes away, and signals."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from types import SimpleNamespace
from unittest import mock

import pytest
from textual.events import Key, Paste

from tuitrain.tui.terminal import outlet as outlet_module
from tuitrain.tui.terminal.driver import LastingDriver
from tuitrain.tui.terminal.outlet import _MOST, Outlet
from tuitrain.tui.terminal.signals import signals_to

PATIENCE = 30.0


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a pseudo-terminal that passes bytes on as they are."""
    ours, its = pty.openpty()
    tty.setraw(its)
    yield ours, its
    for end in (ours, its):
        with suppress(OSError):
            os.close(end)


def read(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += os.read(descriptor, count - len(data))
    return data


def read_until(descriptor: int, end: bytes) -> bytes:
    data, deadline = b"", time.monotonic() + PATIENCE
    while not data.endswith(end):
        assert time.monotonic() < deadline
        if select.select([descriptor], [], [], 0.05)[0]:
            data += os.read(descriptor, 65536)
    return data


def test_what_is_written_arrives_in_order(terminal: tuple[int, int]) -> None:
    ours, its = terminal
    outlet = Outlet(its, gone=lambda: None, caught_up=lambda: None)
    for number in range(200):
        outlet.write(f"{number:03}é")
    assert read(ours, 200 * 5).decode() == "".join(f"{number:03}é" for number in range(200))
    outlet.close()


def test_a_stalled_terminal_holds_nobody_up_and_is_told_to_paint_anew(terminal: tuple[int, int]) -> None:
    ours, its = terminal
    caught_up = threading.Event()
    outlet = Outlet(its, gone=lambda: None, caught_up=caught_up.set)
    frame = "x" * 4096
    outlet.write("x" * _MOST)
    # More than a terminal holds: once it has some of it, the thread waits for the rest to be taken.
    assert select.select([ours], [], [], PATIENCE)[0]
    for _ in range(4 * _MOST // len(frame)):
        outlet.write(frame)  # the test ends here where this waits for the terminal
    assert not caught_up.is_set()
    taken, end = 0, time.monotonic() + PATIENCE
    while not caught_up.is_set():
        assert time.monotonic() < end
        taken += len(os.read(ours, 65536)) if select.select([ours], [], [], 0.01)[0] else 0
    outlet.write("painted anew")
    taken += len(read_until(ours, b"painted anew"))
    assert taken == _MOST + len("painted anew"), "what a terminal never took must be dropped"
    outlet.close()


def test_the_last_words_are_said_to_a_terminal_that_was_behind(terminal: tuple[int, int]) -> None:
    ours, its = terminal
    outlet = Outlet(its, gone=lambda: None, caught_up=lambda: None)
    for _ in range(2 * _MOST // 4096):
        outlet.write("x" * 4096)
    outlet.last_words()
    outlet.write("\x1b[?1006l")
    read_until(ours, b"\x1b[?1006l")
    outlet.write("\x1b[?1049l")
    closing = threading.Thread(target=outlet.close)
    closing.start()
    read_until(ours, b"\x1b[?1049l")
    closing.join(PATIENCE)
    assert not closing.is_alive()


def test_a_terminal_that_takes_nothing_while_it_is_given_back_finds_the_last_words_when_it_does(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process does not wait for it, and the shell's prompt comes after them."""
    monkeypatch.setattr(outlet_module, "_JOIN_SECONDS", 0.05)
    monkeypatch.setattr(outlet_module, "_HURRIED_SECONDS", PATIENCE)
    ours, its = terminal
    gone = threading.Event()
    outlet = Outlet(its, gone=gone.set, caught_up=lambda: None)
    outlet.write("x" * _MOST)
    assert select.select([ours], [], [], PATIENCE)[0]
    outlet.last_words()
    outlet.write("\x1b[?2004l")
    outlet.write("\x1b[?1049l\x1b[?25h")
    outlet.close()
    assert not outlet._thread.is_alive()
    os.write(its, b"$ ")
    read_until(ours, b"\x1b\\\x1b[?2004l\x1b[?1049l\x1b[?25h$ ")
    assert not gone.is_set()


def test_whoever_else_has_the_terminal_open_waits_for_it_as_before(terminal: tuple[int, int]) -> None:
    ours, its = terminal
    outlet = Outlet(its, gone=lambda: None, caught_up=lambda: None)
    outlet.write("here")
    read_until(ours, b"here")
    assert os.get_blocking(its)
    outlet.close()


def test_a_terminal_that_cannot_be_opened_anew_is_written_to_as_it_is(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> int:
        raise PermissionError(13, "Permission denied")

    ours, its = terminal
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        outlet = Outlet(its, gone=lambda: None, caught_up=lambda: None)
    outlet.write("here")
    read_until(ours, b"here")
    outlet.close()
    assert os.get_blocking(its)


def test_a_terminal_that_has_gone_is_told_once(terminal: tuple[int, int]) -> None:
    ours, its = terminal
    told: list[None] = []
    gone = threading.Event()

    def tell() -> None:
        told.append(None)
        gone.set()

    outlet = Outlet(its, gone=tell, caught_up=lambda: None)
    os.close(ours)
    outlet.write("hello")
    assert gone.wait(PATIENCE)
    outlet.write("more")
    assert not outlet._waiting, "nobody sends it any more"
    for _ in range(100):
        outlet.write("x" * _MOST)
    outlet.close()
    assert len(told) == 1


class Typed:
    """An app that counts what its driver tells it."""

    def __init__(self) -> None:
        self.keys: list[object] = []
        self.gone = threading.Event()

    def terminal_gone(self) -> None:
        self.gone.set()


@pytest.fixture
def reader(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Typed, LastingDriver, list[float | None]]]:
    """A driver that reads the terminal in a thread, and for how long it meant to wait each time."""
    app, waits = Typed(), list[float | None]()
    driver = LastingDriver.__new__(LastingDriver)
    driver._app, driver._debug, driver.fileno = app, False, terminal[1]  # type: ignore[assignment]
    driver.exit_event, driver._bell = threading.Event(), os.pipe()
    driver._key_thread = threading.Thread(target=driver.run_input_thread)
    monkeypatch.setattr(driver, "process_message", app.keys.append)
    monkeypatch.setattr(driver, "_disable_mouse_support", lambda: None)

    def waited(read: list[int], write: list[int], other: list[int], wait: float | None) -> tuple[list[int], list[int], list[int]]:
        waits.append(wait)
        return select.select(read, write, other, wait)

    monkeypatch.setattr("tuitrain.tui.terminal.driver.select", mock.Mock(select=waited))
    before = signal.getsignal(signal.SIGWINCH)
    driver._key_thread.start()
    yield app, driver, waits
    driver.disable_input()
    signal.signal(signal.SIGWINCH, before)
    assert not driver._key_thread.is_alive()


@pytest.mark.parametrize(("columns", "rows", "size"), [(150, 45, (150, 45)), (0, 0, (100, 30))])
def test_the_size_is_that_of_the_terminal_and_else_what_is_said(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch, columns: int, rows: int, size: tuple[int, int]
) -> None:
    fcntl.ioctl(terminal[0], termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    driver = LastingDriver.__new__(LastingDriver)
    with open(terminal[1], "w", closefd=False) as driver._file:
        assert driver._get_terminal_size() == size


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        select.select([], [], [], 0.01)


def test_the_reader_sleeps_until_somebody_types(terminal: tuple[int, int], reader: tuple[Typed, LastingDriver, list[float | None]]) -> None:
    app, driver, waits = reader
    until(lambda: waits == [None])
    os.write(terminal[0], b"\x1b")
    until(lambda: [key.key for key in app.keys if isinstance(key, Key)] == ["escape"])
    assert waits[1] is not None, "Esc may be the beginning of another key"
    until(lambda: waits[-1] is None)
    begin = time.monotonic()
    driver.disable_input()
    assert time.monotonic() - begin < PATIENCE
    assert driver._key_thread is not None
    assert not driver._key_thread.is_alive()


def test_what_is_pasted_is_no_key(terminal: tuple[int, int], reader: tuple[Typed, LastingDriver, list[float | None]]) -> None:
    app, _, _ = reader
    os.write(terminal[0], b"\x1b[200~one\x1bqtwo\x1b[A\x1b\x1b[201~x")
    until(lambda: any(isinstance(key, Key) and key.key == "x" for key in app.keys))
    assert [(type(key), key.text if isinstance(key, Paste) else getattr(key, "key", None)) for key in app.keys] == [
        (Paste, "oneqtwo[A"),
        (Key, "x"),
    ]


def test_enter_that_was_typed_ahead_is_enter(terminal: tuple[int, int], reader: tuple[Typed, LastingDriver, list[float | None]]) -> None:
    app, _, _ = reader
    os.write(terminal[0], b"\nq\r\x1b[200~one\ntwo\x1b[201~")
    until(lambda: any(isinstance(key, Paste) for key in app.keys))
    assert [(key.key, key.character) for key in app.keys if isinstance(key, Key)] == [("enter", "\r"), ("q", "q"), ("enter", "\r")]
    assert [key.text for key in app.keys if isinstance(key, Paste)] == ["one\ntwo"]


def test_a_character_may_come_in_two_parts(terminal: tuple[int, int], reader: tuple[Typed, LastingDriver, list[float | None]]) -> None:
    app, _, waits = reader
    os.write(terminal[0], "é".encode()[:1])
    until(lambda: len(waits) > 1)
    os.write(terminal[0], "é".encode()[1:])
    until(lambda: [key.character for key in app.keys if isinstance(key, Key)] == ["é"])


def test_the_reader_ends_with_its_terminal(terminal: tuple[int, int], reader: tuple[Typed, LastingDriver, list[float | None]]) -> None:
    app, _, waits = reader
    until(lambda: waits == [None])
    os.close(terminal[0])
    assert app.gone.wait(PATIENCE)


class Told:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def from_outside(self, call: Callable[[], object]) -> None:
        call()

    def hang_up(self) -> None:
        self.heard.append("hang up")

    def terminate(self, number: int) -> None:
        self.heard.append(number)


def test_signals_go_to_the_app_and_hanging_up_never_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=10)
    monkeypatch.setattr("tuitrain.signals.time", SimpleNamespace(monotonic=lambda: next(clock)))
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    told = Told()
    try:
        # Also where the tests themselves run under `nohup`.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with signals_to(told):
            for number in before:
                signal.raise_signal(number)
        assert told.heard == ["hang up", signal.SIGTERM, signal.SIGINT]
        assert signal.getsignal(signal.SIGTERM) == before[signal.SIGTERM]
        signal.raise_signal(signal.SIGHUP)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_an_echo_of_a_signal_is_not_a_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 100.1, 100.4, 100.6])
    monkeypatch.setattr("tuitrain.signals.time", SimpleNamespace(monotonic=lambda: next(clock)))
    told = Told()
    with signals_to(told):
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            signal.raise_signal(number)
    assert told.heard == [signal.SIGTERM, signal.SIGTERM]


def test_a_quit_is_never_an_echo_and_the_next_one_is_not_the_apps() -> None:
    told = Told()
    with signals_to(told):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGQUIT)
        assert signal.getsignal(signal.SIGQUIT) == signal.SIG_DFL
    assert told.heard == [signal.SIGTERM, signal.SIGQUIT]


def test_nohup_is_respected() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    told = Told()
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with signals_to(told):
            signal.raise_signal(signal.SIGHUP)
        assert told.heard == []
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Which printer fits what `tuitrain run` prints to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import pytest

from tuitrain.console.printers import BarPrinter, JsonPrinter, PlainPrinter, Preparations, Printer, printer_for
from tuitrain.events import BYTES, Notice, Progress


@contextmanager
def a_terminal() -> Iterator[None]:
    """A terminal in the place of stdout."""
    ours, its = os.openpty()
    with open(its, "w", encoding="utf-8") as stream, redirect_stdout(stream):
        yield
    os.close(ours)


@pytest.mark.parametrize(
    ("term", "kind"), [("xterm-256color", BarPrinter), ("linux", BarPrinter), ("dumb", PlainPrinter), ("unknown", PlainPrinter)]
)
def test_a_terminal_that_cannot_redraw_a_bar_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, term: str, kind: type[Printer]) -> None:
    monkeypatch.setenv("TERM", term)
    with a_terminal():
        printer = printer_for(json=False)
        printer.close()
    assert isinstance(printer, kind)


def test_the_bar_of_a_download_counts_in_megabytes(capsys: pytest.CaptureFixture[str]) -> None:
    printer = BarPrinter()
    printer.show([Progress(phase="downloading CIFAR-10", done=42_000_000, total=170_498_071, unit=BYTES)])
    printer.close()
    assert "42/170 MB" in capsys.readouterr().out


def test_a_pipe_gets_plain_lines_and_json_where_it_is_asked_for() -> None:
    assert isinstance(printer_for(json=False), PlainPrinter)
    assert isinstance(printer_for(json=True), JsonPrinter)


def test_preparations_leave_nothing_but_notices_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    preparations = Preparations()
    preparations.show(Progress(phase="importing torch"))
    preparations.show(Notice(text="no GPU"))
    preparations.close()
    assert capsys.readouterr() == ("", "tuitrain: no GPU\n")

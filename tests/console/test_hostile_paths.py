"""What `tuitrain run` prints of names and errors from outside: nothing that a terminal would obey."""

from __future__ import annotations

import sys

import pytest

from tuitrain.cli.program import run_command
from tuitrain.console.printers import BarPrinter, PlainPrinter, Printer
from tuitrain.events import Checkpoint, Event, RunEnded

EVENTS: list[Event] = [
    Checkpoint(step=1, path="r\x1b[31m [bold]x/step-1", kind="manual"),
    RunEnded(state="failed", step=1, error="ValueError: \x1b[31mred\nblue"),
]


@pytest.mark.parametrize("make_printer", [PlainPrinter, BarPrinter])
def test_a_line_has_no_control_character(make_printer: type[Printer], capsys: pytest.CaptureFixture[str]) -> None:
    printer = make_printer()
    printer.show(EVENTS)
    printer.close()
    out = capsys.readouterr().out
    assert "\x1b[31m" not in out
    assert "checkpoint r·[31m [bold]x/step-1\n" in out
    assert "failed: ValueError: ·[31mred·blue\n" in out


@pytest.mark.parametrize("make_printer", [PlainPrinter, BarPrinter])
def test_a_path_is_not_broken(make_printer: type[Printer], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = f"{'a folder with a long name/' * 4}step-1"
    printer = make_printer()
    printer.show([Checkpoint(step=1, path=path, kind="last")])
    printer.close()
    assert f"checkpoint {path}\n" in capsys.readouterr().out


def test_a_refusal_has_none_either(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["tuitrain", "runs", "\x1b[31mred"])
    with pytest.raises(SystemExit):
        run_command()
    said = capsys.readouterr().err
    assert "·[31mred" in said
    assert "\x1b" not in said

"""What `tuitrain run` says of the clock at the end of a run with a target accuracy."""

from __future__ import annotations

import json

import msgspec
import pytest

from tuitrain.console.printers import JsonPrinter, PlainPrinter, clock_line
from tuitrain.events import Clock, RunEnded

CLOCK = Clock(step=476, seconds=13.5, target=0.94)
CROSSED = msgspec.structs.replace(CLOCK, crossed_epoch=9, crossed_seconds=12.3)
END = RunEnded(state="finished", step=476)


def test_the_words() -> None:
    assert clock_line(CLOCK) == "94 % test accuracy not reached; 13.50 s of training"
    assert clock_line(CROSSED) == "94 % crossed at epoch 9, 12.30 s of training; 13.50 s in all"
    last = msgspec.structs.replace(CROSSED, crossed_epoch=10, crossed_seconds=13.5)
    assert clock_line(last) == "94 % crossed at epoch 10, 13.50 s of training"


def test_the_line_comes_once_before_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    PlainPrinter().show([CLOCK, CROSSED, END])
    assert capsys.readouterr().out.splitlines() == [clock_line(CROSSED), "finished"]
    PlainPrinter().show([END])
    assert capsys.readouterr().out.splitlines() == ["finished"]


def test_json_has_the_event(capsys: pytest.CaptureFixture[str]) -> None:
    JsonPrinter().show([CROSSED])
    told = {"event": "clock", "step": 476, "seconds": 13.5, "target": 0.94, "crossed_epoch": 9, "crossed_seconds": 12.3}
    assert json.loads(capsys.readouterr().out) == told

"""The lines of a machine with a GPU: which there are, and that they say "not measured" elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.awaited import LINES, NO_GPU, NotMeasured
from benchmarks.figures import ALL
from benchmarks.pairs import Wanted

WANTED = Wanted(Path("data"), pairs=2)
NAMES = ("gpu-speed", "gpu-app-speed")


@pytest.fixture
def _one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "gpus", lambda: ["a card"])
    for name, seconds in (("headless", 0.0002), ("in_app", 0.00021), ("plain_loop", 0.0007), ("plain", 0.004)):
        monkeypatch.setattr(gpu, name, lambda *given, seconds=seconds: seconds)


@pytest.mark.usefixtures("_one_gpu")
def test_the_lines_are_those_that_are_awaited() -> None:
    lines = [line for name in NAMES for line in ALL[name](WANTED)]
    assert [(line.name, line.target) for line in lines] == [(line.name, line.target) for line in LINES if line.taken_by in NAMES]
    assert [(line.ratio, line.holds) for line in lines] == [(20.0, False), (3.5, True), (0.952, False)]


@pytest.mark.parametrize("name", NAMES)
def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(gpu, "gpus", list)
    with pytest.raises(NotMeasured, match=NO_GPU):
        ALL[name](WANTED)


@pytest.mark.usefixtures("_one_gpu")
def test_where_time_is_over_one_round_counts_and_all_that_was_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = ALL["gpu-app-speed"](replace(WANTED, within=0.0))
    assert (line.ratio, line.pairs) == (0.952, 1)
    said = capsys.readouterr().err.splitlines()
    app, without = "seconds of a step, in the app: 0.00021", "seconds of a step, without a screen: 0.0002"
    assert said == [app, without, without, app]  # the first round does not count

"""The lines of a machine with a GPU: which there are, and that they say "not measured" elsewhere."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import gpu
from benchmarks.awaited import LINES, NO_GPU, NotMeasured
from benchmarks.figures import ALL
from benchmarks.pairs import Wanted
from benchmarks.programs import device_times
from benchmarks.turns import Phase, Turn
from tuitrain.runs.schema import SCHEMA

WANTED = Wanted(Path("data"), pairs=2)
SECONDS = {"headless": 0.0002, "fastest": 0.0001, "in the app": 0.00021, "loop": 0.0007, "script": 0.004}


@pytest.fixture
def _one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "gpus", lambda: ["a card"])
    monkeypatch.setattr(
        gpu, "tuitrain", lambda training, in_app=False: "in the app" if in_app else "fastest" if "bf16" in training.options else "headless"
    )
    monkeypatch.setattr(gpu, "plain_loop", lambda training: "loop")
    monkeypatch.setattr(gpu, "plain_script", lambda images, device: "script")

    def in_phases(trainees: Sequence[str], phases: Sequence[Phase]) -> list[list[tuple[Turn, ...]]]:
        return [[tuple(Turn(SECONDS[name], 0.0) for name in trainees)] * phase.turns for phase in phases]

    monkeypatch.setattr(gpu, "in_phases", in_phases)


@pytest.mark.usefixtures("_one_gpu")
def test_the_lines_are_those_that_are_awaited() -> None:
    lines = ALL["gpu-speed"](WANTED)
    assert [(line.name, line.target) for line in lines] == [(line.name, line.target) for line in LINES if line.taken_by == "gpu-speed"]
    assert [(line.ratio, line.holds) for line in lines] == [(20.0, False), (40.0, True), (3.5, True), (0.952, False)]


def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "gpus", list)
    with pytest.raises(NotMeasured, match=NO_GPU):
        ALL["gpu-speed"](WANTED)


def test_a_gpu_tells_itself_when_it_had_done_a_step(tmp_path: Path) -> None:
    """Its host makes two steps a second, and is ahead of it."""
    (tmp_path / "run").mkdir()
    with closing(sqlite3.connect(tmp_path / "run" / "metrics.sqlite")) as connection:
        connection.executescript(SCHEMA)
        made = [(step, 1 if step <= 4 else 2, 100 + step / 2 if step <= 4 else 110 + step) for step in range(1, 8)]
        connection.executemany("INSERT INTO losses VALUES (?, ?, 0.5, ?)", made)
        connection.executemany("INSERT INTO step_events VALUES (?, 0.1, ?)", [(2, 64), (4, 32), (6, 128)])
        connection.commit()
    # Steps 1 and 2 take a second each from when the host made the first, 3 and 4 two; the next epoch begins with the host; 7 is untold.
    assert device_times(tmp_path) == [101.5, 102.5, 104.5, 106.5, 115.5, 116.0]

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from small_runs import STARTED, make_run

from tuitrain.config import ConfigError
from tuitrain.paths import CONFIG
from tuitrain.runs import report
from tuitrain.runs.logtail import describe
from tuitrain.runs.process import this_process
from tuitrain.runs.report import _fitting, _table

_TITLES = ("RUN", "STATE", "DEVICE", "DATA", "STEP", "EPOCH", "LOSS", "ACCURACY", "TOOK", "STARTED (UTC)", "NAME")


@pytest.mark.parametrize("name", ["y" * 300, "网" * 300], ids=["narrow letters", "wide letters"])
@pytest.mark.parametrize("width", [80, 81, 120, 200])
def test_a_long_name_is_cut_and_takes_no_more_columns_away_than_a_shorter_one(name: str, width: int) -> None:
    row = ("20261123-1405-seed-cnn-abc", "finished", "cpu", "synthetic", "100", "1", "1.1204", "99.9%", "0:12:05", "2026-11-23 14:05")
    titles, values = _fitting([_TITLES, (*row, name)], width)
    assert titles == _fitting([_TITLES, (*row, "y" * 20)], width)[0]
    assert values[-1].endswith("…")
    _, line = _table([titles, values])
    assert width - 1 <= cell_len(line) <= width
    assert _fitting([_TITLES, (*row, name)], None)[1][-1] == name


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"running_seconds": 65.9}, "0:01:05"),
        ({"running_seconds": 90_061.0}, "25:01:01"),
        ({"running_seconds": None}, ""),
        ({"running_seconds": 65.4, "state": "running", "pid": os.getpid(), "pid_started": this_process().pid_started}, ""),
    ],
    ids=["a minute", "a day", "nobody knows", "it trains"],
)
def test_the_list_says_how_long_runs_took(runs_dir: Path, status: dict[str, Any], shown: str) -> None:
    make_run(runs_dir, **status)
    titles, line = report.runs(runs_dir, as_json=False).splitlines()
    end = titles.index("TOOK") + 4
    assert line[titles.index("ACCURACY") + 8 : end].strip() == shown
    assert ("took" in report.show(runs_dir, "last", as_json=False)) == bool(shown)


@pytest.mark.parametrize(("width", "there"), [(80, []), (120, ["TOOK"]), (140, ["TOOK", "STARTED (UTC)"])])
def test_how_long_it_took_stays_longer_than_when_it_began(width: int, there: list[str]) -> None:
    row = (
        "20261123-1405-seed-cnn-abc",
        "finished",
        "cpu",
        "synthetic",
        "100",
        "1",
        "1.1204",
        "99.9%",
        "0:12:05",
        "2026-11-23 14:05",
        "y" * 20,
    )
    titles = _fitting([_TITLES, row], width)[0]
    assert [title for title in titles if title in ("TOOK", "STARTED (UTC)")] == there


def test_many_gpus_are_a_range_in_the_list_in_show_and_in_the_log(runs_dir: Path) -> None:
    eight = tuple(f"cuda:{index}" for index in range(8))
    run = make_run(runs_dir, device=eight).id
    assert " cuda:0-7 " in report.runs(runs_dir, as_json=False).splitlines()[1]
    assert ["device", "cuda:0-7"] in [line.split() for line in report.show(runs_dir, run, as_json=False).splitlines()]
    described = describe(msgspec.structs.replace(STARTED, device=eight, strategy="ddp"))
    assert described == ("info", "seed-cnn on cuda:0-7 (ddp), synthetic data: 640 training and 100 test samples")


@pytest.mark.parametrize("damage", [None, "lr = fast\n"], ids=["gone", "damaged"])
def test_a_run_whose_configuration_cannot_be_read_is_shown_without_it(runs_dir: Path, damage: str | None) -> None:
    folder = make_run(runs_dir, state="finished", step=12, loss=0.5)
    file = folder.path / CONFIG
    file.unlink() if damage is None else file.write_text(damage)
    lines = report.show(runs_dir, "last", as_json=False).splitlines()
    assert ["loss", "0.5000"] in [line.split() for line in lines]
    (sentence,) = lines[lines.index("configuration") + 1 :]
    assert str(file) in sentence
    with pytest.raises(ConfigError, match=CONFIG):
        report.show(runs_dir, "last", as_json=True)

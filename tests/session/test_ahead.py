"""Ranks that are started before torch is loaded here: when, and that none is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_groups import AGENT, RANK, quiet_control, small_run

from tuitrain.cli.wiring import load_engine
from tuitrain.config import ConfigError, RunConfig, with_changes
from tuitrain.events import Event, RunEnded
from tuitrain.session import ahead
from tuitrain.session.ahead import ranks_ahead
from tuitrain.session.ranks import Ranks


class NoRanks:
    """In the place of `Ranks`: keeps what it was made of, and whether it was closed."""

    def __init__(self, *made_of: object) -> None:
        self.made_of, self.closed = made_of, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NoRanks]:
    """The ranks that were started."""
    found: list[NoRanks] = []

    def start(*made_of: object) -> NoRanks:
        found.append(NoRanks(*made_of))
        return found[-1]

    monkeypatch.setattr(ahead, "Ranks", start)
    return found


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({"device": "cpu,cpu", "strategy": "ddp"}, True),
        ({"device": "cuda:0,cuda:1", "strategy": "auto"}, True),
        ({"device": "cuda:1", "strategy": "ddp"}, True),
        ({"device": "cpu,cpu", "strategy": "auto"}, False),
        ({"device": "cpu,cpu", "strategy": "split"}, False),
        ({"device": "cuda:0", "strategy": "auto"}, False),
        ({"device": "auto:2", "strategy": "ddp"}, False),
        ({"device": "auto:all", "strategy": "auto"}, False),
        ({"device": "cpu", "strategy": "ddp", "nnodes": "2", "rdzv_endpoint": "node0:29500"}, False),
    ],
)
def test_they_are_started_where_they_are_known(changes: dict[str, Any], known: bool, started: list[NoRanks]) -> None:
    config, control, placed = with_changes(RunConfig(), changes), quiet_control(), list[tuple[str, ...]]()
    control.placed = lambda devices: placed.append(tuple(devices))  # type: ignore[method-assign]
    found = ranks_ahead(config, control, AGENT, RANK)
    assert (found is not None) == known
    assert [one.made_of for one in started] == ([(AGENT, RANK, config)] if known else [])
    assert placed == ([tuple(config.device.split(","))] if known else [])


def test_where_no_process_can_be_started_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*made_of: object) -> None:
        raise OSError("no process")

    monkeypatch.setattr(ahead, "Ranks", fail)
    assert ranks_ahead(small_run(2), quiet_control(), AGENT, RANK) is None


@pytest.mark.parametrize("how", ["refused", "ended", "given up"])
def test_the_engine_gets_them_and_none_is_left(how: str, started: list[NoRanks], monkeypatch: pytest.MonkeyPatch) -> None:
    def train(config: RunConfig, control: object, *, spread: Any) -> Iterator[Event]:
        (ranks,) = started
        assert not ranks.closed
        assert spread.keywords["ahead"] is ranks
        if how == "refused":
            raise ConfigError("device: it is not there.")
        yield RunEnded(state="finished", step=1)

    monkeypatch.setattr("tuitrain.engine.train.train", train)
    events = load_engine()(small_run(2), quiet_control())
    assert not started
    if how == "refused":
        with pytest.raises(ConfigError):
            next(events)
    elif how == "given up":
        next(events)
        assert not started[0].closed
        events.close()  # type: ignore[attr-defined]
    else:
        list(events)
    assert started[0].closed


def test_ranks_can_be_closed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short_agent.py").write_text("import sys\nsys.stdin.read()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ranks = Ranks("short_agent", RANK, small_run(2))
    assert ranks.process.poll() is None
    ranks.close()
    assert ranks.process.poll() is not None
    ranks.close()

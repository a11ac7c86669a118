"""The folder of a run that trains, moved away: that is said once, and what came meanwhile is kept when it is back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_sessions import BOUND, Heard, session_of, started

from tuitrain.config import DEFAULTS, RunConfig
from tuitrain.events import Event, Losses, Notice, RunEnded, State
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.store import MetricsWriter
from tuitrain.session import archive
from tuitrain.session.archive import Archive
from tuitrain.session.control import Control


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_folder_that_was_moved_away(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, comes_back: bool) -> None:
    monkeypatch.setattr(archive, "MetricsWriter", Impatient)
    moved, told = threading.Event(), threading.Event()

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(2)
        yield State(state="running")
        yield Losses(first_step=1, epoch=1, losses=(1.0,), times=(1.0,))
        assert moved.wait(BOUND)
        yield Losses(first_step=2, epoch=1, losses=(0.5,), times=(2.0,))
        assert told.wait(BOUND)
        yield RunEnded(state="finished", step=2)

    session = session_of(train, tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(Losses, 1)
    assert session.record is not None
    path = session.record.path
    assert path is not None
    elsewhere = path.rename(tmp_path / "elsewhere")
    moved.set()
    heard.wait_for(Notice)
    assert not path.exists()
    if comes_back:
        elsewhere.rename(path)
    told.set()
    assert session.join(BOUND)

    first, *more = [notice.text for notice in session.record.notices]
    gone = f"The run's folder is not there any more: {path}."
    assert first == f"{gone} Training goes on, and nothing of it is kept until the folder is back."
    if comes_back:
        kept = load_record(path)
        assert more == ["The run's folder is back, and what came meanwhile is written into it."]
        assert (kept.state, kept.step) == ("finished", 2)
        assert [notice.text for notice in kept.notices] == [first, *more]
    else:
        assert more == [f"{events_of(more)} events could not be written to the run's metrics: its folder is not there any more."]
        assert not path.exists()


def test_each_time_that_it_goes_and_comes_back_is_said_once(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, DEFAULTS, started(2), {})
    kept, record = Archive(folder), RunRecord(DEFAULTS)
    record.apply(started(2))
    said = []
    for _ in range(2):
        elsewhere = folder.path.rename(tmp_path / "elsewhere")
        said += [kept.commit(record), kept.commit(record)]
        elsewhere.rename(folder.path)
        said += [kept.commit(record), kept.commit(record)]
    kept.close(record)
    assert [notice.text.partition(" there")[0] for notices in said for notice in notices] == [
        *("The run's folder is not", "The run's folder is back, and what came meanwhile is written into it.")
    ] * 2
    assert list(map(len, said)) == [1, 0] * 4


class Impatient(MetricsWriter):
    """Of a folder that never comes back it is known sooner."""

    def close(self, timeout: float = 0.0, locked: float = 0.0) -> int:
        return super().close(timeout, locked)


def events_of(texts: list[str]) -> int:
    """The number that the first of these begins with."""
    return int(texts[0].partition(" ")[0])

"""A ddp run that loses a rank, starts again, is stopped and gone on with: the losses, bit for bit, of one that was never interrupted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_groups import BOUND, RANK, events_of, losses_of, processes_of, spread, wait_until
from small_sessions import Heard

from tuitrain.config import RunConfig, with_changes
from tuitrain.events import Checkpoint, Notice, Progress, RunEnded, RunStarted, State
from tuitrain.recipes import load_recipe
from tuitrain.runs.reader import MetricsReader
from tuitrain.session.worker import WorkerSession

STEPS = 24


@pytest.fixture(autouse=True)
def _ranks_find_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def config() -> RunConfig:
    """Three ranks, so that the order in which gradients are added up counts; dropout, so that each rank's generator does."""
    changes = {"device": "cpu,cpu,cpu", "strategy": "ddp", "data": "small_images:make_images", "batch_size": 16}
    return with_changes(load_recipe("transformer"), changes | {"max_steps": STEPS, "dropout": 0.3})


def session_and_heard(folder: Path) -> tuple[WorkerSession, Heard]:
    heard = Heard()
    session = WorkerSession(lambda: spread(), folder, list)
    session.subscribe(heard)
    return session, heard


def pause(session: WorkerSession, heard: Heard, times: int = 1) -> int:
    """Have it pause, for the first time or once more; the step that it has made by then."""
    session.pause()
    wait_until(lambda: list(heard.events).count(State(state="paused")) == times or session.refusal, BOUND)
    assert session.refusal is None
    assert session.record is not None
    return session.record.step


def test_a_group_goes_on_bit_for_bit_after_a_death_and_after_a_stop(tmp_path: Path) -> None:
    whole = losses_of(events_of(config(), tmp_path / "whole"))
    assert len(whole) == STEPS

    # Rank 1 dies in a run that has saved once, by request.
    session, heard = session_and_heard(tmp_path / "runs")
    session.start(config())
    saved_at = pause(session, heard)
    session.checkpoint()
    wait_until(lambda: any(isinstance(event, Checkpoint) for event in list(heard.events)), BOUND)
    processes_of(os.getpid(), RANK)[1].kill()
    wait_until(lambda: Progress(phase="starting the group again") in list(heard.events), BOUND)
    stopped_at = pause(session, heard, times=2)
    session.stop()
    assert session.join(BOUND)
    # It was paused, and stays so: before its first step, or after the ones that it made until it heard of that.
    assert 1 <= saved_at <= stopped_at < STEPS
    texts = [event.text for event in heard.events if isinstance(event, Notice)]
    again = f"rank 1 (cpu) died (SIGKILL); the group started again from step {saved_at}, restart 1 of 3."
    assert any(again in text for text in texts), texts
    assert [event.resumed_from for event in heard.events if isinstance(event, RunStarted)] == [None, saved_at]
    assert [event.state for event in heard.events if isinstance(event, State)] == ["running", "paused", "running", "paused"]
    assert session.record is not None
    path = session.record.path
    assert path is not None
    assert heard.events[-1] == RunEnded(run=path.name, state="stopped", step=stopped_at)
    assert list((tmp_path / "runs").iterdir()) == [path]

    session, heard = session_and_heard(tmp_path / "runs")
    session.start(config(), resume=path)
    assert heard.over.wait(BOUND)
    assert session.join(BOUND)
    assert session.refusal is None
    assert session.record is not None
    assert heard.events[-1] == RunEnded(run=path.name, state="finished", step=STEPS)
    assert [event.resumed_from for event in heard.events if isinstance(event, RunStarted)] == [stopped_at]

    assert [session.record.loss.at(step) for step in whole] == list(whole.items())
    assert len(session.record.loss) == STEPS
    with MetricsReader(path / "metrics.sqlite") as reader:
        assert [(step.step, step.loss) for _, step in reader.step_events()] == sorted(whole.items())
    assert steps_read_by_tensorboard(path) == list(range(1, STEPS + 1))


def steps_read_by_tensorboard(path: Path) -> list[int]:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    accumulator = EventAccumulator(str(path / "tensorboard"), size_guidance={SCALARS: 0})
    accumulator.Reload()
    return [point.step for point in accumulator.Scalars("train_loss")]

"""A ddp run that is stopped, gone on with, loses a rank and starts again: the losses, bit for bit, of one that was never interrupted."""

from __future__ import annotations

import os
from pathlib import Path

from small_groups import BOUND, RANK, events_of, losses_of, processes_of, spread, wait_until
from small_sessions import Heard

from tuitrain.config import RunConfig, with_changes
from tuitrain.events import Notice, RunEnded, RunStarted, State
from tuitrain.recipes import load_recipe
from tuitrain.runs.store import MetricsReader
from tuitrain.session.worker import WorkerSession

STEPS = 8


def config() -> RunConfig:
    """Three ranks, so that the order in which gradients are added up counts; dropout, so that each rank's generator does."""
    changes = {"device": "cpu,cpu,cpu", "strategy": "ddp", "data": "synthetic", "batch_size": 16, "max_steps": STEPS, "dropout": 0.3}
    return with_changes(load_recipe("transformer"), changes)


def session_and_heard(folder: Path) -> tuple[WorkerSession, Heard]:
    heard = Heard()
    session = WorkerSession(lambda: spread(), folder, list)
    session.subscribe(heard)
    return session, heard


def test_a_group_goes_on_bit_for_bit_after_a_stop_and_after_a_death(tmp_path: Path) -> None:
    whole = losses_of(events_of(config(), tmp_path / "whole"))
    assert len(whole) == STEPS

    session, heard = session_and_heard(tmp_path / "runs")
    session.start(config())
    session.pause()
    wait_until(lambda: session.state == "paused" or session.refusal, BOUND)
    session.stop()
    assert session.join(BOUND)
    assert session.record is not None
    assert session.record.state == "stopped"
    path, stopped_at = session.record.path, session.record.step
    assert path is not None
    assert 0 < stopped_at < STEPS

    session, heard = session_and_heard(tmp_path / "runs")
    session.start(config(), resume=path)
    session.pause()
    wait_until(lambda: session.state == "paused" or session.refusal, BOUND)
    assert session.refusal is None
    wait_until(lambda: len(processes_of(os.getpid(), RANK)) == 3, BOUND)
    processes_of(os.getpid(), RANK)[2].kill()
    assert heard.over.wait(BOUND)
    assert session.join(BOUND)
    assert session.refusal is None
    assert session.record is not None
    assert heard.events[-1] == RunEnded(run=path.name, state="finished", step=STEPS)
    assert [event.resumed_from for event in heard.events if isinstance(event, RunStarted)] == [stopped_at, stopped_at]
    assert [event.state for event in heard.events if isinstance(event, State)] == ["running", "paused", "running"]
    assert any("died (SIGKILL); the group started again" in event.text for event in heard.events if isinstance(event, Notice))

    assert [session.record.loss.at(step) for step in whole] == list(whole.items())
    with MetricsReader(path / "metrics.sqlite") as reader:
        assert {step.step: step.loss for _, step in reader.step_events()} == whole
    assert steps_read_by_tensorboard(path) == list(range(1, STEPS + 1))


def steps_read_by_tensorboard(path: Path) -> list[int]:
    from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator

    accumulator = EventAccumulator(str(path / "tensorboard"), size_guidance={SCALARS: 0})
    accumulator.Reload()
    return [point.step for point in accumulator.Scalars("train_loss")]

"""The lines that `tuitrain run` prints of epochs know what the session's record knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_sessions import BOUND, Heard, session_of, started

from tuitrain.config import DEFAULTS, RunConfig, with_changes
from tuitrain.console import follow
from tuitrain.console.printers import PlainPrinter
from tuitrain.events import Eval, Event, Losses, RunEnded
from tuitrain.session.control import Control


def train(config: RunConfig, control: Control) -> Iterator[Event]:
    """An engine that makes four steps."""
    yield started(4)
    yield Losses(first_step=1, epoch=1, losses=(4.0, 3.0, 2.0, 1.0), times=(1.0, 2.0, 3.0, 4.0))
    yield Eval(step=4, epoch=1, loss=3.5, loss_sum=7.0, accuracy=0.25)
    yield RunEnded(state="finished", step=4)


def test_the_line_of_an_epoch_has_the_mean_of_its_training_loss(tmp_path: Path, heard: Heard, capsys: pytest.CaptureFixture[str]) -> None:
    session = session_of(train, tmp_path, heard)
    batch_size = str(started(4).train_samples // started(4).steps_per_epoch)
    assert follow(session, with_changes(DEFAULTS, {"batch_size": batch_size}, from_text=True), PlainPrinter()) == 0
    assert session.join(BOUND)
    assert "epoch 1  train loss 2.5000  test loss 3.5000  accuracy 25.00%" in capsys.readouterr().out.splitlines()

"""What is asked of a run while another thread refuses it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tuitrain.config import RunConfig
from tuitrain.runs.record import RunRecord
from tuitrain.tui.run_view import RunView, hangs, log_of
from tuitrain.tui.screens import predictions
from tuitrain.tui.widgets import parameter_table
from tuitrain.tui.widgets.curve import Curve


class Refused(RunView):
    """There at the first question, and refused by the next one."""

    def __init__(self) -> None:
        super().__init__(SimpleNamespace(state="preparing", refusal=None))  # type: ignore[arg-type]
        self._answers: list[RunRecord | None] = [RunRecord(RunConfig())]

    @property
    def record(self) -> RunRecord | None:
        return self._answers.pop() if self._answers else None


@pytest.mark.parametrize(
    "ask",
    [
        log_of,
        hangs,
        lambda run: run.unbegun,
        lambda run: run.state,
        lambda run: predictions._accuracy(run, 1),
        parameter_table._waiting,
        lambda run: Curve._newest.fget(SimpleNamespace(_view=run)),  # type: ignore[attr-defined]
    ],
)
def test_a_run_that_is_refused_between_two_questions_ends_no_screen(ask: Callable[[Any], Any]) -> None:
    ask(Refused())

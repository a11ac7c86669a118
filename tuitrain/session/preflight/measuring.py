"""The trials of one configuration beside everything else that the app does: a thread of its own that can be stopped and joined."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from tuitrain.config import RunConfig
from tuitrain.session.background import Background
from tuitrain.session.preflight.plans import LeftOut, Plan, left_out, plans, pool_of, spec_of
from tuitrain.session.preflight.results import Row, compare
from tuitrain.session.preflight.trials import Cancelled, Trials
from tuitrain.wire import Measured


class Measuring(Background):
    """Measures one plan after the other. Whoever reads it sees each row as soon as it is there.

    Args:
        trials: measures.
        config: what is to be trained.
        changed: called from the thread when there is something new to show; it must not block.
    """

    def __init__(self, trials: Trials, config: RunConfig, changed: Callable[[], None]) -> None:
        super().__init__("tuitrain-preflight", changed)
        self.plans: tuple[Plan, ...] = ()
        self.left_out: tuple[LeftOut, ...] = ()
        self.now: Plan | None = None
        """The one that is being measured."""
        self.problem: str | None = None
        """Why nothing can be measured, in one sentence."""
        self._config = config
        self._trials = trials
        self._measured: dict[Plan, Measured] = {}

    @property
    def rows(self) -> tuple[Row, ...]:
        """What is known now."""
        return compare(self.plans, dict(self._measured))

    def start(self) -> None:
        """Measure everything, from the beginning; nothing happens while that is under way."""
        if self.busy:
            return
        self.problem, self._measured = None, {}
        self._begin(self._measure)

    def _measure(self, stop: threading.Event) -> None:
        try:
            self._plan(stop)
            for plan in self.plans:
                self.now, self._began = plan, time.monotonic()
                self._changed()
                self._measured[plan] = self._trials.measure(self._config, plan, stop)
        except Cancelled:
            pass
        except OSError as error:
            self.problem = f"The trials cannot be done: {error.strerror or error}."
        finally:
            self.now = None

    def _plan(self, stop: threading.Event) -> None:
        """Find out between which devices there is a choice."""
        if self.plans:
            return
        found = self._trials.devices(msgspec.structs.replace(self._config, device=spec_of(self._config.device)), stop)
        if found.error is not None or not found.devices:
            self.problem = found.error or "There is no device to measure."
            return
        pool = pool_of(found.devices)
        self.plans, self.left_out = plans(pool), left_out(pool)

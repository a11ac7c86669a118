"""What it costs to watch a run of another process: each reading of its folder is drawn once, and only what it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeOutside, FakeSampler, FakeSession, seed_cnn
from kept_runs import here, keep, until, until_shown
from textual.pilot import Pilot
from textual.screen import Screen

from tuitrain.events import Losses, Step
from tuitrain.paths import METRICS
from tuitrain.runs.store import MetricsWriter
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.curve.plot import Plot
from tuitrain.tui.screens.opened import _BEATS, _MOST_BEATS, OpenedScreen
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.keybar import KeyBar
from tuitrain.tui.widgets.settings import SettingsPane

ID = "20261121-0413-seed-cnn-aaa"
KEPT = 1000


def grow(path: Path, first: int, last: int) -> None:
    """The process that trains has made these steps."""
    steps = range(first, last + 1)
    writer = MetricsWriter(path / METRICS)
    writer.append(
        [
            Losses(
                first_step=first, epoch=1, losses=tuple(1.0 + step / KEPT for step in steps), times=tuple(2000.0 + step for step in steps)
            ),
            Step(step=last, epoch=1, loss=1.0, lr=0.01, samples_per_second=640.0),
        ]
    )
    assert writer.commit()
    writer.close()


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what costs something was done."""
    counts: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        real: Callable[..., Any] = getattr(owner, name)

        def counted(*args: Any, **more: Any) -> Any:
            counts[f"{owner.__name__}.{name}"] += 1
            return real(*args, **more)

        monkeypatch.setattr(owner, name, counted)

    for owner, name in (
        (Plot, "_drawn"),
        (Curve, "on_arrived"),
        (SettingsPane, "settings"),
        (KeyBar, "_fitting"),
        (Screen, "_refresh_layout"),
        (OpenedScreen, "on_opened_screen_read"),
    ):
        count(owner, name)
    return counts


async def watched(pilot: Pilot[None]) -> OpenedScreen:
    """The screen of a run that is followed, with its curve drawn."""
    await until_shown(pilot, "space Pause", "Devices")
    screen = pilot.app.screen
    assert isinstance(screen, OpenedScreen)
    await until(pilot, lambda: screen._curve._plot.columns > 0 and not screen._curve._later._running and not screen._busy)
    await pilot.pause()
    return screen


@pytest.fixture
def app(session: FakeSession, sampler: FakeSampler, runs_dir: Path, outside: FakeOutside, monkeypatch: pytest.MonkeyPatch) -> TuitrainApp:
    monkeypatch.setattr("tuitrain.tui.screens.base.BEAT_SECONDS", 3600.0)
    outside.answers = True
    keep(runs_dir, ID, steps=KEPT, **here())
    return TuitrainApp(session, sampler, seed_cnn(), runs_dir, attach=runs_dir / ID, outside=outside)


async def test_a_reading_is_drawn_once_and_only_where_it_changed_something(
    app: TuitrainApp, runs_dir: Path, monkeypatch: pytest.MonkeyPatch, done: Counter[str]
) -> None:
    monkeypatch.setattr("tuitrain.tui.screens.opened._CURVE_SECONDS", 0.0)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await watched(pilot)
        for last in (KEPT + 100, KEPT + 200):  # the first reading may still find what never changes afterwards
            grow(runs_dir / ID, last - 99, last)
            done.clear()
            screen._attachment.stirred = True
            screen._beats += _BEATS - 1
            screen.beat()
            await until_shown(pilot, f"{last:,}/")
            await until(pilot, lambda: done["Plot._drawn"] > 0 and not screen._busy)
            await pilot.pause()
        assert done == {"OpenedScreen.on_opened_screen_read": 1, "Plot._drawn": 1}


async def test_after_much_was_sent_the_next_reading_waits_longer_and_a_key_is_answered_at_once(
    app: TuitrainApp, runs_dir: Path, done: Counter[str]
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await watched(pilot)
        for _ in range(_BEATS):
            screen.beat()
        app.sent += 10_000
        await until(pilot, lambda: not screen._busy)
        done.clear()
        for _ in range(_MOST_BEATS - 1):
            screen._attachment.stirred = True
            screen.beat()
            await until(pilot, lambda: not screen._busy)
        assert done["OpenedScreen.on_opened_screen_read"] == 0
        grow(runs_dir / ID, KEPT + 1, KEPT + 50)
        screen.post_message(screen.Told())
        await until_shown(pilot, f"{KEPT + 50:,}/")
        done.clear()
        screen.beat()
        await until(pilot, lambda: done["OpenedScreen.on_opened_screen_read"] == 1)


async def test_the_curve_waits_for_more_while_the_numbers_go_on(app: TuitrainApp, runs_dir: Path, done: Counter[str]) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await watched(pilot)
        grow(runs_dir / ID, KEPT + 1, KEPT + 2)
        screen._curve._plot._drawn_at += 1000  # not long ago, however slow this machine is
        done.clear()
        screen._read()
        await until_shown(pilot, f"{KEPT + 2:,}/")
        assert done["Plot._drawn"] == 0
        screen._curve._plot._drawn_at -= 2000
        screen._read()
        await until(pilot, lambda: done["Plot._drawn"] == 1)
        assert done["Curve.on_arrived"] == 0

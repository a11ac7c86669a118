"""Every screen beats once a second, also one that does something of its own when it opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import FakeSampler, FakeSession, seed_cnn
from kept_runs import until

from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.base import PaneScreen


@pytest.mark.parametrize("key", ["r", "g"])
async def test_a_screen_begins_to_beat_once(
    session: FakeSession, sampler: FakeSampler, tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = TuitrainApp(session, sampler, seed_cnn(), tmp_path)
    begun: list[PaneScreen] = []
    set_interval = PaneScreen.set_interval

    def counted(screen: PaneScreen, *args: Any, **options: Any) -> object:
        if screen._beat in args:
            begun.append(screen)
        return set_interval(screen, *args, **options)

    monkeypatch.setattr(PaneScreen, "set_interval", counted)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key)
        await until(pilot, lambda: app.screen is not app.main and app.screen in begun)
        await pilot.pause()
        assert (begun.count(app.main), begun.count(app.screen)) == (1, 1)

"""`make screenshots`: the app's screens as pictures, from real runs of the seed CNN on the built-in synthetic data.

Each picture is what Textual itself would draw on a terminal of that size.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tuitrain.cli import session_and_sampler
from tuitrain.config import load_recipe, with_changes
from tuitrain.session import Session
from tuitrain.tui.app import TuitrainApp

HERE = Path(__file__).parent
SIZES = ((120, 40), (80, 24))
STEPS = 250
BOUND_SECONDS = 300.0


async def until(condition: Callable[[], bool]) -> None:
    """Wait for `condition`.

    Raises:
        TimeoutError: it did not come true.
    """
    end = time.monotonic() + BOUND_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        await asyncio.sleep(0.05)


def keep(app: TuitrainApp, name: str, columns: int) -> None:
    """Write what `app` shows as an SVG."""
    (HERE / f"{name}-{columns}.svg").write_text(app.export_screenshot(title="tuitrain"), encoding="utf-8")


async def take(session: Session, app: TuitrainApp, columns: int, rows: int) -> None:
    """The launcher, and a run after `STEPS` steps and one evaluation."""
    async with app.run_test(size=(columns, rows)) as pilot:
        await pilot.pause(1.5)
        keep(app, "launcher", columns)
        await pilot.press("enter")
        await until(lambda: session.record is not None and session.record.step >= STEPS)
        await pilot.pause(1.0)
        keep(app, "training", columns)
        session.stop()
        await until(lambda: session.state == "ended")


def main() -> None:
    """Take every picture at every size."""
    config = with_changes(load_recipe("seed-cnn"), {"data": "synthetic", "epochs": 2})
    for columns, rows in SIZES:
        with tempfile.TemporaryDirectory() as folder, session_and_sampler(Path(folder)) as (session, sampler):
            asyncio.run(take(session, TuitrainApp(session, sampler, config, Path(folder)), columns, rows))


if __name__ == "__main__":
    main()

"""`make screenshots [DATA=FOLDER]`: every screen as a picture, from real runs of the seed CNN, into this folder; the GPUs are stand-ins.

DATA is what to train on; without it, the built-in synthetic set. Each picture is what Textual itself would draw on a terminal of that size
with all colours.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from benchmarks.monitor import stand_in
from tuitrain.cli.wiring import download_cifar10, session_and_sampler, write_script
from tuitrain.config import RunConfig, with_changes
from tuitrain.recipes import load_recipe
from tuitrain.session import Session
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.widgets.code_view import CodeView

HERE = Path(__file__).parent
SIZES = ((120, 40), (80, 24))
BEFORE = {"first try": {}, "three times the learning rate": {"lr": 0.03}, "shuffled, momentum": {"shuffle": True, "momentum": 0.9}}
STEPS_BEFORE = 400
STEPS_AFTER_EPOCH = 120
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


def picture_of(app: TuitrainApp) -> str:
    """What the app shows, as an SVG."""
    # Without `simplify` it is what is sent to a terminal, of which no picture can be made.
    return app.export_screenshot(title="tuitrain", simplify=True)


class Camera:
    """Presses keys and keeps pictures."""

    def __init__(self, app: TuitrainApp, pilot: Pilot[None], columns: int) -> None:
        self._app = app
        self._pilot = pilot
        self._columns = columns

    async def press(self, *keys: str) -> None:
        """Press keys and let what they bring arrive."""
        await self._pilot.press(*keys)
        await self._pilot.pause(1.5)

    async def shoot(self, name: str, *keys: str) -> None:
        """Press keys, and keep what is shown then as an SVG."""
        await self.press(*keys)
        (HERE / f"{name}-{self._columns}.svg").write_text(picture_of(self._app), encoding="utf-8")


async def take_first(app: TuitrainApp, columns: int, rows: int) -> None:
    """What a newcomer sees."""
    async with app.run_test(size=(columns, rows)) as pilot:
        await Camera(app, pilot, columns).shoot("launcher")


async def take(session: Session, app: TuitrainApp, columns: int, rows: int) -> None:
    """The runs from before, and a run that trains."""
    async with app.run_test(size=(columns, rows)) as pilot:
        camera = Camera(app, pilot, columns)
        await camera.shoot("runs", "r")
        await camera.shoot("opened", "down", "enter")
        await camera.shoot("compare", "escape", "home", "space", "space", "space", "v")
        await camera.press("n", "enter")
        await until(lambda: session.record is not None and bool(session.record.evals))
        record = session.record
        assert record is not None
        target = record.step + STEPS_AFTER_EPOCH
        await until(lambda: record.step >= target)
        await camera.shoot("training")
        await camera.shoot("analysis", "i")
        await camera.press("i", "C")
        await until(lambda: any(view.code is not None for view in app.screen.query(CodeView)))
        await camera.shoot("code", "right_square_bracket")
        await camera.press("C")
        await camera.shoot("help", "question_mark")
        await camera.shoot("cursor", "question_mark", "left", "pageup", "pageup")
        await camera.shoot("predictions", "p")
        await camera.shoot("confusion", "m")
        await camera.shoot("parameters", "t", "w")
        await camera.shoot("log", "w", "o")
        session.stop()
        await until(lambda: session.state == "ended")


def run_before(session: Session, config: RunConfig) -> None:
    """Train from beginning to end without a screen."""
    session.start(config)
    while session.state != "ended":
        session.join(1.0)


def main() -> None:
    """Take every picture at every size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", default="synthetic")
    recipe = load_recipe("seed-cnn")
    config = with_changes(recipe, {"data": str(parser.parse_args().data)})
    live = with_changes(config, {"device": "cpu,cpu", "strategy": "split"})
    with tempfile.TemporaryDirectory() as folder, session_and_sampler(Path(folder) / "runs") as (session, sampler):
        os.environ["XDG_STATE_HOME"] = folder  # the person's own last launch stays what it is
        os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor"})
        os.environ.pop("NO_COLOR", None)
        runs = Path(folder) / "runs"
        for columns, rows in SIZES:
            asyncio.run(take_first(TuitrainApp(session, sampler, recipe, runs, download=download_cifar10), columns, rows))
        for name, changes in BEFORE.items():
            run_before(session, with_changes(config, {"name": name, "max_steps": STEPS_BEFORE, **changes}))
        for columns, rows in SIZES:
            app = TuitrainApp(session, sampler, live, runs, download=download_cifar10, write_script=write_script)
            asyncio.run(take(session, app, columns, rows))
    with stand_in("count 8") as nvml:
        subprocess.run([sys.executable, "-m", "screenshots.gpus"], env={**os.environ, **nvml}, check=True)


if __name__ == "__main__":
    main()

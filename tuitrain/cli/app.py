"""The app, opened and left."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuitrain.cli.wiring import download_cifar10, load_engine, session_and_sampler, write_script
from tuitrain.python import lasting_imports, leave_at_once

if TYPE_CHECKING:
    from tuitrain.config import RunConfig
    from tuitrain.session.warming import Warming
    from tuitrain.session.worker import Train

FETCH_JOIN_SECONDS = 2.0
_WITHOUT_A_CURSOR = ("dumb", "unknown")
"""Values of TERM for terminals, as an editor's, on which only one line after the other can be written."""


def open_app(
    config: RunConfig | None,
    runs_dir: Path,
    *,
    start_at_once: bool = False,
    recipe: str | None = None,
    resume: Path | None = None,
    attach: Path | None = None,
) -> int:
    """The app, until it is left; the exit code.

    Args:
        config: what the launcher holds; `None` for the first recipe.
        runs_dir: where the runs are kept.
        start_at_once: `config` starts at once, or the run in folder `resume` goes on with it.
        recipe: the name or file that `config` was read from.
        resume: the folder of that run.
        attach: the folder of the run that is shown first.

    Raises:
        click.UsageError: there is no terminal, or one on which nothing can be drawn.
    """
    _check_terminal(f"use `tuitrain {'show RUN' if attach else 'resume RUN' if resume else 'run RECIPE'}`")
    from tuitrain.config import RECIPES
    from tuitrain.recipes import load_recipe
    from tuitrain.session.threads import share_the_lock

    share_the_lock()
    with lasting_imports():
        from tuitrain.capture import Capture
        from tuitrain.devices.installed import cpu_only_torch
        from tuitrain.session.unseen import go_on_unseen
        from tuitrain.session.warming import Warming
        from tuitrain.tui.app import TuitrainApp
        from tuitrain.tui.launch.recipe_file import RecipeFile
        from tuitrain.tui.terminal.keyboard import Keyboard
        from tuitrain.tui.terminal.signals import signals_to

    with (
        Warming("tuitrain.engine.train") as warming,
        session_and_sampler(runs_dir, partial(_load_train, warming)) as (session, sampler),
        Capture() as capture,
        Keyboard() as keyboard,
    ):
        app = TuitrainApp(
            session,
            sampler,
            config or load_recipe(RECIPES[0]),
            runs_dir,
            start_at_once=start_at_once,
            recipe_file=None if recipe is None or recipe in RECIPES else RecipeFile(Path(recipe)),
            resume=resume,
            attach=attach,
            capture=capture,
            download=download_cifar10,
            write_script=write_script,
            cpu_only=cpu_only_torch,
        )
        if not start_at_once and attach is None:
            # Not before the first frame.
            app.from_outside(lambda: app.call_after_refresh(warming.start))
        with signals_to(app):
            app.run()
        code = app.return_code or 0
        if app.leaving.at_once:
            leave_at_once(code)
        if app.leaving.hung_up:
            capture.leave_terminal()
            keyboard.leave_terminal()
            code = go_on_unseen(session)
    if app.leaving.farewell:
        print(app.leaving.farewell)
    if not (app.fetch.join(FETCH_JOIN_SECONDS) and app.scripts.join(0)):
        # A thread may be inside an import of torch or wait for a disk; what a download leaves behind the next one removes.
        sys.stderr.flush()
        leave_at_once(code)
    return code


def _check_terminal(instead: str) -> None:
    """Raises: click.UsageError: there is no terminal, or one on which nothing can be drawn; `instead` says what to do then."""
    if not (sys.stdin.isatty() and (sys.stderr.isatty() or sys.stdout.isatty())):
        raise click.UsageError(f"the app needs a terminal; without one {instead}.")
    if (term := os.environ.get("TERM")) in _WITHOUT_A_CURSOR:
        named = f"TERM: on a {term!r} terminal the app cannot draw"
        raise click.UsageError(f"{named}; it must be the name of the terminal, such as xterm-256color, or {instead}.")


def _load_train(warming: Warming) -> Train:
    """The engine, which from now on this process itself reads."""
    warming.stop()
    return load_engine()

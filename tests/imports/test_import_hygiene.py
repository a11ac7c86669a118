"""What each room loads when it is imported: the static contracts cannot tell a deferred import, a fresh interpreter can."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    """The top-level modules in `sys.modules` after `statement` ran in a fresh interpreter."""
    program = f"{statement}\nimport json, sys; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout.splitlines()[-1]))


HEAVY = {"torch", "torchvision", "numpy", "tensorboard", "PIL"}
SCREEN = {"textual", "plotext", "textual_plotext"}


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import tuitrain.cli.program", HEAVY | SCREEN | {"pynvml", "psutil", "rich", "sqlite3", "msgspec", "platformdirs"}),
        ("import tuitrain.config, tuitrain.events, tuitrain.paths, tuitrain.recipes, tuitrain.text", HEAVY | SCREEN | {"pynvml"}),
        ("import tuitrain.runs.catalogue, tuitrain.runs.record, tuitrain.runs.store, tuitrain.runs.report", HEAVY | SCREEN | {"pynvml"}),
        ("import tuitrain.session, tuitrain.session.worker", HEAVY | SCREEN | {"pynvml"}),
        ("import tuitrain.devices.sampler, tuitrain.devices.inventory", HEAVY | SCREEN | {"pynvml"}),
        ("from tuitrain.devices.installed import cpu_only_torch; cpu_only_torch()", HEAVY | SCREEN | {"pynvml"}),
        ("import tuitrain.console", HEAVY | SCREEN | {"pynvml"}),
        ("import tuitrain.tui.app", HEAVY | {"pynvml", "plotext"}),
        ("import tuitrain.engine", HEAVY | SCREEN),
        ("import tuitrain.engine.train", SCREEN | {"tensorboard", "torchvision", "PIL"}),
    ],
)
def test_a_room_does_not_load_what_it_must_not(statement: str, forbidden: set[str]) -> None:
    assert not loaded_by(statement) & forbidden


def test_a_list_of_runs_does_not_wait_for_the_options_of_training() -> None:
    listing = "from tuitrain.cli.program import commands; commands(['--runs-dir', '/nowhere', 'runs'], standalone_mode=False)"
    program = f"{listing}\nimport sys; print([name for name in sys.modules if name in ('socket', 'tuitrain.cli.training')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_check_sees_a_deferred_import() -> None:
    assert "sqlite3" in loaded_by("def f():\n    import sqlite3\nf()")

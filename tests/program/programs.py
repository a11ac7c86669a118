"""Whole programs, what is known of their runs, and waiting for it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terminal import TUITRAIN

from tuitrain.runs import catalogue

RESTING = ("random-linear", "--device", "cpu", "--set", "data=small_net:make_samples", "--set", "model=small_net:make_linear")
"""A run of minutes that does next to nothing."""


def tuitrain(env: dict[str, str], *args: str, cwd: Path | None = None, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """Run `tuitrain` to its end."""
    return subprocess.run(
        [TUITRAIN, *args], env={**os.environ, **env}, cwd=cwd, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
    )


def runs(env: dict[str, str]) -> list[dict[str, Any]]:
    """What `tuitrain runs --json` tells, without a process for it."""
    return [run.to_json() for run in catalogue.list_runs(Path(env["TUITRAIN_RUNS"]))]


def state(env: dict[str, str], run: str) -> dict[str, Any]:
    """What the run's `state.json` says."""
    content: dict[str, Any] = json.loads((Path(env["TUITRAIN_RUNS"]) / run / "state.json").read_bytes())
    return content


def until(true: Callable[[], bool], seconds: float = 120, what: Callable[[], object] = lambda: "it did not become true in time") -> None:
    """Wait until it is true.

    Raises:
        AssertionError: it did not become so in time; the text is `what` says then.
    """
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, what()
        time.sleep(0.02)

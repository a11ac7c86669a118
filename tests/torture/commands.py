"""The commands that a person types, on tortured runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from host import small_config

from tuitrain.recipes import to_toml

TUITRAIN = str(Path(sys.executable).with_name("tuitrain"))
HERE = Path(__file__).parent


def tuitrain(runs_dir: Path, *args: str) -> str:
    """What a `tuitrain` command prints; it must succeed.

    Raises:
        AssertionError: it does not.
    """
    done = subprocess.run(
        [TUITRAIN, *args], env=environment(runs_dir), cwd=HERE, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"tuitrain {' '.join(args)} exits with {done.returncode}: {done.stderr[-300:]}"
    return done.stdout.strip()


def environment(runs_dir: Path) -> dict[str, str]:
    """The environment of such a command."""
    return {**os.environ, "TUITRAIN_RUNS": str(runs_dir), "XDG_CACHE_HOME": str(runs_dir.parent / "cache"), "HOME": str(runs_dir.parent)}


def recipe(runs_dir: Path) -> Path:
    """The small run as a TOML file, for the command line."""
    path = runs_dir.parent / "small.toml"
    path.write_text(to_toml(small_config()), encoding="utf-8")
    return path

"""How long one waits: for the first frame, for a command's answer, and for the first training step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from benchmarks.pairs import Figure, Wanted, figure, measure, middle, own, rounds
from benchmarks.programs import HERE, TUITRAIN, Screen, output_of, runs_dir, seconds_of

RUNS = 200
FIRST_STEP_EXTRA = 0.5
"""Seconds beyond torch's own import."""


def first_frame(wanted: Wanted) -> list[Figure]:
    """From starting the program to recipe and device names on the screen, against a Textual app with one word on it."""

    def ours() -> float:
        with runs_dir() as (_, env):
            return _until([TUITRAIN], env, b"seed-cnn", b"cpu")

    def empty() -> float:
        return _until([sys.executable, str(HERE / "empty_app.py")], {}, b"ready")

    taken = measure(ours, empty, max(wanted.pairs, 10), warmup=2)
    return [
        figure(
            "first frame (120×40)",
            [a / b for a, b in taken],
            ours=f"{middle([a for a, _ in taken]):.2f} s",
            peer=f"{middle([b for _, b in taken]):.2f} s, empty Textual app",
            most=2.0,
        )
    ]


def _until(argv: list[str], env: dict[str, str], *markers: bytes) -> float:
    screen = Screen(argv, env)
    try:
        return screen.until_sent(*markers) - screen.begin
    finally:
        screen.close()


def commands(wanted: Wanted) -> list[Figure]:
    """`tuitrain --help`, and `tuitrain runs` over 200 runs, beside an interpreter of the same environment that does nothing."""
    with runs_dir() as (folder, env):
        keep_runs(folder, env, RUNS)

        timed = ([TUITRAIN, "--help"], [TUITRAIN, "runs"], [sys.executable, "-c", "pass"])
        taken = rounds([partial(seconds_of, command, env) for command in timed], max(wanted.pairs, 10), warmup=2)
    names = ("tuitrain --help", f"tuitrain runs, {RUNS} runs")
    empty = [each[-1] for each in taken]
    return [
        own(name, [each[place] for each in taken], empty, most=0.15, unit="s", what="python -c pass") for place, name in enumerate(names)
    ]


def keep_runs(folder: Path, env: dict[str, str], count: int) -> Path:
    """Fill `folder` with `count` runs: one that is really trained, and copies of what lists read of it, each of which is a run of its own.

    Returns:
        The folder of the first.
    """
    output_of([TUITRAIN, "run", "random-linear", "--device", "cpu"], env)
    first = next(folder.iterdir())
    for number in range(count - 1):
        copy = folder / f"20260101-{number // 60:02}{number % 60:02}-random-linear-{number:03}"
        shutil.copytree(first, copy, copy_function=os.link, ignore=shutil.ignore_patterns("checkpoints", "tensorboard"))
    return first


def first_step(wanted: Wanted) -> list[Figure]:
    """From Enter in the launcher to the first step on the screen, data decoded already, beside an interpreter that imports torch."""
    taken = measure(lambda: _enter_to_step(wanted.data), _torch_import, wanted.pairs)
    beyond = [a - b for a, b in taken]
    line = own("Enter to the first step", [a for a, _ in taken], [b for _, b in taken], most=0, unit="s", what="python importing torch")
    # The target is a difference, and no ratio.
    extra = f"{middle(beyond):+.2f} s ({min(beyond):+.2f} to {max(beyond):+.2f})"
    return [
        Figure(
            line.name,
            f"{line.ours}: {extra}",
            line.peer,
            line.ratio,
            line.low,
            line.high,
            f"≤ import + {FIRST_STEP_EXTRA} s",
            middle(beyond) <= FIRST_STEP_EXTRA,
            line.pairs,
        )
    ]


def _enter_to_step(data: Path) -> float:
    with runs_dir() as (_, env):
        last = Path(env["XDG_STATE_HOME"]) / "tuitrain" / "last-launch.toml"
        last.parent.mkdir(parents=True)
        last.write_text(f'recipe = "seed-cnn"\ndata = "{data}"\ndevice = "cpu"\n', encoding="utf-8")
        screen = Screen([TUITRAIN], env)
        try:
            screen.wait(lambda text: data.name in text)
            screen.child.send("u")
            screen.wait(lambda text: "--data" in text)
            begin = time.perf_counter()
            screen.child.send("\r")
            return screen.until_sent(b"64, 3, 32, 32", seconds=120) - begin
        finally:
            screen.close()


def _torch_import() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return time.perf_counter() - begin

"""Two thousand runs: the list on the screen, and as JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from benchmarks.pairs import Figure, Wanted, own, rounds
from benchmarks.programs import TUITRAIN, Screen, runs_dir, seconds_of
from benchmarks.start import keep_runs

FEW, MANY = 10, 2_000
READ_ALL = """
import json, pathlib, sys
print(json.dumps([json.loads(path.read_bytes()) for path in pathlib.Path(sys.argv[1]).glob("*/state.json")]))
"""


def many_runs(wanted: Wanted) -> list[Figure]:
    """The runs screen from the key to its rows, the newest of which show before all are read, beside one of few runs; `runs --json` beside
    a script that prints the same files."""
    with ExitStack() as stack:
        (few, env_few), (many, env_many) = (stack.enter_context(runs_dir()) for _ in range(2))
        keep_runs(few, env_few, FEW)
        keep_runs(many, env_many, MANY)
        painted = rounds([partial(_key_to_rows, env_many, MANY), partial(_key_to_rows, env_few, FEW)], wanted.pairs)
        listed = rounds(
            [
                partial(seconds_of, command, env_many)
                for command in ([TUITRAIN, "runs", "--json"], [sys.executable, "-c", READ_ALL, str(many)])
            ],
            max(wanted.pairs, 5),
        )
    lines = (
        (f"the list of {MANY:,} runs, from the key to its rows", painted, 0.3, f"{FEW} runs"),
        (f"tuitrain runs --json, {MANY:,} runs", listed, 1.0, "a script that reads their state.json"),
    )
    return [own(name, [a for a, _ in taken], [b for _, b in taken], most=most, unit="s", what=what) for name, taken, most, what in lines]


def _key_to_rows(env: Mapping[str, str], count: int) -> float:
    screen = Screen([TUITRAIN], dict(env))
    try:
        screen.wait(lambda text: "seed-cnn" in text and "Quit" in text)
        begin = time.perf_counter()
        screen.child.send("r")
        return screen.wait(lambda text: f"Runs {count:,} " in text and text.count("random-linear") > FEW - 2) - begin
    finally:
        screen.close()

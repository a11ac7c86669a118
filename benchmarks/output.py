"""What the terminal gets while training."""

from __future__ import annotations

from benchmarks.pairs import Figure, Wanted, alone
from benchmarks.programs import TUITRAIN, Screen, runs_dir

SETTLE_SECONDS = 40.0
COUNTED_SECONDS = 30.0


def terminal_bytes(wanted: Wanted) -> list[Figure]:
    """What the terminal gets while training, on average over half a minute, once the axes have grown past the first steps."""
    lines = []
    for columns, rows, most in ((120, 40, 1000), (80, 24, 500)):
        with runs_dir() as (_, env):
            command = [TUITRAIN, "run", "seed-cnn", "--device", "cpu", "--data", str(wanted.data), "--tui"]
            screen = Screen(command, env, columns, rows)
            try:
                screen.wait(lambda text: "[64, 3, 32, 32]" in text)
                screen.discard(SETTLE_SECONDS)
                rate = screen.discard(COUNTED_SECONDS) / COUNTED_SECONDS
            finally:
                screen.close()
        name = f"terminal output while training, {columns}×{rows}"
        lines.append(alone(name, round(rate), most=most, unit="B/s"))
    return lines

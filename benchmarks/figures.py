"""The figures by the names that `--only` takes, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.drawing import chart
from benchmarks.gpu import gpu_speed
from benchmarks.handing import hand_over
from benchmarks.keys import key_to_paint
from benchmarks.many import many_runs
from benchmarks.memory import long_run
from benchmarks.monitor import monitor, sample_cost
from benchmarks.pairs import Figure, Wanted
from benchmarks.saving import saving
from benchmarks.scaling import scaling
from benchmarks.speed import app_speed, drawn_samples, on_device_loop, plain_speed
from benchmarks.speedrun import speedrun
from benchmarks.start import commands, first_frame, first_step
from benchmarks.store import store
from benchmarks.strategies import strategy_overheads
from benchmarks.watching import watching

ALL: dict[str, Callable[[Wanted], list[Figure]]] = {
    "first-frame": first_frame,
    "commands": commands,
    "many-runs": many_runs,
    "first-step": first_step,
    "key-to-paint": key_to_paint,
    "chart": chart,
    "store": store,
    "scaling": scaling,
    "app-speed": app_speed,
    "plain-speed": plain_speed,
    "on-device-loop": on_device_loop,
    "drawn-samples": drawn_samples,
    "gpu-speed": gpu_speed,
    "strategy-overheads": strategy_overheads,
    "saving": saving,
    "hand-over": hand_over,
    "long-run": long_run,
    "monitor": monitor,
    "watching": watching,
    "sample-cost": sample_cost,
    "speedrun": speedrun,
}

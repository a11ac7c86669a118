"""Steps per second on a GPU: against the tutorial's script and a plain loop on the same card, and with a screen."""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.awaited import NO_GPU, NotMeasured
from benchmarks.machine import gpus
from benchmarks.pairs import Figure, Wanted, speed
from benchmarks.programs import Training
from benchmarks.turns import Phase, in_phases, plain_loop, plain_script, tuitrain

TRAINING = Training("benchmarks.small_data:make_much_data", device="cuda", skipped=300)
FASTEST = replace(TRAINING, options=("--precision", "bf16", "--set", "compile=true", "--set", "deterministic=false"))
LEAST_TURNS = 10
"""For an interval that says something about two percent."""
TURN_SECONDS, SETTLE_SECONDS = 0.8, 0.5
"""The one before has a quarter of a second of its work left on the GPU."""


def gpu_speed(wanted: Wanted) -> list[Figure]:
    """`tuitrain run seed-cnn` against the tutorial's script, as it is and as fast as it goes; against the plain loop with its data on the
    device; and against the same run in the app.

    Raises:
        NotMeasured: there is no GPU.
    """
    if not gpus():
        raise NotMeasured(NO_GPU)
    others = [tuitrain(FASTEST), tuitrain(TRAINING, in_app=True), plain_loop(TRAINING), plain_script(wanted.data, "cuda")]
    turns = Phase(max(2 * wanted.pairs, LEAST_TURNS), TURN_SECONDS, SETTLE_SECONDS)
    (taken,) = in_phases([tuitrain(TRAINING), *others], [turns])
    for each in taken:
        print("seconds of a step, as it is, fastest, in the app, plain loop, plain script:", *(turn.step for turn in each), file=sys.stderr)
    ours, fastest, in_app, loop, script = ([each[which].step for each in taken] for which in range(5))
    return [
        speed("training speed, GPU, against the plain script", ours, script, what="plain script", least=25),
        speed(
            "training speed, GPU, bf16, compiled, not deterministic, against the plain script",
            fastest,
            script,
            what="plain script",
            least=25,
        ),
        speed("seed-cnn, data on the device, GPU", ours, loop, what="plain loop", least=3),
        speed("training in the app, GPU", in_app, ours, what="headless", least=0.98, per_second=True),
    ]

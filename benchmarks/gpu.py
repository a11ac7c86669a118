"""Steps per second on a GPU: against the tutorial's script and a plain loop on the same card, and with a screen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from benchmarks.awaited import NO_GPU, NotMeasured
from benchmarks.machine import gpus
from benchmarks.pairs import Figure, Wanted, measure, rounds, speed, told
from benchmarks.programs import Training, headless, in_app, plain, plain_loop

TRAINING = Training("benchmarks.small_data:make_much_data", 4800, device="cuda", skipped=300)
"""One epoch: no checkpoint and no evaluation lies within what is timed."""
SHORTER = replace(TRAINING, steps=2400)
"""For the plain loop, of which a step takes some milliseconds where its processor is slow."""
SCRIPT_STEPS = 300
LEAST_PAIRS = 10
"""For an interval that says something about two percent."""


def gpu_speed(wanted: Wanted) -> list[Figure]:
    """`tuitrain run seed-cnn` against the plain loop with its data on the device, and against the tutorial's script, in fp32.

    Raises:
        NotMeasured: there is no GPU.
    """
    _must_have_one()
    takers = [
        told("seconds of a step, tuitrain run", partial(headless, TRAINING)),
        told("seconds of a step, plain loop", partial(plain_loop, SHORTER)),
        told("seconds of a step, plain script", partial(plain, wanted.data, SCRIPT_STEPS, "cuda")),
    ]
    ours, loop, scripts = zip(*rounds(takers, wanted.pairs, within=wanted.within), strict=True)
    return [
        speed("training speed, GPU, against the plain script", ours, scripts, what="plain script", least=25),
        speed("seed-cnn, data on the device, GPU", ours, loop, what="plain loop", least=3),
    ]


def gpu_app_speed(wanted: Wanted) -> list[Figure]:
    """Steps per second inside the app against the same run without a screen.

    Raises:
        NotMeasured: there is no GPU.
    """
    _must_have_one()
    ours = told("seconds of a step, in the app", partial(in_app, TRAINING))
    without = told("seconds of a step, without a screen", partial(headless, TRAINING))
    taken = measure(ours, without, max(wanted.pairs, LEAST_PAIRS), within=wanted.within)
    return [speed("training in the app, GPU", *zip(*taken, strict=True), what="headless", least=0.98, per_second=True)]


def _must_have_one() -> None:
    if not gpus():
        raise NotMeasured(NO_GPU)

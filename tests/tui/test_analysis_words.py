"""What the times of a run's steps mean, at the thresholds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fakes import seed_cnn

from tuitrain.events import Phases, StepTimes
from tuitrain.tui import analysis

CONFIG = seed_cnn()


def times(
    *devices: str, strategy: str = "single", steps: int = 10, replicas: tuple[tuple[float, float], ...] = (), **shares: float
) -> StepTimes:
    """Steps of 1 s, of which the phases that are not named leave the rest to backward."""
    phases = Phases(**{name: share * steps for name, share in shares.items()}, backward=(1 - sum(shares.values())) * steps)
    parts = tuple(Phases(forward=forward * steps, backward=backward * steps) for forward, backward in replicas)
    return StepTimes(strategy=strategy, devices=devices or ("cpu",), steps=steps, samples=64 * steps, phases=phases, replicas=parts)


def said(found: StepTimes, **known: Any) -> str:
    return " ".join(analysis.advice(found, CONFIG, **known))


def test_nothing_to_complain_about_is_said_too() -> None:
    assert analysis.advice(times(forward=0.3, data=0.1), CONFIG) == ["90 % of a step is forward and backward: nothing stands in their way."]


def test_steps_that_took_no_time_have_no_shares() -> None:
    assert set(analysis.shares(Phases()).values()) == {0.0}


@pytest.mark.parametrize(
    ("phase", "limit", "sentence"),
    [
        ("data", analysis.MUCH_DATA, "of the time goes into making the batches: a larger batch_size needs fewer of them."),
        ("update", analysis.MUCH_UPDATE, "however many devices there are: a larger batch_size needs fewer updates."),
        ("other", analysis.MUCH_OTHER, "of the time goes into the loop around the steps: at 1.00 s they are short"),
        ("communication", analysis.MUCH_COMMUNICATION, "of a step: a larger batch_size, or a larger model, gives the devices more to do"),
    ],
)
def test_a_phase_is_named_above_its_threshold(phase: str, limit: float, sentence: str) -> None:
    over, under = times(**{phase: limit + 0.02}), times(**{phase: limit - 0.02})
    assert sentence in said(over)
    assert f"{(limit + 0.02) * 100:.0f} %" in said(over)
    assert sentence not in said(under)
    assert "nothing stands in their way" in said(under)


def test_what_is_part_of_making_a_batch_is_named() -> None:
    config = msgspec.structs.replace(CONFIG, augment="crop-flip")
    [sentence] = analysis.advice(times(data=0.38), config)
    assert sentence == "38 % of the time goes into making the batches: crop-flip is part of that, and augment none leaves it out."


def test_samples_that_processes_read_are_waited_for() -> None:
    waiting = "of the time is waiting for samples, which 15 processes read: samples that are drawn, or decoded, with less work come sooner."
    assert analysis.advice(times(data=0.38), CONFIG, readers=15) == [f"38 % {waiting}"]
    assert "waiting for samples" not in said(times(data=0.1), readers=15)
    assert "which 1 process reads: " in said(times(data=0.9), readers=1)


def test_replicas_on_one_device_bring_no_speed() -> None:
    assert "take turns on cpu: this shows how splitting works" in said(times("cpu", "cpu", strategy="split"))
    assert "take turns on cuda:0" in said(times("cuda:0", "cuda:0", strategy="split"))
    assert "with cores of its own each is faster" in said(times("cpu", "cpu", strategy="ddp"), speedup=1.2)
    assert "one process alone is faster" in said(times("cpu", "cpu", strategy="ddp"), speedup=0.9)
    assert "share" not in said(times("cuda:0", "cuda:1", strategy="ddp"))
    assert "ranks" not in said(times("cuda:0", "cuda:0", "cuda:1", strategy="split"))


def test_several_devices_that_are_slower_than_one() -> None:
    slower = "One device alone is faster than these 2: each step has too little work to share."
    assert slower in said(times("cuda:0", "cuda:1", strategy="ddp", communication=0.61), speedup=0.7)
    assert slower not in said(times("cuda:0", "cuda:1", strategy="ddp", communication=0.61), speedup=1.1)
    assert slower not in said(times("cuda:0", "cuda:1", strategy="ddp", communication=0.61))
    assert "One device alone" not in said(times("cuda:0"), speedup=0.9)


def test_the_slow_replica_is_named_over_a_tenth_more_than_the_median() -> None:
    even = times("cuda:0", "cuda:1", strategy="ddp", replicas=((0.3, 0.5), (0.3, 0.5)))
    assert analysis.slow_replica(even) is None
    slow = times("cuda:0", "cuda:1", "cuda:2", strategy="ddp", replicas=((0.3, 0.5), (0.3, 0.7), (0.3, 0.5)))
    assert analysis.slow_replica(slow) == analysis.Slow(1, pytest.approx(0.2))
    assert "Replica 1 (cuda:1) takes 200 ms longer than the median, and the others wait for it." in said(slow)
    of_two = times("cuda:0", "cuda:1", strategy="ddp", replicas=((0.3, 0.5), (0.3, 0.8)))
    assert analysis.slow_replica(of_two) == analysis.Slow(1, pytest.approx(0.15))
    barely = times("cuda:0", "cuda:1", "cuda:2", strategy="ddp", replicas=((0.3, 0.5), (0.3, 0.57), (0.3, 0.5)))
    assert analysis.slow_replica(barely) is None
    turns = times("cpu", "cpu", "cpu", strategy="split", replicas=((0.1, 0.1), (0.1, 0.1), (0.2, 0.1)))
    assert analysis.slow_replica(turns) == analysis.Slow(2, pytest.approx(0.1))
    assert "median" not in said(turns)


def test_the_speed_is_of_the_time_that_was_measured() -> None:
    assert analysis.samples_per_second(times()) == 64.0
    tenth = msgspec.structs.replace(times(), phases=Phases(forward=0.5, backward=0.5) / 10)
    assert analysis.samples_per_second(tenth) == 6400.0
    assert analysis.samples_per_second(msgspec.structs.replace(times(), phases=Phases())) == 0.0


def test_little_training() -> None:
    assert "Training steps are only 55 % of the time" in said(times(), training=0.55)
    assert "Training steps" not in said(times(), training=0.65)
    assert analysis.training_share(times(), 6, 12.0) == 0.5
    assert analysis.training_share(times(), 600, 12.0) == 1.0
    assert analysis.training_share(times(), 6, 9.0) is None


def test_four_sentences_at_most_the_weightiest_first() -> None:
    worst = times("cpu", "cpu", strategy="split", communication=0.31, data=0.21, update=0.21, other=0.2)
    found = analysis.advice(worst, CONFIG, training=0.1)
    assert len(found) == analysis.MOST_SENTENCES
    assert [sentence.split()[0] for sentence in found] == ["The", "Communication", "21", "The"]


def test_alone_there_is_no_communication() -> None:
    assert "communication" not in analysis.names(times())
    assert "communication" in analysis.names(times("cpu", "cpu", strategy="split"))
    assert sum(analysis.shares(times(data=0.25, forward=0.25).phases).values()) == pytest.approx(1)

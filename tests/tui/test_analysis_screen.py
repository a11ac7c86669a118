"""The analysis screen through its keys, with made-up times."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fakes import RUN, FakeSampler, FakeSession, said, screen_text, seed_cnn, settle
from kept_runs import keep, until, until_shown
from test_terminal import OnTerminal
from textual.pilot import Pilot

from tuitrain.events import GpuSample, Phases, Replica, Replicas, ReplicaStat, ReplicaStats, StepTimes
from tuitrain.paths import METRICS
from tuitrain.runs.one_device import OneDevice
from tuitrain.runs.store import MetricsWriter
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.analysis import AnalysisScreen

SIZES = [(80, 24), (120, 40), (200, 60)]
PHASES = Phases(data=0.1, forward=0.3, backward=0.5, communication=0.06, update=0.03, other=0.01)
ONE = OneDevice("20261120-0413-seed-cnn-one", "cuda:3", 4000.0)


def times(*devices: str, strategy: str = "single", phases: Phases = PHASES, slow: int | None = None) -> StepTimes:
    """A hundred steps of 10 ms; forward of the slow one of the replicas takes twice as long."""
    count = len(devices)
    parts = tuple(
        Phases(forward=phases.forward * (2 if index == slow else 1), backward=phases.backward, communication=phases.communication)
        for index in range(count)
    )
    return StepTimes(
        strategy=strategy, devices=devices, steps=100, samples=6400, phases=phases, replicas=parts if count > 1 and strategy != "dp" else ()
    )


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


async def opened(pilot: Pilot[None], session: FakeSession, event: StepTimes | None = None) -> None:
    await pilot.press("enter")
    session.begin()
    session.steps(10)
    if event is not None:
        session.say(event)
    await settle(pilot)
    await pilot.press("i")
    await until(pilot, lambda: isinstance(pilot.app.screen, AnalysisScreen))
    await pilot.pause()


async def redrawn(pilot: Pilot[None]) -> str:
    """What the screen shows after its next beat."""
    assert isinstance(pilot.app.screen, AnalysisScreen)
    pilot.app.screen.beat()
    await pilot.pause()
    return screen_text(pilot.app)


@pytest.mark.parametrize("size", SIZES)
async def test_a_bar_for_each_phase(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, times("cpu", phases=msgspec.structs.replace(PHASES, communication=0.0)))
        lines = screen_text(app).splitlines()
        assert {len(line) for line in lines} == {size[0]}
        for label, took, share in (
            ("waiting for data", "1.00 ms", "11 %"),
            ("forward", "3.00 ms", "32 %"),
            ("backward", "5.00 ms", "53 %"),
            ("update", "0.30 ms", "3 %"),
            ("other", "0.10 ms", "1 %"),
            ("a step", "9.40 ms", "100 %"),
        ):
            line = next(line for line in lines if f" {label} " in line)
            assert line.rstrip(" │").endswith(share)
            assert f" {took} " in line
            # Numbers stand under each other.
            assert line.index(" ms") == lines[2].index(" ms")
        bars = [line.count("█") for line in lines[2:7]]
        assert bars[2] > bars[1] > bars[0] > bars[3]
        assert not any(f" {word} " in screen_text(app) for word in ("communication", "Replicas", "one device", "energy"))
        assert "100 steps measured" in lines[1]
        assert "6,810 samples/s while training, 64 a step" in said(app)
        assert "• 85 % of a step is forward and backward: nothing stands in their way." in said(app)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [2, 8])
async def test_each_replica_and_the_slowest(session: FakeSession, sampler: FakeSampler, size: tuple[int, int], count: int) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, times(*(f"cuda:{place}" for place in range(count)), strategy="ddp", slow=1))
        assert "the others wait for it" in said(app)
        await pilot.press("end")
        await pilot.pause()
        text = screen_text(app)
        assert {len(line) for line in text.splitlines()} == {size[0]}
        assert "Ranks, side by side" in text
        rows = [next(line for line in text.splitlines() if f" {place} cuda:{place} " in line) for place in range(count)]
        assert all("3.00 ms" in row and "5.00 ms" in row and "0.60 ms" in row and "80 %" in row for row in (rows[0], *rows[2:]))
        assert "6.00 ms" in rows[1]
        assert ["slowest" in row for row in rows] == [False, True, *[False] * (count - 2)]
        # A bar with a glyph for each phase.
        assert 0 < rows[0].index("█") < rows[0].index("▒")
        assert "▄" in rows[0][rows[0].index("▒") :] or size == (80, 24)
        await pilot.press("home")
        await pilot.pause()
        assert "waiting for data" in screen_text(app)
        scrolls = size == (80, 24) and count == 8
        assert (" of " in screen_text(app).splitlines()[1]) == scrolls
        assert ("Scroll" in screen_text(app).splitlines()[-1]) == scrolls


async def test_replicas_that_take_turns(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        half = msgspec.structs.replace(times("cpu", "cpu", strategy="split"), replicas=(Phases(forward=0.15, backward=0.25),) * 2)
        await opened(pilot, session, half)
        text = screen_text(app)
        assert "Replicas, one after the other" in text
        row = next(line for line in text.splitlines() if " 1 cpu " in line)
        assert "1.50 ms" in row
        assert "40 %" in row
        assert "communication" not in row
        assert "The replicas take turns on cpu: this shows how splitting works and brings no speed." in said(app)


async def test_efficiency_against_the_run_on_one_device(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looked: list[Path] = []
    found: list[OneDevice | None] = [ONE]

    def find(folder: Path) -> OneDevice | None:
        looked.append(folder)
        return found[0]

    monkeypatch.setattr("tuitrain.tui.screens.analysis.find_one_device", find)
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, times("cuda:0", "cuda:1", strategy="ddp"))
        assert session.record is not None
        assert "looking for a run to compare with" in screen_text(app)
        session.record.path = tmp_path / RUN
        await redrawn(pilot)
        await until_shown(pilot, "1.60× its speed, 80 % of ideal (4,000 samples/s on cuda:3 in 20261120-0413-seed-cnn-one)")
        await redrawn(pilot)
        assert looked == [tmp_path / RUN]
        found[0] = None
        await pilot.press("i")
        await until(pilot, lambda: app.screen is app.main)
        await pilot.press("i")
        await until(
            pilot,
            lambda: "with 10 measured steps or more, is kept to compare with: start one, or let p in the launcher measure it" in said(app),
        )


async def test_memory_and_energy(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, times("cuda:0", "cuda:1", strategy="dp"))
        pair = tuple(Replica(index=index, device=f"cuda:{index}", input=(32,), output=(32,), loss=None) for index in range(2))

        def stats(*sizes: int) -> ReplicaStats:
            rows = (
                ReplicaStat(index=index, loss=None, step_seconds=None, samples_per_second=None, memory=size)
                for index, size in enumerate(sizes)
            )
            return ReplicaStats(step=10, replicas=tuple(rows))

        session.say(Replicas(step=1, batch=(64,), gathered=(64,), replicas=pair), stats(3 * 2**30, 2**30))
        for second in range(11):
            for device in ("cuda:0", "cuda:1"):
                session.note(
                    GpuSample(time=1000.0 + second, device=device, memory_used=None, utilization=None, power=400.0, temperature=None)
                )
        await redrawn(pilot)
        text = said(app)
        assert "cuda:0 holds 2.0 GiB more than the others: outputs are gathered and the loss computed there; split or ddp avoids it" in text
        assert "about 2.2 Wh, 800 W on average" in text
        assert "scattering and gathering are part of forward and backward" in text
        assert "Replicas" not in text
        session.say(stats(2**30, 2**30))
        await redrawn(pilot)
        assert "1.0 GiB of tensors at most, about the same on each device" in said(app)


async def test_a_sentence_before_the_first_times_and_for_runs_that_kept_none(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("i")
        await until_shown(pilot, "The times come within the first second of steps.")
        await pilot.press("down", "end", "pageup", "home", "space")
        session.begin()
        session.steps(3)
        assert "The times come" in await redrawn(pilot)
        session.say(times("cpu"))
        await until_shown(pilot, "waiting for data")
        session.end()
        assert "waiting for data" in await redrawn(pilot)
        assert session.record is not None
        session.record.step_times = None
        await redrawn(pilot)
        assert "Where the time went is not recorded for this run" in said(app)


@pytest.mark.parametrize("key", ["i", "escape"])
async def test_closing(session: FakeSession, sampler: FakeSampler, key: str) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, times("cpu"))
        await pilot.press(key)
        await until(pilot, lambda: app.screen is app.main)


async def test_one_step_that_was_measured(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, msgspec.structs.replace(times("cpu"), steps=1, samples=64))
        await until_shown(pilot, " 1 step measured")


def writer_of_kept(runs_dir: Path, **status: str) -> MetricsWriter:
    """Of the one run there, which has written its first times."""
    writer = MetricsWriter(keep(runs_dir, "20261121-0413-seed-cnn-aaa", **status) / METRICS)
    writer.append([times("cpu")])
    return writer


async def analysis_of_kept(pilot: Pilot[None]) -> None:
    """Open the one run there is, and its analysis."""
    await pilot.press("r")
    await until_shown(pilot, "Runs 1", "Open")
    await pilot.press("enter")
    await until_shown(pilot, "Settings")
    await pilot.press("i")


async def test_a_run_that_is_kept(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    """From its folder."""
    writer = writer_of_kept(tmp_path)
    assert writer.close() == 0
    app = TuitrainApp(session, sampler, seed_cnn(), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await analysis_of_kept(pilot)
        await until_shown(pilot, "waiting for data", "1.00 ms", "64 a step")


async def test_a_run_of_another_process_is_followed(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    writer = writer_of_kept(tmp_path, state="running")
    writer.commit()
    app = TuitrainApp(session, sampler, seed_cnn(), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await analysis_of_kept(pilot)
        await until_shown(pilot, "100 steps measured")
        writer.append([times("cpu")])
        assert writer.close() == 0
        await redrawn(pilot)
        await until_shown(pilot, "200 steps measured")


async def test_only_what_changed_is_sent(session: FakeSession, sampler: FakeSampler) -> None:
    app = OnTerminal(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, times("cuda:0", "cuda:1", strategy="ddp"))
        app.since_last()
        await redrawn(pilot)
        assert app.since_last() == 0
        # Another second of steps like those before.
        session.say(times("cuda:0", "cuda:1", strategy="ddp"))
        await redrawn(pilot)
        assert 0 < app.since_last() < 200

"""The replica table: what each replica gets, who is slow, idle, or holds more memory, at every size."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from fakes import GIB, RUN, FakeSession, cpu_sampler, screen_text, seed_cnn, settle, started
from kept_runs import until, until_shown
from textual.pilot import Pilot

from tuitrain.config import RunConfig
from tuitrain.events import Losses, Replica, Replicas, ReplicaStat, ReplicaStats, State, Step
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.balance import batch_words, imbalance, slowest
from tuitrain.tui.widgets.replicas import Replicas as Table

SIZES = [(80, 24), (120, 40), (200, 60)]
MIB = 2**20


def replicas(devices: Sequence[str], idle: int = 0, sizes: Sequence[int] = ()) -> tuple[Replica, ...]:
    """Replicas that got 32 samples each, or `sizes`; the last ones nothing."""
    working = len(devices) - idle
    return tuple(
        Replica(index=place, device=device, input=(size, 3, 32, 32), output=(size, 10), loss=1.5)
        if place < working
        else Replica(index=place, device=device, input=None, output=None, loss=None)
        for place, (device, size) in enumerate(zip(devices, sizes or [32] * len(devices), strict=True))
    )


def stats(seconds: Sequence[float | None], memory: Sequence[int | None] | None = None) -> tuple[ReplicaStat, ...]:
    held = memory or [GIB] * len(seconds)
    return tuple(
        ReplicaStat(index=place, loss=None, step_seconds=took, samples_per_second=None if took is None else 32 / took, memory=size)
        for place, (took, size) in enumerate(zip(seconds, held, strict=True))
    )


def gpus(count: int) -> tuple[str, ...]:
    return tuple(f"cuda:{place}" for place in range(count))


async def train(
    pilot: Pilot[None],
    session: FakeSession,
    rows: tuple[Replica, ...],
    found: tuple[ReplicaStat, ...] = (),
    *,
    strategy: str = "split",
    batch: int = 64,
) -> list[str]:
    """Start, and the lines of the table without its frame."""
    await pilot.press("enter")
    session.state = "running"
    session.say(
        started(run=RUN, device=tuple(row.device for row in rows), strategy=strategy),
        State(state="running"),
        Replicas(step=1, batch=(batch, 3, 32, 32), replicas=rows),
    )
    if found:
        session.say(ReplicaStats(step=1, replicas=found))
    await settle(pilot)
    return table(pilot)


def table(pilot: Pilot[None]) -> list[str]:
    assert isinstance(pilot.app, TuitrainApp)
    place = pilot.app.main.query_one(Table).region
    lines = screen_text(pilot.app).split("\n")[place.y : place.bottom - 1]
    return [line[place.x : place.right].strip("│├┤╭╮ ") for line in lines]


@pytest.fixture
def app(session: FakeSession) -> TuitrainApp:
    return TuitrainApp(session, cpu_sampler(), seed_cnn(), Path("runs"))


@pytest.mark.parametrize(("step", "loss"), [(9, "0.125"), (10, "0.250"), (11, "0.250")])
async def test_the_loss_beside_the_shapes_is_of_their_step_or_a_later_one(
    app: TuitrainApp, session: FakeSession, step: int, loss: str
) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        (row,) = replicas(["cpu"], sizes=[1])
        await train(pilot, session, (row,), strategy="single")
        session.say(
            ReplicaStats(step=step, replicas=tuple(msgspec.structs.replace(stat, loss=0.25) for stat in stats([0.1]))),
            Replicas(step=10, batch=(1, 3, 32, 32), replicas=(msgspec.structs.replace(row, loss=0.125),)),
        )
        await settle(pilot)
        assert f"[1, 10]   {loss}   100 ms" in table(pilot)[1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 8, 16])
async def test_each_replica_has_a_line_or_is_counted(app: TuitrainApp, session: FakeSession, size: tuple[int, int], count: int) -> None:
    async with app.run_test(size=size) as pilot:
        title, *lines = await train(
            pilot, session, replicas(gpus(count)), stats([0.0031] * count), strategy="split" if count > 1 else "single"
        )
        assert "batch [64, 3, 32, 32]" in title
        shown = [line for line in lines if "cuda:" in line]
        assert len(shown) >= min(count, 3)
        for place, line in enumerate(shown):
            assert line.split()[:2] == [str(place), f"cuda:{place}"]
            assert "[32, 3, 32, 32] → [32, 10]   1.500   3.1 ms" in line
            assert line.endswith("1.0 GiB")
            # 80×24 has one column, wide enough for all; beside the devices there is none for the speed.
            assert ("/s" in line) == (size[0] != 120)
        if len(shown) < count:
            assert lines[-1] == f"{count - len(shown)} more"
        elif count < 16:
            assert "more" not in " ".join(lines)
        name = "cuda:0 · single" if count == 1 else f"split over {count}"
        assert f"CIFAR-10 (50,000) · {name} ─" in screen_text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_an_idle_replica_says_so(app: TuitrainApp, session: FakeSession, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        title, *lines = await train(pilot, session, replicas(["cpu"] * 3, idle=1), stats([0.003, 0.003, None]))
        assert lines[2] == "2 cpu  idle: the batch has no part for it"
        assert lines[0].startswith("0 cpu  [32, 3, 32, 32] → [32, 10]   1.500   3.0 ms")
        assert "1 idle · batch" in title


@pytest.mark.parametrize("size", SIZES)
async def test_the_slowest_is_marked_and_the_columns_stay(app: TuitrainApp, session: FakeSession, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        _, *before = await train(pilot, session, replicas(gpus(3)), stats([0.003, 0.003, 0.003]))
        assert "slowest" not in " ".join(before)
        session.say(ReplicaStats(step=2, replicas=stats([0.003, 0.004, 0.003])))
        await settle(pilot)
        _, *after = table(pilot)
        assert "4.0 ms" in after[1]
        assert after[1].endswith("▾ slowest")
        assert [after[0], after[2]] == [before[0], before[2]]


async def test_where_the_mark_has_no_room_its_sign_is_left(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(100, 30)) as pilot:
        found = tuple(msgspec.structs.replace(stat, loss=2.3) for stat in stats([0.123, 0.234]))
        _, *lines = await train(pilot, session, replicas(("cpu", "cpu")), found)
        assert lines[1].endswith(" ▾")


async def test_a_slowest_that_does_not_fit_is_named(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        _, *lines = await train(pilot, session, replicas(gpus(8)), stats([0.003] * 6 + [0.0051, 0.003]))
        assert lines[-1] == "5 more  ▾ slowest: 6 cuda:6 5.1 ms"


@pytest.mark.parametrize("size", SIZES)
async def test_who_holds_more_memory_and_why(app: TuitrainApp, session: FakeSession, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        found = stats([None, None], [int(3.1 * GIB), GIB])
        _, *lines = await train(pilot, session, replicas(gpus(2)), found, strategy="dp")
        assert " ".join(lines[2:]).startswith(
            "cuda:0 holds 2.1 GiB more: outputs are gathered and the loss computed there; split or ddp avoids it"
        )
        session.say(ReplicaStats(step=2, replicas=stats([None, None], [GIB, GIB])))
        await settle(pilot)
        assert "holds" not in screen_text(app)


async def test_many_replicas_leave_the_words_about_memory_a_line(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(80, 24)) as pilot:
        found = stats([0.003] * 16, [3 * GIB] + [GIB] * 15)
        _, *lines = await train(pilot, session, replicas(gpus(16)), found)
        assert lines[-1] == "cuda:0 holds 2.0 GiB more: the optimizer's state and the data are kept there"
        assert lines[-2] == "14 more"


async def test_an_uneven_last_batch_shows_as_such(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        title, *_ = await train(pilot, session, replicas(["cpu", "cpu"]), stats([0.003, 0.003]))
        assert "uneven" not in title
        session.say(Replicas(step=782, batch=(15, 3, 32, 32), replicas=replicas(["cpu", "cpu"], sizes=[8, 7])))
        await settle(pilot)
        title, *lines = table(pilot)
        assert "last of the epoch, uneven · batch [15, 3, 32, 32]" in title
        assert "[8, 3, 32, 32]" in lines[0]
        assert "[7, 3, 32, 32]" in lines[1]


async def test_numbers_that_are_no_longer_renewed_say_of_which_step_they_are(app: TuitrainApp, session: FakeSession) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await train(pilot, session, replicas(["cpu"]), strategy="single")
        losses = Losses(first_step=1, epoch=1, losses=(1.0,) * 40, times=(0.0,) * 40)
        session.say(losses, Step(step=40, epoch=1, loss=1.0, lr=0.01, samples_per_second=100.0))
        await settle(pilot)
        assert "numbers of" not in table(pilot)[0], "newer ones are on their way"
        assert session.record is not None
        session.record.stalled_seconds = 40.0
        await until(pilot, lambda: "numbers of step 1 · batch" in table(pilot)[0])
        session.record.stalled_seconds = 0.0
        session.say(ReplicaStats(step=39, replicas=stats([0.1])))
        session.end("stopped")
        await until_shown(pilot, "■ stopped", "numbers of step 39 · batch")
        session.record.apply(ReplicaStats(step=40, replicas=stats([0.1])))
        await until(pilot, lambda: "numbers of" not in table(pilot)[0])


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([0.003], None),
        ([0.003, 0.0032, 0.0031], None),
        ([0.003, 0.003, 0.0034], 2),
        ([None, 0.003, 0.009], 2),
        ([None, None], None),
        ([], None),
    ],
)
def test_only_who_takes_a_tenth_longer_than_the_median_is_slow(seconds: list[float | None], expected: int | None) -> None:
    assert slowest(stats(seconds)) == expected


@pytest.mark.parametrize(
    ("memory", "says"),
    [
        ([GIB, GIB], False),
        ([GIB + 150 * MIB, GIB], False),
        ([4 * GIB + 300 * MIB, 4 * GIB], False),
        ([GIB + 300 * MIB, GIB], True),
        ([None, None], False),
        ([GIB, None], False),
    ],
)
def test_a_difference_counts_from_a_tenth_and_200_mib(memory: list[int | None], says: bool) -> None:
    found = imbalance(replicas(gpus(2)), stats([0.003, 0.003], memory), "split", seed_cnn())
    assert (found is not None) == says


@pytest.mark.parametrize(
    ("strategy", "heavy", "output", "why"),
    [
        ("dp", 0, None, "outputs are gathered and the loss computed there; split or ddp avoids it"),
        ("dp", 1, "cuda:1", "outputs are gathered and the loss computed there; split or ddp avoids it"),
        ("dp", 0, "cuda:1", "the model, its gradients and the optimizer's state stay there; ddp spreads them"),
        ("dp", 2, "cuda:1", ""),
        ("split", 0, None, "the optimizer's state and the data are kept there"),
        ("split", 1, None, ""),
        ("ddp", 1, None, "each process should hold the same"),
    ],
)
def test_each_strategy_has_its_own_reason(strategy: str, heavy: int, output: str | None, why: str) -> None:
    config = msgspec.structs.replace(seed_cnn(), output_device=output)
    memory = [3 * GIB if place == heavy else GIB for place in range(3)]
    assert imbalance(replicas(gpus(3)), stats([0.003] * 3, memory), strategy, config) == (f"cuda:{heavy} holds 2.0 GiB more", why)


def test_replicas_on_one_device_share_its_memory() -> None:
    assert imbalance(replicas(["cuda:0", "cuda:0"]), stats([0.003, 0.003], [3 * GIB, 3 * GIB]), "split", seed_cnn()) is None


def test_statistics_of_a_replica_that_is_no_longer_there_say_nothing() -> None:
    """Shapes and statistics are told apart from each other, and a rank may go or come in between."""
    memory = [GIB, GIB, 4 * GIB]
    assert imbalance(replicas(gpus(2)), stats([0.003] * 3, memory), "split", seed_cnn()) is None
    found = imbalance(replicas(gpus(3)), stats([0.003] * 2, [3 * GIB, GIB]), "ddp", seed_cnn())
    assert found == ("cuda:0 holds 2.0 GiB more", "each process should hold the same")


def test_the_batch_is_measured_along_its_own_axis() -> None:
    config: RunConfig = msgspec.structs.replace(seed_cnn(), batch_dim=1)
    rows = tuple(Replica(index=place, device="cpu", input=(32, size, 96), output=(size, 10), loss=1.0) for place, size in enumerate((8, 7)))
    assert batch_words(Replicas(step=9, batch=(32, 15, 96), replicas=rows), config) == "last of the epoch, uneven"
    rows = tuple(Replica(index=place, device="cpu", input=(32, 32, 96), output=(32, 10), loss=1.0) for place in range(2))
    assert batch_words(Replicas(step=1, batch=(32, 64, 96), replicas=rows), config) == ""
    rows = tuple(Replica(index=place, device="cpu", input=(size,), output=(size,), loss=1.0) for place, size in enumerate((32, 31)))
    assert batch_words(Replicas(step=1, batch=(63,), replicas=rows), config) == "", "there is no such axis"

"""Who holds the memory of the card that our run uses, in the pane of devices."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from fakes import GIB, FakeSampler, FakeSession, card, screen_text, seed_cnn, settle
from kept_runs import until_shown
from textual.pilot import Pilot

from tuitrain.devices import DeviceSample, ProcessSample
from tuitrain.devices.split import MemorySplit
from tuitrain.events import TensorMemory
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.look import DARK, palette_of
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.run_view import RunView
from tuitrain.tui.widgets.memory_split import split_bar, split_facts, split_words

SPLIT = MemorySplit(used=25 * GIB, tensors=3 * GIB, cache=GIB, context=GIB // 2, others=18 * GIB, unseen=5 * GIB // 2)
PALETTE = palette_of(DARK)


def held(
    device: str = "cuda:0", *, uuid: str | None = "GPU-0", allocated: int = 3 * GIB, reserved: int = 4 * GIB, at: float | None = None
) -> TensorMemory:
    return TensorMemory(time=time.time() if at is None else at, device=device, uuid=uuid, allocated=allocated, reserved=reserved)


def shared_card(index: int = 0, **changes: object) -> DeviceSample:
    """A card that we and alice use."""
    ours = ProcessSample(pid=os.getpid(), name="python", user="me", memory=int(4.5 * GIB))
    alice = ProcessSample(pid=1, name="python", user="alice", memory=18 * GIB)
    return card(index, **{"memory_used": 25 * GIB, "processes": (ours, alice), **changes})


def texts(split: MemorySplit, width: int = 99) -> list[str]:
    """The lines of words."""
    return ["".join(segment.text for segment in row.segments) for row in split_words(split, width, PALETTE)]


# -- words and bar -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (80, ["tensors 3.0 · cache 1.0 · context 0.5 · others 18 · unseen 2.5 GiB"]),
        (60, ["tensors 3.0 · cache 1.0 · context 0.5 · others 18", "unseen 2.5 GiB"]),
        (38, ["tensors 3.0 · cache 1.0 · context 0.5", "others 18 · unseen 2.5 GiB"]),
        (35, ["tensors 3.0 · cache 1.0", "context 0.5 · others 18", "unseen 2.5 GiB"]),
    ],
)
def test_the_words_fit_the_room(width: int, said: list[str]) -> None:
    assert texts(SPLIT, width) == said


def test_an_estimate_and_what_cannot_be_told_are_said() -> None:
    estimated = MemorySplit(used=10 * GIB, tensors=GIB, cache=0, context=GIB, others=8 * GIB, unseen=0, estimated=True)
    assert texts(estimated) == ["tensors 1.0 · cache 0.0 · context ≈1.0 · others 8.0 GiB"]
    assert ("CUDA context", "1.0 GiB, estimated") in split_facts(estimated)
    untold = MemorySplit(used=10 * GIB, tensors=GIB, cache=0, context=None, others=9 * GIB, unseen=0)
    assert texts(untold) == ["tensors 1.0 · cache 0.0 · context and others 9.0 GiB"]
    assert ("others, CUDA context", "9.0 GiB") in split_facts(untold)


def test_the_bar_is_as_long_as_what_is_used_and_its_parts_follow_one_another() -> None:
    row = split_bar(SPLIT, 50 * GIB, 50, PALETTE)
    drawn = [(segment.text[0], len(segment.text), (segment.style or PALETTE.text).color) for segment in row.segments]
    mine = [("█", 3, PALETTE.primary), ("▓", 1, PALETTE.good), ("▒", 0, PALETTE.accent), ("█", 18, PALETTE.dim), ("░", 3, PALETTE.dim)]
    assert drawn[:-1] == [(glyph, size, style.color) for glyph, size, style in mine if size]
    assert drawn[-1][:2] == (" ", 25)


def test_a_sample_that_says_more_than_the_card_has_fills_the_bar_and_no_more() -> None:
    assert split_bar(SPLIT, 20 * GIB, 10, PALETTE).width == 10


# -- the estimate of the context -----------------------------------------------------------------------------------------


def own_cards(session: FakeSession) -> tuple[OwnCards, FakeSampler]:
    return OwnCards(RunView(session)), FakeSampler(card(0, memory_used=5 * GIB))


def test_in_a_container_the_context_is_what_the_run_added_and_stays_that(session: FakeSession) -> None:
    cards, sampler = own_cards(session)
    cards.note(sampler.latest())
    session.start(seed_cnn())
    sampler.devices = (card(0, memory_used=6 * GIB),)
    cards.note(sampler.latest())
    session.begin(device=("cuda:0",))
    session.say(held(at=time.time() - 10))
    sampler.devices = (card(0, memory_used=11 * GIB),)
    cards.note(sampler.latest())
    found = cards.of(sampler.devices[0])
    assert found is not None
    assert (found.context, found.estimated) == (GIB, True)
    # Somebody else's job comes; it is not our context.
    sampler.devices = (card(0, memory_used=31 * GIB),)
    cards.note(sampler.latest())
    found = cards.of(sampler.devices[0])
    assert found is not None
    assert (found.context, found.others + found.unseen) == (GIB, 26 * GIB)


def test_a_sample_that_is_older_than_the_tensors_gives_no_estimate(session: FakeSession) -> None:
    cards, sampler = own_cards(session)
    cards.note(sampler.latest())
    session.start(seed_cnn())
    session.begin(device=("cuda:0",))
    session.say(held())
    sampler.age = 5.0
    cards.note(sampler.latest())
    found = cards.of(sampler.devices[0])
    assert found is not None
    assert found.context is None


def test_a_run_that_was_under_way_before_the_first_sample_gives_no_estimate(session: FakeSession) -> None:
    cards, sampler = own_cards(session)
    session.start(seed_cnn())
    session.begin(device=("cuda:0",))
    session.say(held(at=time.time() - 10))
    cards.note(sampler.latest())
    found = cards.of(sampler.devices[0])
    assert found is not None
    assert found.context is None


@pytest.mark.parametrize(
    ("event", "mine"),
    [
        (held("cuda:1", uuid="GPU-0"), True),
        (held("cuda:0", uuid="GPU-7"), False),
        (held("cuda:0", uuid=None), True),
        (held("cuda:3", uuid=None), False),
    ],
)
def test_the_card_is_found_by_its_uuid_and_without_one_by_cudas_number(session: FakeSession, event: TensorMemory, mine: bool) -> None:
    cards, _ = own_cards(session)
    session.start(seed_cnn())
    session.begin(device=(event.device,))
    session.say(event)
    assert (cards.of(shared_card()) is not None) == mine


# -- the pane -------------------------------------------------------------------------------------------------------------


async def training(pilot: Pilot[None], session: FakeSession, *events: TensorMemory) -> str:
    await pilot.press("enter")
    session.begin(device=tuple(event.device for event in events))
    session.say(*events)
    await settle(pilot)
    return screen_text(pilot.app)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((80, 24), []),
        ((100, 40), ["tensors 3.0 · cache 1.0", "context 0.5 · others 18", "unseen 2.5 GiB"]),
        ((120, 40), ["tensors 3.0 · cache 1.0 · context 0.5", "others 18 · unseen 2.5 GiB"]),
        ((200, 60), ["tensors 3.0 · cache 1.0 · context 0.5 · others 18", "unseen 2.5 GiB"]),
    ],
)
async def test_the_words_stand_under_the_meter_of_our_card_alone(session: FakeSession, size: tuple[int, int], said: list[str]) -> None:
    app = TuitrainApp(session, FakeSampler(shared_card(0), shared_card(1)), seed_cnn(), Path("runs"))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "tensors" not in screen_text(app)
        lines = (await training(pilot, session, held())).split("\n")
        assert sum("tensors" in line for line in lines) == bool(said)
        if said:
            mem = next(place for place, line in enumerate(lines) if "mem " in line)
            assert "cuda:0" in lines[mem - 1]
            assert [line[1:].partition("│")[0].strip() for line in lines[mem + 1 : mem + 1 + len(said)]] == said
            assert "gpu " in lines[mem + 1 + len(said)]
        session.end()
        await settle(pilot)
        assert "tensors" not in screen_text(app)


async def test_all_parts_are_named_where_they_fit(session: FakeSession) -> None:
    ours = ProcessSample(pid=os.getpid(), name="python", user="me", memory=int(4.5 * GIB))
    app = TuitrainApp(session, FakeSampler(shared_card(0, memory_used=int(4.5 * GIB), processes=(ours,))), seed_cnn(), Path("runs"))
    async with app.run_test(size=(200, 60)) as pilot:
        assert "tensors 3.0 · cache 1.0 · context 0.5 · others 0.0 GiB" in await training(pilot, session, held())


async def test_where_the_rows_are_short_the_line_gives_way_before_the_meters(session: FakeSession) -> None:
    cards = [shared_card(index) for index in range(8)]
    app = TuitrainApp(session, FakeSampler(*cards), seed_cnn(), Path("runs"))
    async with app.run_test(size=(120, 40)) as pilot:
        text = await training(pilot, session, *(held(f"cuda:{index}", uuid=f"GPU-{index}") for index in range(8)))
        assert "tensors" not in text
        assert text.count("mem ") == 8


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_detail_of_the_card_tells_each_part(session: FakeSession, size: tuple[int, int]) -> None:
    app = TuitrainApp(session, FakeSampler(shared_card(0), card(1, processes=())), seed_cnn(), Path("runs"))
    async with app.run_test(size=size) as pilot:
        await training(pilot, session, held())
        await pilot.press("g")
        await pilot.pause()
        await pilot.press("enter")
        text = " ".join((await until_shown(pilot, "memory held by")).replace("│", " ").split())
        for part in ("tensors 3.0 GiB", "torch's cache 1.0 GiB", "CUDA context 512 MiB", "other processes 18.0 GiB"):
            assert part in text
        assert "unseen 2.5 GiB" in text
        await pilot.press("escape", "down", "enter")
        await until_shown(pilot, "cuda:1", "uuid")
        assert "memory held by" not in screen_text(app)


async def test_a_click_below_the_line_picks_the_card_that_is_there(session: FakeSession) -> None:
    app = TuitrainApp(session, FakeSampler(shared_card(0), card(1, processes=())), seed_cnn(), Path("runs"))
    async with app.run_test(size=(120, 40)) as pilot:
        await training(pilot, session, held())
        await pilot.press("n")
        await settle(pilot)
        lines = screen_text(app).split("\n")
        row = next(place for place, line in enumerate(lines) if "cuda:1" in line)
        await pilot.click("#devices", offset=(10, row - 1))
        await pilot.pause()
        assert app.main._devices.picked == ("cuda:1",)

"""The GPU screen: cards, history and processes at every size, and every key on them."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path
from unittest import mock

import msgspec
import pytest
from fakes import NO_GPU, FakeSampler, FakeSession, cpu_sampler, screen_text, seed_cnn
from gpu_machines import full_card, machine, past_of, process, with_cards
from kept_runs import until, until_shown, until_told
from rich.cells import cell_len
from test_gpu_ending import POLITE, STUBBORN, sample_of, start
from test_terminal import OnTerminal
from textual.pilot import Pilot
from tour import SIZES, strike

from tuitrain.devices import DeviceSample, HistoryPoint, ending
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.ask import Ask
from tuitrain.tui.screens.gpu_card import GpuCardScreen
from tuitrain.tui.screens.gpus import GpusScreen

SMALL = (80, 24)


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


async def opened(pilot: Pilot[None]) -> GpusScreen:
    """To the screen."""
    await strike(pilot, "g")
    await until_shown(pilot, "History", "q Quit") if pilot.app.size.height > 24 else await until_shown(pilot, "GPUs", "Esc Close")
    screen = pilot.app.screen
    assert isinstance(screen, GpusScreen)
    return screen


async def after_beats(pilot: Pilot[None], screen: GpusScreen, count: int = 2) -> str:
    for _ in range(count):
        screen.beat()
    await pilot._wait_for_screen()
    return screen_text(pilot.app)


def section(text: str, title: str) -> list[str]:
    """The lines of a pane, without its frame."""
    lines = text.split("\n")
    first = next(place for place, line in enumerate(lines) if re.match(rf"[╭├] {title}", line))
    rest = lines[first + 1 :]
    return [line[1:-1] for line in rest[: next(place for place, line in enumerate(rest) if line[0] in "├╰")]]


def check_frame(text: str, size: tuple[int, int]) -> None:
    lines = text.split("\n")
    assert len(lines) == size[1]
    for line in lines:
        assert cell_len(line) == size[0], line
    assert all(line[0] in "│├╭╰" and line[-1] in "│┤╮╯" for line in lines[1:-1])


def lost(one: DeviceSample) -> DeviceSample:
    """The card after it fell off the bus."""
    kept = {name: getattr(one, name) for name in ("nvml_index", "cuda_index", "uuid", "pci_bus_id", "name")}
    return DeviceSample(**kept, status="lost", reason="fell off the bus")


# -- sizes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 3, 8, 16])
async def test_every_number_of_cards_at_every_size(session: FakeSession, size: tuple[int, int], count: int) -> None:
    app = make(session, with_cards(count))
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        for place in range(count):
            text = screen_text(app)
            check_frame(text, size)
            line = next(line for line in section(text, "GPUs") if line.startswith(" ▸"))
            assert f"cuda:{place} " in line
            whole = " ".join(section(text, "GPUs"))
            assert f"{60 + 5 * place % 40 if place % 4 != 3 else 0} %" in whole
            if place + 1 < count:
                await strike(pilot, "down")
                await until_shown(pilot, f"▸ {'○' if place % 4 == 2 else '●'} cuda:{place + 1} ")
        cut = [line for line in section(screen_text(app), "GPUs") if re.search(r"\d…|…[ \d]*(GiB|%|W|°C)", line)]
        assert not cut
        processes = section(screen_text(app), "Processes")
        assert len(processes) >= 6
        assert sum(bool(re.search(r"cuda:\d", line)) for line in processes) == min(len(processes) - 1, 2 * (count - count // 4))


async def test_what_does_not_fit_is_counted_and_the_selected_card_is_in_view(session: FakeSession) -> None:
    app = make(session, with_cards(16))
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        assert "6 more below" in screen_text(app)
        await strike(pilot, "pagedown")
        await until_shown(pilot, "▸ ○ cuda:11 ")
        await strike(pilot, "pageup")
        await until_shown(pilot, "▸ ● cuda:0 ")
        await strike(pilot, "end")
        text = await until_shown(pilot, "▸   cpu")
        assert "6 more above" in text
        await strike(pilot, "home", "down")
        await until_shown(pilot, "▸ ● cuda:1")


async def test_a_card_alone_is_tall_and_has_four_graphs(session: FakeSession) -> None:
    app = make(session, with_cards(1))
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        text = screen_text(app)
        for words in ("NVIDIA H100 80GB HBM3", "nvml 0 · bus 18:00.0", "61 °C · 412/700 W", "fan  40 %", "P0", "sm 1,980 MHz"):
            assert words in text
        for words in ("util %", "memory GiB", "power W", "temp °C", "100┤", "80┤", "700┤", "└5 min", "now"):
            assert words in text
        assert "driver 570.86.15 · CUDA 12.8" in text


async def test_a_graph_of_nothing_says_so_and_has_no_zero(session: FakeSession) -> None:
    one = full_card(0, power=None, power_cap=None)
    sampler = machine(one)
    sampler.past = {one.key: [msgspec.structs.replace(point, power=None) for point in past_of(one)]}
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        text = screen_text(app)
        assert "power n/a" in text
        assert " 1┤" not in text
        assert text.count(" 0┤") == 3


async def test_two_cards_each_have_their_graphs_where_there_is_room(session: FakeSession) -> None:
    app = make(session, with_cards(2))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        text = screen_text(app)
        assert "cuda:0 utilization %" in text
        assert "cuda:1 utilization %" in text
        assert "held back by power cap" in text


# -- words where values would be ------------------------------------------------------------------------------------------


async def test_every_status_is_a_word_in_its_row(session: FakeSession) -> None:
    parent = full_card(2, cuda_index=None, mig=True, processes=(), reason="divided")
    sampler = machine(
        full_card(0, throttle=("too hot (hardware)",), temperature=91),
        full_card(1, status="lost", reason="fell off the bus"),
        parent,
        full_card(
            9, nvml_index=2, cuda_index=2, uuid="MIG-1", parent=parent.uuid, instance=0, utilization=None, power=None, temperature=None
        ),
        full_card(3, status="hidden", cuda_index=None, reason="hidden by CUDA_VISIBLE_DEVICES=0,1"),
        full_card(4, cuda_index=3, unified=True),
        full_card(5, cuda_index=4, status="reset required", reason="reset it"),
        full_card(6, cuda_index=5, status="no permission", reason="ask the owner"),
    )
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        lines = section(screen_text(app), "GPUs")
        assert "GPUs 7 · 1 MIG instance " in screen_text(app)

        def row(name: str) -> str:
            return next(line for line in lines if f"{name} " in line)

        assert "too hot " in row("cuda:0")
        assert "lost: fell off the bus" in row("cuda:1")
        assert "✗" in row("cuda:1")
        assert "└cuda:2" in row("cuda:2")
        assert "n/a" in row("cuda:2")
        assert "unified" in row("cuda:3")
        assert "reset required: reset it" in row("cuda:4")
        assert "no permission: ask the owner" in row("cuda:5")
        hidden = next(line for line in lines if "CUDA_VISIBLE" in line)
        assert "hidden by CUDA_VISIBLE_DEVICES=0,1" in hidden
        assert "hidden: hidden" not in hidden


@pytest.mark.usefixtures("still")
async def test_while_nvml_hangs_the_last_values_stay_with_their_age(session: FakeSession) -> None:
    sampler = with_cards(2)
    sampler.devices = tuple(msgspec.structs.replace(one, status="not responding", reason="hangs") for one in sampler.devices)
    sampler.age = sampler.stalled = 7.2
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        text = screen_text(app)
        assert "NVML not responding for 7 s" in text
        assert "7 s old" in text
        assert "7.0/80 GiB" in text
        assert "◌ cuda:0  no answer" in text
        palette = screen._cards.palette
        line = next(strip for strip in screen._cards._shown if "7.0/80" in strip.text)
        styles = [segment.style for segment in line if "7.0/80" in segment.text]
        assert [style and style.color for style in styles] == [palette.dim.color]
        sampler.age = sampler.stalled = 0.0
        sampler.devices = with_cards(2).devices
        text = await after_beats(pilot, screen)
        assert "not responding" not in text
        assert "old" not in text


async def test_without_a_gpu_the_cpu_is_shown_and_one_sentence_says_why(session: FakeSession) -> None:
    sampler = cpu_sampler()
    now = time.time()
    sampler.past["cpu"] = [
        HistoryPoint(time=now - ago, utilization=30.0, memory_used=2**34, power=None, temperature=None) for ago in range(600)
    ]
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        text = screen_text(app)
        check_frame(text, SMALL)
        assert text.count(NO_GPU) == 1
        for words in ("AMD EPYC 7B13 64-Core Processor", "64 cores", "31.0/512 GiB", "CPU %", "RAM GiB", "█"):
            assert words in text
        assert "Processes" not in text
        await strike(pilot, "s", "slash", "tab", "a", "x", "S")
        assert isinstance(app.screen, GpusScreen)
        await strike(pilot, "enter")
        await until_shown(pilot, "usable cores")


async def test_before_the_first_answer_it_says_so_and_then_shows_cards(session: FakeSession) -> None:
    sampler = with_cards(8)
    devices, sampler.devices, sampler.taken = sampler.devices, (), None
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        assert "looking for GPUs…" in screen_text(app)
        sampler.devices, sampler.taken = devices, 0.0
        await after_beats(pilot, screen)
        check_frame(await until_shown(pilot, "cuda:7", "Processes 12", "q Quit"), SMALL)


@pytest.mark.parametrize("size", SIZES)
async def test_a_hidden_card_is_dim_and_says_why(session: FakeSession, size: tuple[int, int]) -> None:
    hidden = full_card(1, status="hidden", cuda_index=None, reason="hidden by CUDA_VISIBLE_DEVICES=0")
    app = make(session, machine(full_card(0), hidden, full_card(2)))
    async with app.run_test(size=size) as pilot:
        screen = await opened(pilot)
        line = next(strip for strip in screen._cards._shown if "gpu 1" in strip.text)
        assert "hidden by CUDA_VISIBLE" in line.text
        assert ("442/700 W" in line.text) == (size != SMALL)
        colours = {segment.style.color for segment in line if segment.style and segment.text.strip(" │")}
        assert colours <= {screen._cards.palette.dim.color}


# -- history --------------------------------------------------------------------------------------------------------------


async def test_the_span_of_the_history_is_stepped_and_shared_with_the_detail(session: FakeSession) -> None:
    app = make(session, with_cards(3))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await strike(pilot, "right_square_bracket", "right_square_bracket")
        await until_shown(pilot, "[ ] 1 h", "└1 h")
        await strike(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, GpuCardScreen))
        await until_shown(pilot, "[ ] 1 h")
        await strike(pilot, "left_square_bracket")
        await until_shown(pilot, "[ ] 15 min")
        await strike(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, GpusScreen))
        await until_shown(pilot, "[ ] 15 min", "Processes")


async def test_the_history_is_the_selected_cards(session: FakeSession) -> None:
    app = make(session, with_cards(4))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        busy = "".join(section(screen_text(app), "History cuda:0")).count("█")
        await strike(pilot, "end", "up")
        await until_shown(pilot, "History cuda:3")
        assert "".join(section(screen_text(app), "History cuda:3")).count("█") < busy


# -- processes ------------------------------------------------------------------------------------------------------------


async def test_sorting_turning_and_one_card_only(session: FakeSession) -> None:
    app = make(session, with_cards(8))
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        table = screen._processes.list
        await strike(pilot, "s")
        await until_shown(pilot, "s S memory")
        sizes = [row.process.memory or 0 for row in table.rows]
        assert sizes == sorted(sizes, reverse=True)
        await strike(pilot, "S")
        await until_shown(pilot, "memory, reversed")
        assert [row.process.memory or 0 for row in table.rows] == sorted(sizes)
        await strike(pilot, "down", "a")
        await until_shown(pilot, "Processes 2", "a cuda:1")
        assert {row.card for row in table.rows} == {"cuda:1"}
        await strike(pilot, "down", "down")
        await until_shown(pilot, "a cuda:3", "No process is on this card.")
        await strike(pilot, "a")
        await until_shown(pilot, "Processes 12", "a all cards")


async def test_the_filter(session: FakeSession) -> None:
    app = make(session, with_cards(8))
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        await strike(pilot, "slash")
        await until(pilot, lambda: screen._processes.searching)
        await pilot.press(*"alice", "space", *"train")
        await until_shown(pilot, "2 of 12", "Enter keeps it")
        assert all(row.process.user == "alice" for row in screen._processes.list.rows)
        await pilot.press("enter")
        await until(pilot, lambda: screen._processes.has_focus)
        await until_shown(pilot, "/ alice train", "2 of 12", "Esc shows all")
        await strike(pilot, "escape")
        text = await until_shown(pilot, "Processes 12")
        assert "shows all" not in text
        assert isinstance(app.screen, GpusScreen)
        await strike(pilot, "slash")
        await until(pilot, lambda: screen._processes.searching)
        await pilot.press(*"nobody")
        await until_shown(pilot, "No process holds “nobody”.")
        await pilot.press("tab")
        await until(pilot, lambda: not screen._processes.searching)
        await strike(pilot, "escape", "escape")
        await until(pilot, lambda: app.screen is app.main or not screen._processes.filtered)


async def test_tab_goes_to_the_processes_and_back(session: FakeSession) -> None:
    app = make(session, with_cards(2))
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        assert screen._cards.has_focus
        await until_shown(pilot, "Tab Processes")
        await strike(pilot, "tab")
        await until(pilot, lambda: screen._processes.has_focus)
        await until_shown(pilot, "Tab Cards", "x End")
        await strike(pilot, "down")
        await until(pilot, lambda: screen._processes.list.cursor == 1)
        await strike(pilot, "shift+tab")
        await until(pilot, lambda: screen._cards.has_focus)


@pytest.mark.parametrize("keys", [("tab",), ("slash", "a")])
async def test_cards_that_vanish_and_return_leave_the_keys_where_one_sees_something(session: FakeSession, keys: tuple[str, ...]) -> None:
    """The table of processes, and a filter that is being typed, go with the cards."""
    sampler = with_cards(2)
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        await strike(pilot, *keys)
        devices, sampler.devices, sampler.error = sampler.devices, (), NO_GPU
        await after_beats(pilot, screen)
        await until_shown(pilot, NO_GPU, "Enter Details", "Esc Close")
        assert screen._cards.has_focus
        sampler.devices, sampler.error = devices, None
        await after_beats(pilot, screen)
        await until_shown(pilot, "Processes", "Tab Processes")
        await strike(pilot, "escape")
        await until(pilot, lambda: app.screen is app.main)


async def test_memory_that_nobody_holds_is_a_last_line(session: FakeSession) -> None:
    sampler = with_cards(8)
    sampler.devices = (msgspec.structs.replace(sampler.devices[0], memory_used=2**36), *sampler.devices[1:])
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        await opened(pilot)
        lines = section(screen_text(app), "Processes")
        assert "Held by no process seen here: cuda:0 57 GiB " in lines[-1]
        assert sum(bool(re.search(r"cuda:\d  ", line)) for line in lines) >= 5


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 8, 16])
@pytest.mark.parametrize("seen", [False, True])
async def test_memory_that_nobody_holds_is_never_cut(session: FakeSession, size: tuple[int, int], count: int, seen: bool) -> None:
    held = (full_card(index, memory_used=2**36, **({} if seen else {"processes": ()})) for index in range(count))
    app = make(session, machine(*held))
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        lines = section(screen_text(app), "Processes")
        first = next(place for place, line in enumerate(lines) if "Held by no process seen here: cuda:0 " in line)
        sentence = " ".join(" ".join(lines[first:]).split())
        assert "…" not in sentence
        assert "GiB" in sentence
        assert re.search(rf"cuda:{count - 1} [\d.]+ GiB$| and \d+ more$", sentence)
        rows = sum(bool(re.search(r"cuda:\d+  ", line)) for line in lines)
        assert rows >= min(4, 2 * count) if seen else " more" not in sentence


# -- the selection --------------------------------------------------------------------------------------------------------


async def test_the_first_card_is_selected_when_cards_come_after_the_screen(session: FakeSession) -> None:
    sampler = with_cards(8)
    devices, sampler.devices, sampler.taken = sampler.devices, (), None
    app = make(session, sampler)
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        sampler.devices, sampler.taken = devices, 0.0
        await after_beats(pilot, screen)
        await until_shown(pilot, "▸ ● cuda:0")
        await strike(pilot, "end")
        await until_shown(pilot, "▸   cpu")
        await after_beats(pilot, screen)
        assert "▸   cpu" in screen_text(app), "who chose the cpu keeps it"


# -- the detail -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_the_detail_of_a_card_follows_it(session: FakeSession, size: tuple[int, int]) -> None:
    sampler = with_cards(3)
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        await strike(pilot, "down", "enter")
        text = await until_shown(pilot, "GPU-5d8a7a2c-6a2f-4bd8-9d5c-0a8e1c1f0001")
        check_frame(text, size)
        assert "…" not in text
        for words in ("20:00.0", "gen 5 · x16", "19.6 GiB/s", "on, 0 uncorrected", "888.9 kWh", "power cap", "History cuda:1", "100┤"):
            assert words in text
        assert isinstance(app.screen, GpuCardScreen)
        sampler.devices = (sampler.devices[0], lost(sampler.devices[1]))
        app.screen.beat()
        text = await until_shown(
            pilot,
            "lost: fell off the bus",
            "last seen",
            ", just now",
            "11.0 GiB in use",
            "press d: the doctor looks for the cause and what mends it ",
        )
        check_frame(text, size)
        assert "n/a" not in text
        assert "100┤" in text, "its past is still there"
        line = next(strip for strip in app.screen._facts._shown if "11.0 GiB" in strip.text)
        told = [segment.style for segment in line if segment.style and "GiB" in segment.text]
        assert [style.color for style in told] == [app.screen._facts.palette.dim.color]
        devices, sampler.devices = sampler.devices, sampler.devices[:1]
        app.screen.beat()
        await until_shown(pilot, "This card is not there any more.")
        await until(pilot, lambda: not any(word in screen_text(app) for word in ("History", "Shorter")))
        check_frame(screen_text(app), size)
        sampler.devices = devices
        app.screen.beat()
        await until_shown(pilot, "History cuda:1", "[ Shorter")
        await strike(pilot, "escape")
        await until(pilot, lambda: isinstance(app.screen, GpusScreen))


# -- ending a process -----------------------------------------------------------------------------------------------------


async def test_a_process_of_ones_own_is_ended_after_a_question(session: FakeSession) -> None:
    with start(POLITE) as child:
        sampler = machine(full_card(0, processes=(sample_of(child),)))
        app = make(session, sampler)
        async with app.run_test(size=SMALL) as pilot:
            screen = await opened(pilot)
            await strike(pilot, "tab", "x")
            await until_shown(pilot, f"End process {child.pid}?", "▸ Leave it", "End it (SIGTERM)")
            await strike(pilot, "enter")
            await until(pilot, lambda: app.screen is screen)
            assert child.poll() is None
            await strike(pilot, "x")
            await until(pilot, lambda: isinstance(app.screen, Ask))
            await strike(pilot, "down", "enter")
            await until(pilot, lambda: child.poll() == -15)
            sampler.devices = (full_card(0, processes=()),)
            screen.beat()
            await until_told(pilot, f"Process {child.pid} has ended.")


async def test_one_that_stays_is_killed_by_a_second_x(session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with start(STUBBORN) as child:
        app = make(session, machine(full_card(0, processes=(sample_of(child),))))
        async with app.run_test(size=SMALL) as pilot:
            screen = await opened(pilot)
            await strike(pilot, "tab", "x")
            await until(pilot, lambda: isinstance(app.screen, Ask))
            await strike(pilot, "down", "enter")
            await until_shown(pilot, "asked to end")
            assert child.poll() is None
            monkeypatch.setattr(ending, "PATIENCE_SECONDS", 0.0)
            await after_beats(pilot, screen)
            await until_shown(pilot, "stays: x kills it")
            await strike(pilot, "x")
            await until_shown(pilot, f"Kill process {child.pid}?", "Kill it (SIGKILL)")
            await strike(pilot, "down", "enter")
            await until(pilot, lambda: child.poll() == -9)


async def test_what_one_may_not_end_is_said_and_not_asked(session: FakeSession) -> None:
    # In the order of the table: by memory.
    others = (
        process(0, memory=4 * 2**30),
        process(1, memory=3 * 2**30, foreign=True, name=None, user=None, command=None),
        process(2, memory=2 * 2**30),
    )
    app = make(session, machine(full_card(0, processes=others)))
    async with app.run_test(size=SMALL) as pilot:
        screen = await opened(pilot)
        await strike(pilot, "tab", "x")
        await until_told(pilot, "This is tuitrain itself: q leaves it.")
        await strike(pilot, "down", "x")
        await until_told(pilot, "is another container's or the host's")
        await strike(pilot, "down", "x")
        await until_told(pilot, "has ended already")
        assert app.screen is screen


# -- what it costs --------------------------------------------------------------------------------------------------------


async def test_three_busy_cards_cost_few_bytes(session: FakeSession) -> None:
    # The columns of the history begin at whole times: at another moment they are others.
    began = 1.8e9
    now, dice = [began], random.Random(1)
    with mock.patch("time.time", side_effect=lambda: now[0]):
        sampler = with_cards(3)
        base = sampler.devices
        app = OnTerminal(session, sampler, (120, 40))
        app._runs_dir = Path("runs")
        async with app.run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            app.since_last()
            for second in range(1, 61):
                now[0] = began + second
                sampler.devices = tuple(
                    msgspec.structs.replace(
                        one,
                        utilization=(one.utilization or 0) + dice.randint(-6, 6),
                        power=(one.power or 0) + dice.uniform(-15, 15),
                        temperature=(one.temperature or 0) + dice.choice((0, 0, 0, 0, 1, -1)),
                        processes=tuple(
                            msgspec.structs.replace(each, cpu_percent=100 + dice.uniform(-3, 3)) for each in one.processes or ()
                        ),
                    )
                    for one in base
                )
                for one in sampler.devices:
                    sampler.past[one.key].append(msgspec.structs.replace(past_of(one, 0)[0], time=now[0]))
                screen.beat()
                # Each beat for itself: beats that follow each other at once are painted as one.
                await until(pilot, lambda: app.shown() == screen_text(app))
            # In 256 colours; each true colour is ten bytes more.
            assert app.since_last() / 60 <= 135


async def test_nothing_is_sent_while_nothing_changes(session: FakeSession) -> None:
    app = OnTerminal(session, with_cards(3), (120, 40))
    began = time.time()
    with mock.patch("time.time", return_value=began):
        async with app.run_test(size=(120, 40)) as pilot:
            screen = await opened(pilot)
            await after_beats(pilot, screen)
            app.since_last()
            await after_beats(pilot, screen, 6)
            assert app.since_last() == 0

"""The parameters screen through its keys, with made-up networks."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec
import pytest
from fakes import FakeSampler, FakeSession, said, screen_text, seed_cnn, settle
from test_terminal import OnTerminal
from textual.pilot import Pilot

from tuitrain.events import Parameter, Parameters
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens.parameters import ParametersScreen

SIZES = [(80, 24), (120, 40), (200, 60)]
SEED_CNN = (
    ("features.0.weight", (32, 3, 5, 5)),
    ("features.0.bias", (32,)),
    ("features.2.weight", (32, 32, 5, 5)),
    ("features.2.bias", (32,)),
    ("features.4.weight", (64, 32, 5, 5)),
    ("features.4.bias", (64,)),
    ("classifier.1.weight", (64, 1024)),
    ("classifier.1.bias", (64,)),
    ("classifier.2.weight", (10, 64)),
    ("classifier.2.bias", (10,)),
)
WARNING = "blocks: 3 layers are kept in a plain Python list of Net; torch neither trains nor moves them; use nn.ModuleList."


def row(name: str, shape: tuple[int, ...], device: str = "cpu", *, trainable: bool = True) -> Parameter:
    return Parameter(name=name, shape=shape, count=math.prod(shape), device=device, trainable=trainable)


def network(*warnings: str) -> Parameters:
    return Parameters(rows=tuple(row(*one) for one in SEED_CNN), warnings=warnings)


def deep(count: int = 200) -> Parameters:
    return Parameters(rows=tuple(row(f"encoder.layers.{number}.self_attn.in_proj_weight", (192, 64)) for number in range(count)))


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


async def opened(pilot: Pilot[None], session: FakeSession, event: Parameters | None = None) -> None:
    await pilot.press("enter")
    session.begin()
    if event is not None:
        session.say(event)
    await settle(pilot)
    await pilot.press("w")
    await pilot.pause()
    assert isinstance(pilot.app.screen, ParametersScreen)


async def test_a_tensor_that_holds_nearly_all_stays_in_its_columns(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, Parameters(rows=(row("weight", (10, 30720)), row("bias", (10,)))))
        header, weight, bias = (line for line in screen_text(app).splitlines() if re.search("share|weight|bias", line))
        assert "100.0 %" in weight
        for line in (weight, bias):
            assert (line.index("cpu"), line.index("yes")) == (header.index("device"), header.index("trained"))


@pytest.mark.parametrize("size", SIZES)
async def test_every_parameter_and_the_sum(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, network(WARNING))
        text = screen_text(app)
        for name, shape in SEED_CNN:
            line = next(line for line in text.splitlines() if f" {name} " in line)
            assert str(list(shape)) in line
            assert f" {math.prod(shape):,} " in line
            assert " cpu " in line
            assert " yes " in line
        assert " 45.0 % " in text
        assert "<0.1 %" in text
        assert "145,578 parameters, 0.6 MiB in fp32 · all are trained · all on cpu" in text
        assert f"! {WARNING}" in said(app)
        lines = text.splitlines()
        assert lines[2].startswith("│ ! blocks")
        assert {len(line) for line in lines} == {size[0]}
        assert "w Close" in lines[-1]


async def test_scrolling_keeps_the_header(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, deep())
        for key, first, seen in (
            ("up", 0, "lines 1–18 of 201"),
            ("down", 1, "lines 2–19 of 201"),
            ("pagedown", 17, "lines 18–35 of 201"),
            ("pageup", 1, "lines 2–19 of 201"),
            ("end", 183, "lines 184–201 of 201"),
            ("pagedown", 183, "lines 184–201 of 201"),
            ("home", 0, "lines 1–18 of 201"),
        ):
            await pilot.press(key)
            await pilot.pause()
            lines = screen_text(app).splitlines()
            assert seen in lines[1], key
            assert "name" in lines[2], key
            assert f"encoder.layers.{first}." in lines[3], key
            assert "2,457,600 parameters, 9.4 MiB in fp32" in screen_text(app)


async def test_whole_names_before_bars_and_the_column_that_says_the_same_of_all(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, deep(3))
        assert "encoder.layers.2.self_attn.in_proj_weight" in screen_text(app)
        assert "all are trained" in screen_text(app)
        assert "share" in screen_text(app)
        session.say(deep(12))
        await settle(pilot)
        assert "encoder.layers.11.self_attn.in_proj_weight" in screen_text(app)
        assert "share" not in screen_text(app)
        rows = (row("a" * 90 + ".weight", (2, 2)), row("b", (1,), trainable=False))
        session.say(Parameters(rows=rows))
        await settle(pilot)
        text = screen_text(app)
        assert "aaa.weight" in text
        assert "frozen" in text
        assert "5 parameters, 20 bytes in fp32 · 1 of them frozen" in text
        session.say(Parameters(rows=(row("scale", (1,)),)))
        await settle(pilot)
        text = screen_text(app)
        assert "Parameters  1 tensor " in text
        assert "1 parameter, 4 bytes in fp32" in text


async def test_short_names_leave_room_for_the_last_column(session: FakeSession, sampler: FakeSampler) -> None:
    """What a plain nn.Sequential calls its parameters."""
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        short = tuple(row(name.partition(".")[2], shape) for name, shape in SEED_CNN)
        await opened(pilot, session, Parameters(rows=short))
        lines = screen_text(app).splitlines()
        header = next(line for line in lines if "shape" in line)
        assert "device  trained" in header
        assert "…" not in header


async def test_several_devices_are_pointed_out(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, Parameters(rows=(row("big", (100, 10), "cuda:0"), row("small", (10,), "cpu"))))
        assert "! The network is on 2 devices: 1,000 on cuda:0, 10 on cpu." in screen_text(app)
        line = next(line for line in screen_text(app).splitlines() if "small" in line)
        assert "! cpu" in line
        assert "all on" not in screen_text(app)


async def test_double_precision_is_twice_as_large(session: FakeSession, sampler: FakeSampler) -> None:
    app = TuitrainApp(session, sampler, msgspec.structs.replace(seed_cnn(), precision="fp64"), Path("runs"))
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, network())
        assert "145,578 parameters, 1.1 MiB in fp64" in screen_text(app)


async def test_before_the_run_starts_and_a_run_that_kept_nothing(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("w")
        await pilot.pause()
        assert "The parameters come when the run starts." in screen_text(app)
        await pilot.press("down", "end", "pageup", "home")
        session.begin()
        await settle(pilot)
        assert "The parameters of this run are not known here." in screen_text(app)
        session.say(network())
        await settle(pilot)
        assert "features.0.weight" in screen_text(app)
        session.end()
        await settle(pilot)
        assert "features.0.weight" in screen_text(app)
        assert session.record is not None
        session.record.parameters = None
        session.say()
        await settle(pilot)
        assert "The parameters of this run are not kept." in screen_text(app)


async def test_a_network_without_registered_parameters(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, Parameters(rows=(), warnings=(WARNING,) * 12))
        assert screen_text(app).count("! blocks") == 9
        assert "lines 1–18 of 26" in screen_text(app)
        await pilot.press("end")
        await pilot.pause()
        assert "The network has no parameters that torch knows of." in screen_text(app)


@pytest.mark.parametrize("key", ["w", "escape"])
async def test_closing(session: FakeSession, sampler: FakeSampler, key: str) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, network())
        await pilot.press(key)
        await pilot.pause()
        assert app.screen is app.main


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_names(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    names = ("[red]x[/]", "a\x1b[31mb\x07", "猫" * 60, "🙂.weight", "\u202eright", "", "[", "new\nline")
    rows = tuple(row(name, (number + 1,), "cuda:0\x1b[5m" if number else "cpu") for number, name in enumerate(names))
    app = OnTerminal(session, sampler, size)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, Parameters(rows=rows, warnings=("[b]bold[/b]\x1b[2J", "猫" * 100)))
        assert app.shown() == screen_text(app)
        assert "[red]x[/]" in screen_text(app)
        assert "! [b]bold[/b]" in screen_text(app)
        await pilot.press("end", "home")
        await pilot.pause()
        written = "".join(app.written)
        for harm in ("\x07", "\u202e", "\x1b[31mb", "\x1b[2J", "\x1b[5m"):
            assert harm not in written


async def test_a_still_table_sends_nothing(session: FakeSession, sampler: FakeSampler) -> None:
    app = OnTerminal(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, network(WARNING))
        app.since_last()
        session.steps(5)
        await settle(pilot)
        assert "features" not in "".join(app.written)


async def test_a_network_that_takes_the_place_of_another_in_memory_is_shown(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, network())
        record = session.record
        assert record is not None
        before, record.parameters = id(record.parameters), None
        others = [deep(3)]
        while id(others[-1]) != before and len(others) < 100:
            others.append(deep(3))
        record.parameters = others[-1]
        app.screen.beat()
        await pilot.pause()
        assert "encoder.layers" in screen_text(app)

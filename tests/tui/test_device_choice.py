"""Choosing devices and replicas in the list, and the strategy that fits them."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import msgspec
import pytest
from fakes import GIB, HOST, FakeSampler, FakeSession, busy_card, card, cpu_sampler, screen_text, seed_cnn, settle
from kept_runs import until, until_told
from textual.pilot import Pilot
from tour import strike

from tuitrain.config import RunConfig
from tuitrain.devices import DeviceSample, ProcessSample
from tuitrain.recipes import load_recipe
from tuitrain.strategies import STRATEGIES, auto_takes
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.launch.form import Form
from tuitrain.tui.launch.hints import Hint, Machine
from tuitrain.tui.launch.selection import one_less, one_more, toggled
from tuitrain.tui.launch.strategies import about, fitting, why_not
from tuitrain.tui.widgets.devices import Devices

SIZES = [(80, 24), (120, 40), (200, 60)]
WIDE = (120, 40)
TWO = ("cuda:0", "cuda:1")


def make(session: FakeSession, *cards: DeviceSample, launch: RunConfig | None = None) -> TuitrainApp:
    return TuitrainApp(session, FakeSampler(*cards) if cards else cpu_sampler(), launch or seed_cnn(), Path("runs"))


def to_devices(size: tuple[int, int]) -> list[str]:
    """A narrow terminal has no pane of strategies between."""
    return ["shift+tab"] * (2 if size[0] >= 100 else 1)


def words_of(app: TuitrainApp) -> str:
    """What the device list and the launcher say, with sentences that were broken made whole again."""
    lines = [strip.text.strip("│ ") for pane in (app.main._devices, app.main._launcher) for strip in pane._shown]
    return " ".join(" ".join(lines).split())


async def device(pilot: Pilot[None]) -> str:
    app = pilot.app
    assert isinstance(app, TuitrainApp)
    await settle(pilot)
    return app.main._launcher.form.config.device


# -- keys ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_training_on_two_gpus_with_split_is_five_keys_at_most(session: FakeSession, size: tuple[int, int]) -> None:
    keys = ("plus", "s", "enter")
    assert len(keys) <= 5
    app = make(session, card(0), card(1), card(2))
    async with app.run_test(size=size) as pilot:
        await strike(pilot, keys[0])
        await until(pilot, lambda: app.main._strategy.several_fit)
        await strike(pilot, keys[1])
        await until(pilot, lambda: app.main._launcher.form.config.strategy == "split")
        await strike(pilot, keys[2])
        await until(pilot, lambda: bool(session.started))
        assert (session.started[0].device, session.started[0].strategy) == ("cuda:0,cuda:1", "split")


@pytest.mark.parametrize("size", SIZES)
async def test_two_presses_choose_two_gpus_and_two_more_leave_none(session: FakeSession, size: tuple[int, int]) -> None:
    app = make(session, card(0), card(1))
    async with app.run_test(size=size) as pilot:
        await pilot.press(*to_devices(size), "space", "space")
        assert await device(pilot) == "cuda:0,cuda:1"
        text = screen_text(app)
        assert "cuda:0,cuda:1" in next(line for line in text.split("\n") if " device " in line)
        assert "Enter trains seed-cnn on cuda:0, cuda:1 (" in text
        await pilot.press("up", "space", "space")
        assert await device(pilot) == "auto"


async def test_the_order_of_the_list_is_the_order_of_the_replicas(session: FakeSession) -> None:
    app = make(session, card(0), card(1))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("shift+tab", "shift+tab", "down", "space", "up", "space")
        assert await device(pilot) == "cuda:0,cuda:1"


async def test_a_press_on_the_last_gpu_does_not_go_on_to_the_cpu(session: FakeSession) -> None:
    app = make(session, card(0))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("shift+tab", "shift+tab", "space")
        assert await device(pilot) == "cuda:0"
        await pilot.press("space")
        assert await device(pilot) == "auto"


@pytest.mark.parametrize("size", SIZES)
async def test_plus_and_minus_change_the_replicas_on_a_row(session: FakeSession, size: tuple[int, int]) -> None:
    app = make(session)
    async with app.run_test(size=size) as pilot:
        await pilot.press(*to_devices(size), "plus")
        assert await device(pilot) == "cpu,cpu"
        await pilot.press("plus")
        assert await device(pilot) == "cpu,cpu,cpu"
        assert "▣ cpu ×3 " in screen_text(app)
        assert "3 replicas share 64 cores" in screen_text(app)
        await pilot.press("minus", "minus")
        assert await device(pilot) == "cpu"
        assert "×" not in screen_text(app)
        await pilot.press("minus")
        assert await device(pilot) == "auto"
        await pilot.press("minus")
        assert await device(pilot) == "auto"


async def test_plus_from_the_form_takes_the_freest_and_says_when_all_are_taken(session: FakeSession) -> None:
    app = make(session, busy_card(0), card(1), card(2))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("plus")
        assert await device(pilot) == "cuda:1,cuda:2"
        await pilot.press("plus")
        assert await device(pilot) == "cuda:0,cuda:1,cuda:2"
        assert "! cuda:0: busy: alice python 18 GiB" in screen_text(app)
        await pilot.press("plus")
        assert await device(pilot) == "cuda:0,cuda:1,cuda:2"
        await until_told(pilot, "All 3 GPUs are chosen")
        await pilot.press("minus", "minus")
        assert await device(pilot) == "cuda:0"


async def test_auto_leaves_the_card_of_the_run_that_trains_and_comes_back_to_it_afterwards(session: FakeSession) -> None:
    ours = ProcessSample(pid=os.getpid(), name="python", user="u", memory=GIB // 2)
    held = card(0, memory_free=72 * GIB, processes=(ours,))
    app = make(session, held, card(1, memory_free=73 * GIB - GIB // 2))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter")
        session.begin(device=("cuda:0",))
        await pilot.press("n")
        await until(pilot, lambda: "takes cuda:1" in screen_text(app))
        session.end()
        await until(pilot, lambda: app.main._devices.machine.freest == ("cuda:0", "cuda:1"))
        await pilot.press("n")
        await until(pilot, lambda: "takes cuda:0" in screen_text(app))


@pytest.mark.parametrize("size", SIZES)
async def test_the_card_that_auto_takes_is_marked_as_soon_as_the_launcher_names_it(session: FakeSession, size: tuple[int, int]) -> None:
    sampler = FakeSampler(card(0), busy_card(1), card(2))
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert "▣ cuda:0" in screen_text(app)
        sampler.devices = (busy_card(0), card(1), busy_card(2))
        app.main.beat()
        await pilot.pause()
        text = screen_text(app)
        assert "takes cuda:1" in text
        assert "▣ cuda:1" in text
        assert "▣ cuda:0" not in text


async def test_what_cannot_be_chosen_says_why_and_is_not_taken(session: FakeSession) -> None:
    lost = card(1, status="lost", reason="it fell off the bus")
    hidden = card(2, cuda_index=None, status="hidden", reason="CUDA_VISIBLE_DEVICES=0")
    app = make(session, card(0), lost, hidden)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("shift+tab", "shift+tab", "down", "space")
        assert await device(pilot) == "auto"
        await until_told(pilot, "cuda:1: it fell off the bus")
        await pilot.press("down", "plus")
        assert await device(pilot) == "auto"
        await until_told(pilot, "gpu 2: CUDA_VISIBLE_DEVICES=0")


async def test_a_click_toggles(session: FakeSession) -> None:
    app = make(session, card(0), card(1))
    async with app.run_test(size=(120, 40)) as pilot:
        for line, expected in ((1, "cuda:0"), (4, "cuda:0,cuda:1"), (1, "cuda:1"), (4, "auto")):
            await pilot.click(Devices, offset=(5, line))
            assert await device(pilot) == expected


async def test_one_device_takes_a_strategy_for_several_back(session: FakeSession) -> None:
    app = make(session, card(0), card(1), launch=msgspec.structs.replace(seed_cnn(), device="cuda:0,cuda:1", strategy="dp"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("minus")
        assert await device(pilot) == "cuda:0"
        assert app.main._launcher.form.config.strategy == "auto"
        await until_told(pilot, "The strategy is auto again")


async def test_single_gives_way_to_a_second_device(session: FakeSession) -> None:
    app = make(session, card(0), card(1), launch=msgspec.structs.replace(seed_cnn(), strategy="single"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("plus")
        assert await device(pilot) == "cuda:0,cuda:1"
        assert app.main._launcher.form.config.strategy == "auto"
        assert app.main._launcher.form.ready


# -- how it looks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_long_names_keep_the_columns(session: FakeSession, size: tuple[int, int]) -> None:
    instance = card(1, cuda_index=None, instance=0, parent="GPU-1", uuid="MIG-1", status="hidden", reason="no instance is visible here")
    app = make(session, card(0), instance)
    async with app.run_test(size=size) as pilot:
        await pilot.press(*to_devices(size), "down")
        await settle(pilot)
        lines = [strip.text for strip in app.main.query_one(Devices)._shown]
        assert any("· mig 1.0 " in line for line in lines)
        starts = {line.index("H100") for line in lines if "H100" in line}
        assert len(starts) <= 1


@pytest.mark.parametrize("size", SIZES)
async def test_memory_that_is_the_systems_and_a_single_core_say_so(session: FakeSession, size: tuple[int, int]) -> None:
    unified = card(0, unified=True, memory_used=21 * GIB, memory_total=119 * GIB)
    sampler = FakeSampler(unified, host=msgspec.structs.replace(HOST, cores=1))
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert " unified 21.0/119 GiB " in screen_text(app)
        assert "cpu    1 core · " in screen_text(app)


async def test_the_pane_of_strategies_follows_the_devices(session: FakeSession) -> None:
    app = make(session, card(0), card(1))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "● single  ○ split  ○ dp  ○ ddp" in screen_text(app)
        await pilot.press("plus")
        await settle(pilot)
        assert "○ single  ○ split  ○ dp  ● ddp" in screen_text(app)
        assert "one process for each device" in screen_text(app)
        await pilot.press("s")
        await settle(pilot)
        # What auto would take is still marked.
        assert "○ single  ● split  ○ dp  ○ ddp·auto" in screen_text(app)
        await pilot.press("s", "s")
        await settle(pilot)
        assert "● ddp" in screen_text(app)
        assert app.main._launcher.form.config.strategy == "auto"


async def test_the_run_shows_its_own_strategy_and_devices(session: FakeSession) -> None:
    app = make(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("plus", "enter")
        await until(pilot, lambda: bool(session.started))
        session.begin(device=("cpu",) * 3, strategy="split")
        await settle(pilot)
        text = screen_text(app)
        assert "▣ cpu ×3" in text, "what the run has, whatever the launcher holds"
        assert "● split" in text
        assert "split over 3 replicas" in text
        assert "CIFAR-10 (50,000) · split over 3 ─" in text


# -- the parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("devices", "fit"),
    [
        (("cpu",), ["single"]),
        (("cuda:0",), ["single"]),
        (TWO, ["split", "dp", "ddp"]),
        (("cpu", "cpu"), ["split", "ddp"]),
        (("cuda:0", "cuda:0"), ["split"]),
        (("cuda:0", "cpu"), ["split"]),
    ],
)
def test_which_strategies_fit(devices: tuple[str, ...], fit: list[str]) -> None:
    assert fitting(devices) == fit
    # The pane has one line of 37 cells for a reason.
    assert all(len(why_not(strategy, devices) or about(strategy)) <= 37 for strategy in STRATEGIES)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("devices", [("cpu",), ("cuda:0",), TWO, ("cpu", "cpu"), ("cuda:0", "cuda:0"), ("cuda:0", "cpu")])
def test_what_fits_is_a_valid_configuration(strategy: str, devices: tuple[str, ...]) -> None:
    if why_not(strategy, devices) is None:
        assert Form(seed_cnn()).choose_devices(devices, strategy)


@pytest.mark.parametrize(
    ("devices", "strategy"),
    [(("cuda:0",), "single"), (TWO, "ddp"), (("cpu", "cpu"), "split"), (("cuda:0", "cuda:0"), "split"), (("cuda:0", "cpu"), "split")],
)
def test_what_auto_takes(devices: tuple[str, ...], strategy: str) -> None:
    assert auto_takes(devices) == strategy


def test_replicas_are_added_and_taken_away_by_name() -> None:
    order = ("cuda:0", "cuda:1", "cpu")
    assert toggled((), "cuda:1", order) == ("cuda:1",)
    assert toggled(("cuda:1",), "cuda:0", order) == TWO
    assert toggled(("cuda:0", "cuda:0", "cuda:1"), "cuda:0", order) == ("cuda:1",)
    assert one_more(("cuda:0", "cuda:7"), "cuda:0", order) == ("cuda:0", "cuda:0", "cuda:7")
    assert one_less(("cuda:0", "cuda:1", "cuda:1"), "cuda:1") == TWO
    assert one_less(TWO, "cpu") == TWO


def words_beside(field: str, config: RunConfig, *cards: DeviceSample) -> Hint:
    from tuitrain.devices import choices, free_cuda_devices

    snapshot = FakeSampler(*cards).latest()
    machine = Machine(choices(snapshot), tuple(f"cuda:{ordinal}" for ordinal in free_cuda_devices(snapshot)), 64)
    return Form(config).hint(field, machine)


@pytest.mark.parametrize(
    ("spec", "text", "bad"),
    [
        ("auto:2", "takes cuda:0, cuda:1: most free memory", False),
        ("auto:5", "takes 4 GPUs; 5 are not here", False),
        ("auto:all", "takes 4 GPUs", False),
        ("cuda:1", "72 GiB free", False),
        ("cuda:3", "nobody else uses it", False),
        ("cuda:1,cuda:3", "2 GPUs, 72 GiB free", False),
        ("cuda:0,cuda:1", "2 GPUs, 72 GiB free on each", False),
        ("cuda:0,cuda:0", "2 replicas on 1 GPU, 73 GiB free", False),
        ("cpu,cpu", "2 replicas share 64 cores, 4 GPUs not used", False),
        ("cuda:0,cuda:9", "no cuda:9 is seen on this machine", True),
    ],
)
def test_the_device_row_says_what_several_mean(spec: str, text: str, bad: bool) -> None:
    config = msgspec.structs.replace(seed_cnn(), device=spec)
    assert words_beside("device", config, card(0), card(1), card(2), card(3, memory_free=None)) == Hint(text, bad=bad)


# -- a torch that can use no GPU ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_a_torch_for_the_cpu_only_is_told_as_soon_as_its_files_are_read(session: FakeSession, size: tuple[int, int]) -> None:
    read = threading.Event()
    launch, sampler = msgspec.structs.replace(seed_cnn(), device="auto:2"), FakeSampler(card(0), card(1))
    app = TuitrainApp(session, sampler, launch, Path("runs"), cpu_only=lambda: read.wait(60))
    async with app.run_test(size=size) as pilot:
        # The disk takes its time, and no key waits for it.
        await until(pilot, lambda: "Enter trains seed-cnn on cuda:0, cuda:1" in words_of(app))
        read.set()
        await until(pilot, lambda: "no run takes a GPU: torch is built for the CPU only; d explains" in words_of(app))
        assert "Enter trains seed-cnn on cpu with" in words_of(app)
        assert "takes cpu: torch is built" in words_of(app)
        assert app.main._devices.taken == ("cpu",)
        await pilot.press(*to_devices(size), "up", "up", "space")
        assert await device(pilot) == "auto:2"
        assert [one.message for one in app._notifications] == ["cuda:0: torch is built for the CPU only"]
        # What others do there is seen all the same.
        assert re.search(r"· cuda:0 H100 80GB.*(61 °C|7.0/80 GiB)", screen_text(app))


async def test_a_torch_for_the_cpu_only_is_no_news_without_a_gpu(session: FakeSession) -> None:
    app = TuitrainApp(session, cpu_sampler(), seed_cnn(), Path("runs"), cpu_only=lambda: True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: bool(app.main._devices.barred))
        assert "takes the cpu: no usable GPU is here" in screen_text(app)
        assert "torch" not in screen_text(app)


async def test_what_a_run_has_found_out_about_the_gpus_is_not_promised_again(session: FakeSession) -> None:
    app = make(session, card(0), card(1))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin(device=("cpu",))
        await until(pilot, lambda: "no run takes a GPU: torch cannot use the GPUs here; d explains" in words_of(app))
        session.end()
        await pilot.press("n")
        await until(pilot, lambda: "Enter trains seed-cnn on cpu with" in words_of(app))


@pytest.mark.parametrize(
    ("strategy", "device", "said"),
    [
        ("auto", "cpu,cpu", Hint("takes split: 2 replicas")),
        ("split", "cpu,cpu", Hint("2 replicas")),
        ("dp", "cpu,cpu", Hint("dp needs GPUs: on the CPU use split", bad=True)),
        ("split", "cpu", Hint("one replica: + adds a device")),
        ("ddp", "cpu", Hint("one replica: + adds a device")),
        ("auto", "cpu", Hint("split, dp, ddp need two devices", idle=True)),
    ],
)
def test_the_strategy_row_says_what_a_start_takes(strategy: str, device: str, said: Hint) -> None:
    assert words_beside("strategy", msgspec.structs.replace(seed_cnn(), strategy=strategy, device=device)) == said


@pytest.mark.parametrize("recipe", ["rnn", "transformer", "resnet18", "transformer-batch-first"])
def test_the_newer_models_take_images(recipe: str) -> None:
    config = load_recipe(recipe)
    assert words_beside("data", msgspec.structs.replace(config, data="random")) == Hint(f"the model {config.model} takes images", bad=True)
    assert "random" not in Form(config).options("data")
    said = words_beside("recipe", config).text
    assert ("batch axis 1" in said) == (recipe in ("rnn", "transformer"))


def test_the_batch_row_says_what_each_replica_gets() -> None:
    config = msgspec.structs.replace(seed_cnn(), device="cpu,cpu,cpu", batch_size=10, data="random", model="linear")
    assert words_beside("batch_size", config).text == "samples in one step, at most 4 for each"
    config = msgspec.structs.replace(config, batch_size=15)
    assert words_beside("batch_size", config).text.startswith("samples in one step, 5 for each")


@pytest.mark.parametrize(
    "cards", [(), (card(0),), (card(0), card(1, status="hidden", cuda_index=None, reason="hidden"), card(2, status="lost", reason="lost"))]
)
async def test_the_rows_of_a_device_are_counted_as_they_are_drawn(session: FakeSession, cards: tuple[DeviceSample, ...]) -> None:
    app = make(session, *cards)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        devices = app.main.query_one(Devices)
        draw = devices._rows()
        assert [draw.height(choice) for choice in devices.choices] == [len(draw.tall(choice, 43)) for choice in devices.choices]

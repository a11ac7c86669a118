"""The launcher through its keys: rows, hints, the panes beside it, the last launch, copying, the mouse."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import msgspec
import pexpect
import pytest
from fakes import FakeSampler, FakeSession, busy_card, card, cpu_sampler, said, screen_text, seed_cnn, settle
from kept_runs import until, until_shown, until_told
from textual.events import Paste
from textual.pilot import Pilot
from textual.widget import Widget

from tuitrain import paths, words
from tuitrain.config import RunConfig
from tuitrain.devices import DeviceSample
from tuitrain.events import Progress
from tuitrain.recipes import RECIPES, load_recipe
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.launch import last
from tuitrain.tui.launch.disk import Folder, look
from tuitrain.tui.launch.recipe_file import RecipeFile
from tuitrain.tui.launch.rows import FIELDS
from tuitrain.tui.layout import LEAST
from tuitrain.tui.widgets.devices import Devices
from tuitrain.tui.widgets.launcher import Launcher
from tuitrain.tui.widgets.strategy import Strategy

SIZES = [(80, 24), (80, 23), (120, 40), (200, 60)]
WIDE = (120, 40)
HOSTILE = "[/]深層[bold red]\x1b]52;c;eA==\x1b\\\x9b2J\u202e[@click=app.quit]x[/]"
ROWS = [field.name for field in FIELDS]


def nothing(_ending: Callable[[], bool]) -> Iterator[Progress]:
    return iter(())


def make(session: FakeSession, sampler: FakeSampler, config: RunConfig | None = None) -> TuitrainApp:
    return TuitrainApp(session, sampler, config or seed_cnn(), Path("runs"), download=nothing)


def changed(**fields: object) -> RunConfig:
    return msgspec.structs.replace(seed_cnn(), **fields)


def launcher(app: TuitrainApp) -> Launcher:
    return app.main.query_one(Launcher)


def row(app: TuitrainApp, label: str) -> str:
    """The line of a field: from its label to the frame."""
    found = re.search(rf"[│▸ ]{label}  .*", screen_text(app))
    assert found, f"no row {label}"
    return found[0].strip("│▸ ")


async def looked(pilot: Pilot[None]) -> None:
    """Wait for the threads that read and write."""
    await pilot.pause()
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def go_to(field: str) -> list[str]:
    """The keys from the first row."""
    return ["down"] * ROWS.index(field)


# -- rows and hints ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_all_rows_and_the_command_fit(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    last.keep(changed(data="cifar10", lr=0.05))
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        text = screen_text(app)
        for field in FIELDS:
            assert row(app, field.label)
        assert "Enter trains seed-cnn on cpu with the built-in synthetic data" in text
        assert "f fetches CIFAR-10, 170 MB" in text
        assert "u uses the last launch: seed-cnn · cifar10 · lr 0.05 · just now" in text
        assert "$ tuitrain run seed-cnn  y copies" in text
        assert "…" not in text.replace("looking for GPUs…", "")


@pytest.mark.parametrize("size", [(80, 24), (90, 30), (100, 30), (110, 30), (119, 24), (120, 40), (200, 60)])
@pytest.mark.parametrize(
    ("cards", "config"),
    [
        ((), seed_cnn()),
        ((), load_recipe("transformer")),
        ((), load_recipe("transformer-batch-first")),
        (tuple(card(index) for index in range(8)), load_recipe("multi-gpu")),
        (tuple(busy_card(index) for index in range(8)), changed(device="cuda:0,cuda:1", data="cifar10", batch_size=1000)),
        ((card(0), card(1)), changed(device="cpu,cpu")),
    ],
    ids=["first", "axis", "long-name", "eight-gpus", "busy", "replicas"],
)
async def test_nothing_of_the_form_is_cut_at_any_size(
    session: FakeSession, cards: tuple[DeviceSample, ...], config: RunConfig, size: tuple[int, int]
) -> None:
    app = make(session, FakeSampler(*cards) if cards else cpu_sampler(), config)
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        for _ in ROWS:
            assert "…" not in "\n".join(strip.text for strip in launcher(app)._shown)
            await pilot.press("down")


@pytest.mark.parametrize("size", [*SIZES, (100, 30)])
async def test_of_a_long_path_the_end_is_seen(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    data = f"./projects/{'older' * 9}/animals"
    for part in ("train", "test"):
        Path(data, part).mkdir(parents=True)
    last.keep(changed(data=f"{data}2", lr=0.05, seed=7))
    app = make(session, sampler, changed(data=data))
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        assert re.search(r"…?\S*/animals +a folder with train/ and test/ +│", screen_text(app))
        await pilot.press("down")
        await until(pilot, lambda: re.search(r"‹ …?\S*/animals ›", screen_text(app)) is not None)
        assert re.search(r"u uses the last launch: seed-cnn · …?\S*/animals2 .*just now", screen_text(app))


@pytest.mark.parametrize(("width", "columns"), [(119, 1), (120, 2)])
async def test_the_launcher_has_two_columns_where_both_are_wide_enough(session: FakeSession, width: int, columns: int) -> None:
    app = make(session, FakeSampler(card(0)))
    async with app.run_test(size=(width, 30)) as pilot:
        await looked(pilot)
        assert app.main.query_one(Strategy).display is (columns == 2)
        await pilot.press("enter")
        session.begin()
        await until(pilot, lambda: app.main.query_one(Strategy).display)
        assert "31.0/512 GiB" in screen_text(app)
        await pilot.press("n")
        await until(pilot, lambda: app.main.query_one(Strategy).display is (columns == 2))


async def test_a_long_command_keeps_its_place_at_the_smallest_size(session: FakeSession, sampler: FakeSampler) -> None:
    config = changed(name="n" * 30, data="/a/very/long/path/" * 8, lr=0.5, seed=3, epochs=99, max_steps=1000, batch_size=7, device="cpu")
    app = make(session, sampler, config)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        text = screen_text(app)
        assert "$ tuitrain run seed-cnn --data" in text
        assert "y copies" in text
        assert "Enter trains nnn" in text
        for field in FIELDS:
            assert row(app, field.label)
        await pilot.press("y")
        assert app.clipboard.endswith(f"--name {'n' * 30}")


async def test_the_device_row_cycles_and_the_pane_follows(session: FakeSession) -> None:
    hidden = card(2, cuda_index=None, status="hidden", reason="hidden by CUDA_VISIBLE_DEVICES=0")
    app = make(session, FakeSampler(card(0), card(1), hidden))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*go_to("device"))
        pane, seen = app.main.query_one(Devices), []
        for _ in range(4):
            await pilot.press("space")
            await pilot.pause()
            seen.append(pane.picked)
        # The card that is hidden is not among them; after the last card a device can be typed.
        assert seen == [("cpu",), ("cuda:0",), ("cuda:1",), ("cuda:1",)]
        assert launcher(app).editing
        await pilot.press(*"cuda:7")
        await pilot.pause()
        assert "! device: no cuda:7 is seen on this machine" in screen_text(app)
        await pilot.press("enter")
        assert session.started[0].device == "cuda:7"


async def test_a_recipe_for_all_devices_says_which_ones_it_takes(session: FakeSession) -> None:
    app = make(session, FakeSampler(card(0), card(1)), load_recipe("multi-gpu"))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "auto:all" in row(app, "device")
        assert "takes cuda:0, cuda:1" in row(app, "device")
        await pilot.press(*go_to("device"), "space")
        await pilot.pause()
        assert "‹ auto ›" in row(app, "device")
        assert "takes cuda:0: most free memory" in row(app, "device")


async def test_a_device_that_no_run_takes_is_refused_as_one_types(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*go_to("device"), "left", *"gpu")
        await pilot.pause()
        assert "✗ device: 'gpu' is not allowed" in screen_text(app)
        await pilot.press("enter")
        assert not session.started
        await pilot.press("left", "backspace", "backspace", "backspace", "down", "enter")
        assert session.started[0].device == "auto"


async def test_the_pane_picks_for_the_row(session: FakeSession) -> None:
    app = make(session, FakeSampler(card(0), busy_card(1)))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("shift+tab", "shift+tab", "down", "space")
        await pilot.pause()
        assert "cuda:1" in row(app, "device")
        assert "! busy: alice python 18 GiB" in row(app, "device")
        assert "--device cuda:1" in screen_text(app)


async def test_the_strategy_row_and_its_pane_say_the_same(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        assert "split, dp, ddp need two devices" in row(app, "strategy")
        await pilot.press(*go_to("strategy"), "space")
        await pilot.pause()
        assert launcher(app).form.config.strategy == "single"
        assert app.main.query_one(Strategy).picked == "single"
        app.main.query_one(Strategy).focus()
        await pilot.press("space")
        await pilot.pause()
        assert launcher(app).form.config.strategy == "auto"
        assert "Strategy ────" in screen_text(app)
        assert " auto ─┤" in screen_text(app)


@pytest.mark.parametrize(
    ("config", "label", "said"),
    [
        (changed(), "epochs", "2,000 steps, 200 in an epoch"),
        (changed(epochs=1, batch_size=12_800), "epochs", "1 step, 1 in an epoch"),
        (changed(max_steps=50), "epochs", "max steps ends the run first"),
        (changed(max_steps=2000), "max steps", "the epochs end the run at step 2,000"),
        (changed(max_steps=50), "max steps", "of 2,000 in all epochs"),
        (changed(data="cifar10"), "epochs", "7,820 steps, 782 in an epoch"),
        (changed(data="x.y:z", max_steps=5), "epochs", "or max steps, whichever comes first"),
        (changed(batch_size=20_000), "batch size", "all 12,800 samples in one step"),
        (load_recipe("random-linear"), "batch size", "samples in one step, 10 in the last"),
        (load_recipe("random-linear"), "data", "100 samples of 5 numbers"),
        (load_recipe("random-linear"), "seed", "the weights, and the random samples"),
        (msgspec.structs.replace(load_recipe("random-linear"), data="auto"), "data", "! the model linear takes random only"),
        (changed(data="random"), "data", "! the model seed-cnn takes images"),
        (load_recipe("multi-gpu"), "seed", "the weights, and the random order"),
        (load_recipe("multi-gpu"), "learning rate", "for adam"),
        (changed(deterministic=False), "seed", "losses still vary: not deterministic"),
        (changed(lr=0.5), "learning rate", "for sgd; seed-cnn has 0.01"),
        (changed(precision="bf16"), "precision", "slower on a cpu without bf16 built in"),
        (changed(precision="tf32"), "precision", "the plain way: a cpu has no TF32"),
        (changed(name="mine"), "name", "how lists call the run"),
        (changed(device="cuda:3"), "device", "! no cuda:3 is seen on this machine"),
    ],
)
async def test_hints_say_what_a_value_means_here(session: FakeSession, config: RunConfig, label: str, said: str) -> None:
    app = make(session, cpu_sampler(), config)
    async with app.run_test(size=WIDE) as pilot:
        await looked(pilot)
        assert said in row(app, label)


@pytest.mark.parametrize(
    ("strategy", "said", "not_said"),
    [
        ("split", "Enter trains seed-cnn on cpu", "cannot train"),
        ("dp", "Enter cannot train this: dp needs GPUs: on the CPU use split", "Enter trains"),
    ],
)
async def test_enter_is_not_said_to_train_what_is_refused(session: FakeSession, strategy: str, said: str, not_said: str) -> None:
    app = make(session, cpu_sampler(), changed(strategy=strategy))
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        text = screen_text(app)
        assert said in text
        assert not_said not in text


@pytest.mark.parametrize("begun", ["~", "/", "."])
async def test_what_a_path_begins_with_begins_to_type_it(session: FakeSession, sampler: FakeSampler, begun: str) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down")
        await until_shown(pilot, "/ a path  space change")
        await pilot.press(begun, *"nowhere/p")
        await until(pilot, lambda: row(app, "data").split()[1] == f"{begun}nowhere/p")
        await until_shown(pilot, "! data: there is no such folder")
        await pilot.press("escape")
        await until(pilot, lambda: "auto" in row(app, "data"))


@pytest.mark.parametrize(("downs", "pastes"), [(0, False), (5, False), (10, False), (0, True), (5, True)])
async def test_a_path_is_for_the_data_wherever_the_cursor_is(session: FakeSession, sampler: FakeSampler, downs: int, pastes: bool) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*["down"] * downs)
        if pastes:
            app.post_message(Paste("/nowhere/p"))
        else:
            await pilot.press(*"/nowhere/p")
        await until_shown(pilot, "▸data           /nowhere/p", "! data: there is no such folder")
        assert "10" in row(app, "epochs")


async def test_at_the_least_size_a_refusal_is_read_and_the_row_of_the_cursor_shows(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=LEAST) as pilot:
        await until_shown(pilot, "▸recipe", " name ")
        launcher(app).refuse(seed_cnn(), "data: " + "word " * 45 + "the end", "")
        launcher(app).redraw()
        text = await until_shown(pilot, "▸recipe", "the end")
        assert " name " not in text
        await pilot.press(*["down"] * 10)
        text = await until_shown(pilot, "▸name", "the end")
        assert " recipe " not in text
        await pilot.press("up", "up", "4")
        await until_shown(pilot, "▸seed           4", " recipe ", " name ")
        # The field lies on its row, and not where that was before.
        await until(pilot, lambda: app.focused is not None and "▸seed" in screen_text(app).splitlines()[app.focused.region.y])


@pytest.mark.parametrize(
    ("downs", "pasted", "field", "value"),
    [(1, "synthetic\n", "data", "synthetic"), (2, "cpu,cpu", "device", "cpu,cpu"), (4, " 12 ", "epochs", 12), (10, "a\nb", "name", "a b")],
)
async def test_what_is_pasted_on_a_row_is_its_value(
    session: FakeSession, sampler: FakeSampler, downs: int, pasted: str, field: str, value: object
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*["down"] * downs)
        app.post_message(Paste(pasted))
        await until(pilot, lambda: launcher(app).editing)
        await pilot.press("enter")
        await until(pilot, lambda: len(session.started) == 1)
        assert getattr(session.started[0], field) == value


async def test_nothing_is_pasted_on_a_row_of_choices(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        before = await until_shown(pilot, "recipe")
        app.post_message(Paste("rnn"))
        await pilot.press("up")
        assert not launcher(app).editing
        assert screen_text(app) == before


async def test_a_folder_is_looked_into_as_one_types(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    for name in ("ab/train", "ab/test"):
        (tmp_path / name).mkdir(parents=True)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "left", *"./a")
        await until(pilot, lambda: "! data: there is no such folder" in screen_text(app))
        await pilot.press("b")
        await until(pilot, lambda: "│ data: a folder with train/ and test/" in screen_text(app))
        await pilot.press("down")
        await until(pilot, lambda: "a folder with train/ and test/" in row(app, "data"))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("field", "config", "wanted"),
    [
        ("data", changed(data="synthetic"), "auto, cifar10, synthetic or a path (folder, .npz)"),
        ("data", load_recipe("random-linear"), "random or a path (folder, .npz)"),
        ("device", changed(device="cpu"), "auto, auto:2, cpu, cuda:0, or several with commas"),
    ],
)
async def test_an_empty_field_says_what_goes_there_and_that_it_changes_nothing(
    session: FakeSession, sampler: FakeSampler, field: str, config: RunConfig, wanted: str, size: tuple[int, int]
) -> None:
    app, before = make(session, sampler, config), getattr(config, field)
    stays = f"{field}: stays {before} as long as nothing is typed"
    async with app.run_test(size=size) as pilot:
        await pilot.press(*go_to(field), "space")
        await until_shown(pilot, f"▸{field}", wanted, stays)
        await pilot.press("/")
        await until(pilot, lambda: wanted not in screen_text(app) and stays not in screen_text(app))
        await pilot.press("backspace")
        await until_shown(pilot, wanted, stays)
        assert f"Enter trains {config.recipe} on cpu with" in screen_text(app)
        await pilot.press("enter")
        assert [getattr(one, field) for one in session.started] == [before]


async def test_while_a_field_is_edited_the_footer_says_what_enter_does(session: FakeSession, sampler: FakeSampler) -> None:
    def footer() -> str:
        return " ".join(screen_text(app).splitlines()[-1].split())

    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*go_to("epochs"), "3")
        await until(pilot, lambda: footer() == "Enter Start Esc Undo")
        await pilot.press("x")
        await until(pilot, lambda: footer() == "Enter Keep Esc Undo")
        await pilot.press("enter")
        assert not session.started
        assert "3x" in row(app, "epochs")
        await pilot.press("space", "backspace")
        await until(pilot, lambda: footer() == "Enter Start Esc Undo")
        await pilot.press("enter")
        assert [config.epochs for config in session.started] == [3]
        session.begin()
        await until(pilot, lambda: app.main.view == "run")
        await pilot.press("n", "4")
        await until(pilot, lambda: footer() == "Enter Start in background Esc Undo")


@pytest.mark.parametrize(
    ("data", "said", "bad"),
    [
        ("good", "a folder with train/ and test/", False),
        ("validation", "a folder with train/ and val/", False),
        ("half", "train/ alone: a fifth is held out", False),
        ("classes", "2 classes: a fifth is held out", False),
        ("capitals", "a folder with Training/ and Val/", False),
        ("tested", "this folder has no train/ in it", True),
        ("none", "there is no such folder", True),
        ("none.npz", "there is no such file", True),
        ("https://host/pets.zip", "an address: fetch it first", True),
        ("file", "this is no folder and no .npz file", True),
        ("cifar", "a folder with CIFAR-10 batches", False),
        ("pkg.mod:make", "Python code makes it", False),
        ("~nobody/x", "there is no such folder", True),
        ("n" * 5000, "this folder cannot be read", True),
    ],
)
def test_what_is_behind_the_data(tmp_path: Path, data: str, said: str, bad: bool) -> None:
    for name in (
        "good/train",
        "good/test",
        "half/train",
        "classes/cat",
        "classes/dog",
        "capitals/Training",
        "capitals/Val",
        "tested/val",
        "validation/train",
        "validation/validation",
        "validation/val",
        "cifar/cifar-10-batches-py",
    ):
        (tmp_path / name).mkdir(parents=True)
    for name in ("file", "cifar/cifar-10-batches-py/data_batch_1", "classes/cat/1.jpg", "classes/dog/1.png"):
        (tmp_path / name).touch()
    assert look(data).folder == Folder(data, said, bad)


@pytest.mark.parametrize(
    ("holds", "said", "bad"),
    [
        ("x_train y_train x_test y_test", "arrays x_train and x_test", False),
        ("images labels", "images: a fifth is held out", False),
        ("a b", "it has no arrays x_train and y_train", True),
        (None, "this is no file of arrays", True),
    ],
)
def test_what_is_in_a_file_of_arrays(tmp_path: Path, holds: str | None, said: str, bad: bool) -> None:
    file = tmp_path / "d.npz"
    file.touch()
    if holds is not None:
        with ZipFile(file, "w") as archive:
            for name in holds.split():
                archive.writestr(f"{name}.npy", "")
    assert look(str(file)).folder == Folder(str(file), said, bad)


async def test_data_that_the_model_cannot_take_is_not_offered(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler, load_recipe("random-linear"))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("down", "space")
        await pilot.pause()
        assert launcher(app).editing
        await pilot.press("escape", "f")
        await pilot.pause()
        assert "f fetches" not in screen_text(app)


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("epochs", "0", "a whole number of 1 or more"),
        ("max_steps", "0", "a whole number of 1 or more"),
        ("batch_size", "0", "a whole number of 1 or more"),
        ("lr", "0", "a number above 0"),
        ("seed", "99999999999", "a whole number from 0 to 4294967295"),
    ],
)
async def test_a_wrong_number_says_so_beside_its_row_as_one_types(
    session: FakeSession, sampler: FakeSampler, field: str, typed: str, said: str
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*go_to(field), "k")
        assert not launcher(app).editing, "a letter is no number"
        await pilot.press(*typed)
        await pilot.pause()
        assert f"✗ {said}" in screen_text(app)
        await pilot.press("enter")
        assert not session.started


async def test_of_several_wrong_fields_the_one_under_the_cursor_is_told_first(session: FakeSession, sampler: FakeSampler) -> None:
    """There is no room for the sentences of all."""
    app = make(session, sampler)
    wrong = {"epochs": "0", "batch_size": "0", "lr": "0", "seed": "-1", "device": "tpu"}
    async with app.run_test(size=(80, 24)) as pilot:
        for field, text in wrong.items():
            assert not launcher(app).form.set_text(field, text)
        await pilot.press(*go_to("device"))
        assert "see the sentence below" in row(app, "device")
        await until(pilot, lambda: "or one or several of cpu, cuda, cuda:N and cuda:N-M with commas." in said(app))


async def test_hostile_names_and_paths_stay_text(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    (tmp_path / "[red]深[/]" / "train").mkdir(parents=True)
    app = make(session, sampler, changed(name="[/]深層[bold]x[/bold]", data="./[red]深[/]"))
    for size in SIZES:
        async with app.run_test(size=size) as pilot:
            await looked(pilot)
            text = screen_text(app)
            assert "[/]深層[bold]x[/bold]" in text
            assert "train/ alone: a fifth is held out" in text
            assert {len(re.sub("[深層]", "xx", line)) for line in text.splitlines()} == {size[0]}
        app = make(session, sampler, changed(name="[/]深層[bold]x[/bold]", data="./[red]深[/]"))


# -- the last launch --------------------------------------------------------------------------------------------------


async def test_the_last_launch_is_kept_as_it_was_asked_for_and_offered_again(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler, changed(lr=0.05, seed=7))
    async with app.run_test(size=WIDE) as pilot:
        await looked(pilot)
        assert "last launch" not in screen_text(app)
        await pilot.press("enter")
        session.begin()
        await looked(pilot)
    kept = last.read()
    assert kept is not None
    assert kept.config == changed(lr=0.05, seed=7)
    assert [path.name for path in paths.last_launch().parent.iterdir()] == ["last-launch.toml"]

    app = make(FakeSession(), sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        assert "u uses the last launch: seed-cnn · auto · lr 0.05 · seed 7 · just now" in screen_text(app)
        await pilot.press("u")
        await pilot.pause()
        assert "tuitrain run seed-cnn --lr 0.05 --seed 7" in screen_text(app)
        assert "uses the last launch" not in screen_text(app)
        await pilot.press("down", "down", "down", "down", "3")
        await pilot.pause()
        assert "uses the last launch" in screen_text(app)


@pytest.mark.parametrize(
    ("cards", "config", "taken", "told"),
    [
        ((card(0), card(1)), changed(), "cpu", True),
        ((card(0), card(1)), changed(), "cuda:1", False),
        ((card(0), card(1)), changed(device="cpu"), "cpu", False),
        ((), changed(), "cpu", False),
    ],
)
async def test_a_run_on_the_cpu_where_a_gpu_was_promised_is_said(
    session: FakeSession, cards: tuple[DeviceSample, ...], config: RunConfig, taken: str, told: bool
) -> None:
    app = make(session, FakeSampler(*cards), config)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("enter")
        session.begin(device=(taken,))
        await looked(pilot)
        said = "It trains on the CPU: torch cannot use the GPUs of this machine. d says why."
        assert [one.message for one in app._notifications] == [said] * told


async def test_a_start_that_is_refused_again_says_why_again_and_is_no_last_launch(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler, changed(data="/nowhere"))
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        for times in (1, 2, 3):
            await pilot.press("enter")
            session.refuse(f"data: there is nothing, {times}")
            await looked(pilot)
            assert f"there is nothing, {times}" in screen_text(app)
            assert app.main.view == "launch"
    assert last.read() is None


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"lr = [", b"lr = -1", b"recipe = 'gone'", b"unknown = 1", None])
async def test_a_damaged_last_launch_is_no_error(session: FakeSession, sampler: FakeSampler, content: bytes | None) -> None:
    path = paths.last_launch()
    path.parent.mkdir(parents=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    app = make(session, sampler, changed(lr=0.3))
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("u", "enter")
        session.begin()
        await looked(pilot)
        assert len(session.started) == 1
    assert content is None or last.read() is not None


async def test_a_hostile_last_launch_is_only_words(session: FakeSession, sampler: FakeSampler) -> None:
    last.keep(changed(name="[red]深 x[/]", data="/[bold]dir"))
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        assert "uses the last launch: [red]深 x[/] · /[bold]dir" in screen_text(app)


def test_the_last_launch_in_words() -> None:
    told = last.LastLaunch(changed(lr=0.05, data="cifar10", device="cuda:1", max_steps=9, name="mine"), time.time() - 3 * 3600)
    assert last.describe(told, 80) == "mine · cifar10 · cuda:1 · max steps 9 · lr 0.05 · 3 h ago"
    assert last.describe(told, 40) == "mine · cifar10 · 3 more · 3 h ago"
    further = last.LastLaunch(changed(shuffle=True, lr_schedule="cosine", target_accuracy=0.9), time.time())
    assert last.describe(further, 90) == "seed-cnn · auto · lr schedule cosine · shuffle true · target accuracy 0.9 · just now"
    seconds = (-5, 59, 61, 7200, 86400 * 2.5)
    assert [words.ago(second) for second in seconds] == ["just now", "just now", "1 min ago", "2 h ago", "2 d ago"]


# -- copying ----------------------------------------------------------------------------------------------------------


async def test_y_says_copied_and_hands_the_line_to_the_terminal(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(session, sampler, changed(name="it's 深"))
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        written: list[str] = []
        monkeypatch.setattr(app._driver, "write", written.append)
        await pilot.press("y")
        await looked(pilot)
        line = "tuitrain run seed-cnn --name 'it'\"'\"'s 深'"
        assert f"\x1b]52;c;{base64.b64encode(line.encode()).decode()}\a" in "".join(written)
        await until(pilot, lambda: re.search(r"\bcopied\b", screen_text(app)) is not None)


def _program(tmp_path: Path) -> tuple[list[str], dict[str, str]]:
    env = {name: str(tmp_path / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "TUITRAIN_RUNS", "HOME")}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    return [sys.executable, "-m", "tuitrain"], env


def test_the_escape_reaches_a_real_terminal(tmp_path: Path) -> None:
    argv, env = _program(tmp_path)
    child = pexpect.spawn(argv[0], argv[1:], dimensions=(24, 80), env={**os.environ, **env, "TERM": "xterm-256color"}, timeout=30)
    try:
        child.expect("copies")
        child.send("y")
        child.expect_exact(f"\x1b]52;c;{base64.b64encode(b'tuitrain run seed-cnn').decode()}\a")
    finally:
        child.close(force=True)


@pytest.mark.tmux
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is missing: it is a Debian package")
@pytest.mark.parametrize("set_clipboard", ["external", "on"])
def test_copying_goes_through_tmux_to_the_terminal_around_it(tmp_path: Path, set_clipboard: str) -> None:
    argv, env = _program(tmp_path)
    full = {**os.environ, **env, "TERM": "xterm-256color"}
    full.pop("TMUX", None)
    tmux = ["tmux", "-S", str(tmp_path / "tmux.sock"), "-f", "/dev/null"]
    settings = ["set", "-g", "set-clipboard", set_clipboard]
    around = pexpect.spawn(tmux[0], [*tmux[1:], "new-session", " ".join(argv), ";", *settings], dimensions=(30, 90), env=full, timeout=30)
    try:
        around.expect("copies")
        around.send("y")
        around.expect(f"\x1b]52;c?;{base64.b64encode(b'tuitrain run seed-cnn').decode()}")
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
        around.close(force=True)


# -- the mouse --------------------------------------------------------------------------------------------------------


async def click(pilot: Pilot[None], widget: type[Widget], line: int, column: int = 4) -> None:
    assert await pilot.click(widget, offset=(column, line))
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
async def test_a_click_selects_a_row_and_a_second_one_changes_it(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        pane = launcher(app)
        strategy, lr = (1 + pane.line_of(ROWS.index(name)) for name in ("strategy", "lr"))
        await click(pilot, Launcher, strategy)
        assert ROWS[pane.cursor] == "strategy"
        assert pane.form.config.strategy == "auto"
        await click(pilot, Launcher, strategy)
        assert pane.form.config.strategy == "single"
        await click(pilot, Launcher, lr)
        assert not pane.editing
        await click(pilot, Launcher, lr)
        assert pane.editing
        await pilot.press("5")
        await click(pilot, Launcher, strategy)
        assert not pane.editing
        assert pane.form.config.lr == 0.015
        # Not on a row: nothing.
        await click(pilot, Launcher, 0)
        assert ROWS[pane.cursor] == "strategy"
        # Nor where the keys went elsewhere since the first click.
        app.screen.set_focus(None)
        await click(pilot, Launcher, strategy)
        assert pane.form.config.strategy == "single"


@pytest.mark.parametrize("size", SIZES)
async def test_a_click_on_the_arrow_before_a_choice_takes_the_one_before(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int]
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        pane = launcher(app)
        line = 1 + pane.line_of(ROWS.index("recipe"))
        await click(pilot, Launcher, line)
        before, after = ("".join(segment.text for segment in pane.render_line(line)).index(arrow) for arrow in "‹›")
        await click(pilot, Launcher, line, after)
        assert pane.form.config.recipe == RECIPES[1]
        for recipe in (RECIPES[0], RECIPES[-1]):
            await click(pilot, Launcher, line, before)
            assert pane.form.config.recipe == recipe
        epochs = 1 + pane.line_of(ROWS.index("epochs"))
        for _ in range(2):
            await click(pilot, Launcher, epochs, before)
        assert pane.editing


@pytest.mark.parametrize("size", SIZES)
async def test_a_click_on_a_device_picks_it(session: FakeSession, size: tuple[int, int]) -> None:
    app = make(session, FakeSampler(card(0), card(1)))
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        pane = app.main.query_one(Devices)
        line = next(index for index, strip in enumerate(pane._shown) if "cuda:0" in strip.text)
        await click(pilot, Devices, line)
        assert launcher(app).form.config.device == "cuda:0"
        await click(pilot, Devices, 0)
        assert launcher(app).form.config.device == "cuda:0"
        await pilot.press("enter")
        session.begin()
        await settle(pilot)
        await click(pilot, Devices, line)
        assert launcher(app).form.config.device == "cuda:0"


@pytest.mark.parametrize("size", SIZES)
async def test_a_long_text_is_edited_where_it_ends(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    data = f"/very/long/path/{'deep/' * 40}images"
    app = make(session, sampler, msgspec.structs.replace(seed_cnn(), data=data))
    async with app.run_test(size=size) as pilot:
        await pilot.press("down", "space")
        # Nothing of the row stands beside the field.
        await until(pilot, lambda: any(line.endswith("deep/images  │") and "▸data" in line for line in screen_text(app).splitlines()))
        await pilot.press("home")
        await until_shown(pilot, "▸data           /very/long")


async def test_sentences_without_room_end_with_a_sign(session: FakeSession, sampler: FakeSampler) -> None:
    config = msgspec.structs.replace(seed_cnn(), name="so long a name " * 12, data=f"/very/long/path/{'deep/' * 15}images")
    app = make(session, sampler, config)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        lines = screen_text(app).splitlines()
        command = next(index for index, line in enumerate(lines) if "$ tuitrain" in line)
        assert "images" not in said(app).partition("Enter trains")[2].partition("$ tuitrain")[0]
        assert lines[command - 1].endswith(" … │")


async def test_a_recipe_that_was_edited_since_it_was_read_is_named_once(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    path = tmp_path / "mine\x1b.toml"
    path.write_text("epochs = 2\n")
    app = TuitrainApp(session, sampler, seed_cnn(), tmp_path / "runs", start_at_once=True, recipe_file=RecipeFile(path))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: len(session.started) == 1)
        session.end()
        path.write_text("epochs = 33\n")
        await pilot.press("n", "enter")
        await until_told(pilot, "mine·.toml was edited since tuitrain read it: this run has what the launcher shows.")
        session.end()
        app.clear_notifications()
        await pilot.press("n", "enter")
        await until(pilot, lambda: len(session.started) == 3)
        path.unlink()
        session.end()
        await pilot.press("n", "enter")
        await until(pilot, lambda: len(session.started) == 4)
        assert not [toast for toast in app._notifications if "edited" in toast.message]

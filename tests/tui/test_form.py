from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from fakes import seed_cnn

from tuitrain.devices.doctor import terminal
from tuitrain.recipes import load_recipe
from tuitrain.tui.launch.form import TYPED, TYPED_PATH, Form
from tuitrain.tui.launch.rows import FIELDS
from tuitrain.tui.layout import LEAST, arrange, fits


def test_a_wrong_text_stays_as_a_draft_beside_its_error() -> None:
    form = Form(seed_cnn())
    assert not form.set_text("epochs", "many")
    assert form.text("epochs") == "many"
    assert "whole number" in form.errors["epochs"]
    assert form.config.epochs == 10
    assert not form.ready
    assert form.set_text("epochs", "3")
    assert form.ready
    assert form.config.epochs == 3
    assert not form.errors


@pytest.mark.parametrize(("field", "text"), [("lr", "-1"), ("lr", "nan"), ("batch_size", "0"), ("seed", "-3"), ("max_steps", "0")])
def test_values_that_no_run_allows_are_refused(field: str, text: str) -> None:
    form = Form(seed_cnn())
    assert not form.set_text(field, text)
    assert field in form.errors


def test_another_recipe_brings_its_values_and_keeps_the_device_and_the_name() -> None:
    form = Form(msgspec.structs.replace(seed_cnn(), device="cpu", name="mine"))
    form.set_text("lr", "x")
    form.set_text("recipe", "random-linear")
    assert form.config == msgspec.structs.replace(load_recipe("random-linear"), device="cpu", name="mine")
    assert form.ready


def test_data_that_a_person_chose_stays_with_each_recipe_that_brings_none() -> None:
    form = Form(seed_cnn())
    form.set_text("data", "/some/folder")
    form.set_text("recipe", "resnet18")
    assert form.config == msgspec.structs.replace(load_recipe("resnet18"), data="/some/folder")
    form.set_text("recipe", "random-linear")
    assert form.config == load_recipe("random-linear")
    form.set_text("recipe", "rnn")
    assert form.config == msgspec.structs.replace(load_recipe("rnn"), data="/some/folder")
    form.set_text("data", "auto")
    form.set_text("recipe", "seed-cnn")
    assert form.config == seed_cnn()


def test_passing_a_recipe_for_all_gpus_does_not_take_them_for_the_next_one() -> None:
    form = Form(seed_cnn())
    form.set_text("recipe", "multi-gpu")
    assert form.config.device == "auto:all"
    form.set_text("recipe", "rnn")
    assert form.config == load_recipe("rnn")
    form.set_text("recipe", "multi-gpu")
    form.set_text("device", "cpu")
    form.set_text("recipe", "rnn")
    assert form.config.device == "cpu"


def test_choices_go_round() -> None:
    form = Form(seed_cnn())
    assert form.cycle("recipe", 1) == "multi-gpu"
    assert form.cycle("recipe", -1) == "speedrun-94"
    assert form.cycle("precision", 1) == "bf16"
    assert form.options("data")[-1] == TYPED_PATH
    assert form.options("epochs") == ()


def test_a_folder_of_the_person_is_among_the_choices() -> None:
    form = Form(msgspec.structs.replace(seed_cnn(), data="/some/folder"))
    assert "/some/folder" in form.options("data")


def test_a_recipe_of_the_persons_own_can_be_gone_back_to() -> None:
    own = msgspec.structs.replace(seed_cnn(), recipe="custom", lr=0.5)
    form = Form(own)
    form.set_text("recipe", "seed-cnn")
    assert form.config.lr == 0.01
    form.set_text("recipe", "custom")
    assert form.config.lr == 0.5


def test_a_model_of_the_persons_own_can_be_gone_back_to() -> None:
    own = msgspec.structs.replace(load_recipe("seed-cnn"), model="nets:make_model", data="nets:make_data", epochs=3)
    form = Form(own)
    form.set_text("recipe", form.cycle("recipe", 1))
    assert form.config.model != own.model
    form.set_text("recipe", form.cycle("recipe", -1))
    assert form.config == own


def test_a_model_of_the_persons_own_is_not_said_to_be_the_recipes() -> None:
    recipe = load_recipe("random-linear")
    assert "one linear layer" in Form(recipe).summary()
    assert Form(msgspec.structs.replace(recipe, model="nets:make_model")).summary() == "random-linear with a model of your own"


def test_a_refusal_stands_beside_the_field_that_it_names() -> None:
    form = Form(seed_cnn())
    form.refuse("data: there is no folder '/x'.")
    assert form.errors == {"data": "there is no folder '/x'."}
    form.accept()
    form.refuse("torch cannot be imported.")
    assert form.errors == {"": "torch cannot be imported."}
    assert form.ready


def test_the_data_words_say_what_auto_takes(tmp_path: Path) -> None:
    assert "synthetic" in Form(seed_cnn()).data_words()
    folder = tmp_path / "data" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    # Half of a data set is none.
    assert "synthetic" in Form(seed_cnn()).data_words()
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (folder / name).touch()
    assert Form(seed_cnn()).data_words() == "CIFAR-10, from disk"


def test_only_data_that_the_model_takes_is_offered() -> None:
    assert Form(seed_cnn()).options("data") == ("auto", "cifar10", "synthetic", TYPED_PATH)
    assert Form(load_recipe("random-linear")).options("data") == ("random", TYPED_PATH)
    own = msgspec.structs.replace(seed_cnn(), model="my.nets:make")
    assert Form(own).options("data") == ("auto", "cifar10", "synthetic", "random", TYPED_PATH)
    odd = msgspec.structs.replace(seed_cnn(), data="random")
    assert Form(odd).options("data") == ("auto", "cifar10", "synthetic", "random", TYPED_PATH)


def test_devices_are_offered_and_can_be_typed() -> None:
    form = Form(msgspec.structs.replace(seed_cnn(), device="cuda:5"))
    form.devices = ("cpu", "cuda:0")
    assert form.options("device") == ("cuda:5", "auto", "cpu", "cuda:0", TYPED)
    form.set_text("device", "cuda:")
    assert form.text("device") == "cuda:"
    assert "device" in form.errors
    form.take(seed_cnn())
    assert form.ready
    assert not form.errors


@pytest.mark.parametrize("size", [(80, 24), (80, 23), (80, 50), (99, 30), (100, 24), (120, 40), (200, 60), (400, 24)])
@pytest.mark.parametrize("view", ["launch", "run"])
@pytest.mark.parametrize("devices", [1, 3, 8, 20])
@pytest.mark.parametrize("replicas", [1, 8, 64])
@pytest.mark.parametrize("notes", [0, 3])
def test_the_panes_fill_their_columns_exactly(size: tuple[int, int], view: str, devices: int, replicas: int, notes: int) -> None:
    width, height = size[0], size[1] - 2
    sizes = arrange(
        width,
        height,
        view,  # type: ignore[arg-type]
        devices_full=4 * devices,
        devices_tall=3 * devices,
        devices=devices,
        replicas=replicas,
        notes=notes,
    )
    left = sizes.devices + sizes.strategy + sizes.log
    right = sizes.launcher + sizes.progress + sizes.curve + sizes.replicas
    if sizes.left:
        assert (left, right) == (height, height)
    else:
        assert left + right == height
    if view == "run":
        assert sizes.curve >= 8 + 1
        assert sizes.progress == 3 + notes
        assert sizes.replicas >= 3
    else:
        assert sizes.launcher >= len(FIELDS) + 5


@pytest.mark.parametrize("devices", [1, 20])
@pytest.mark.parametrize(("replicas", "notes"), [(1, 0), (64, 3)])
def test_at_the_least_size_every_field_and_a_curve_are_left(devices: int, replicas: int, notes: int) -> None:
    height = LEAST[1] - 2
    tall = {"devices_full": 4 * devices, "devices_tall": 3 * devices, "devices": devices, "replicas": replicas, "notes": notes}
    launch = arrange(LEAST[0], height, "launch", **tall)
    assert launch.devices + launch.launcher == height
    assert launch.launcher >= len(FIELDS) + 3  # its rules, and what is wrong or what Enter will do
    run = arrange(LEAST[0], height, "run", **tall)
    assert run.devices + run.progress + run.curve + run.replicas == height
    assert run.curve >= 6


def test_larger_terminals_give_the_curve_and_the_log_more() -> None:
    small, large = (
        arrange(w, h - 2, "run", devices_full=5, devices_tall=4, devices=2, replicas=1, notes=0) for w, h in ((120, 40), (200, 60))
    )
    assert large.curve - small.curve == 20
    assert large.log > small.log


def test_devices_have_their_bars_in_one_column_where_the_form_keeps_its_room() -> None:
    rows = [
        arrange(width, height, "launch", devices_full=10, devices_tall=7, devices=3, replicas=1, notes=0).devices
        for width, height in ((80, 22), (119, 30), (119, 31), (119, 34))
    ]
    assert rows == [3, 4, 8, 11]


def test_the_least_size() -> None:
    """tmux takes a line of 80×24, and half of a wide terminal has fewer columns; what the doctor says of a terminal is the same."""
    assert LEAST == (terminal.LEAST_COLUMNS, terminal.LEAST_ROWS)
    assert fits(72, 20)
    assert not fits(71, 20)
    assert not fits(72, 19)

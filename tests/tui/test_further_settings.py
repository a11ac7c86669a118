"""The launcher's further rows: the optimizer, its schedule, the order of the samples, what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FakeSampler, FakeSession, said, screen_text, seed_cnn
from kept_runs import resize, until, until_shown
from test_launcher import SIZES, WIDE, changed, launcher, looked, make, row
from textual import events
from textual.pilot import Pilot

from tuitrain.config import MODELS
from tuitrain.tui.launch.form import TYPED, Form
from tuitrain.tui.launch.hints import Machine
from tuitrain.tui.launch.rows import FIELDS, FURTHER

ALL = [field.name for field in (*FIELDS, *FURTHER)]


async def go_to(pilot: Pilot[None], field: str) -> None:
    """The cursor on a row, by its keys."""
    by = ALL.index(field) - launcher(pilot.app).cursor  # type: ignore[arg-type]
    await pilot.press(*["down" if by > 0 else "up"] * abs(by))
    await pilot.pause()


@pytest.mark.parametrize(("size", "seen"), [((80, 24), "12–22"), ((80, 23), "12–22"), ((120, 40), "4–33"), ((200, 60), "")])
async def test_m_shows_further_rows_and_puts_them_away(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int], seen: str
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        assert "m Settings" in screen_text(app).splitlines()[-1]
        assert "of 33" not in screen_text(app)
        await pilot.press("m")
        await pilot.pause()
        assert row(app, "network").startswith("network        ‹ seed-cnn ›")
        assert f"{seen} of 33" in screen_text(app) if seen else "of 33" not in screen_text(app)
        for index, field in enumerate((*FIELDS, *FURTHER)):
            await go_to(pilot, field.name)
            assert row(app, field.label)
            assert "…" not in "\n".join(strip.text for strip in launcher(app)._shown), field
            line = launcher(app).line_of(index)
            assert line is not None
            assert launcher(app)._shown[line + 1].text.startswith(f"│ ▸{field.label} ")
        assert "Enter trains seed-cnn on cpu" in said(app)
        assert "$ tuitrain run seed-cnn" in screen_text(app)
        await pilot.press("m")
        await pilot.pause()
        assert "momentum" not in screen_text(app).replace("momentum 0.9", "")
        assert row(app, "recipe").startswith("recipe         ‹ seed-cnn ›")


async def test_what_further_rows_hold_is_trained(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        for field, keys in {
            "optimizer": ("right", "right"),
            "weight_decay": (".", "0", "5", "tab"),
            "max_grad_norm": ("1", "down"),
            "lr_schedule": ("space",),
            "warmup_steps": ("5", "0", "up"),
            "shuffle": ("right",),
            "augment": ("right",),
            "label_smoothing": ("0", ".", "1", "down"),
            "target_accuracy": ("space", *"0.9", "down"),
            "compile": ("space",),
            "deterministic": ("space",),
            "checkpoint_every_minutes": ("5", "up"),
            "keep_checkpoints": ("9", "up"),
            "note": ("space", *"none", "up"),
        }.items():
            await go_to(pilot, field)
            await pilot.press(*keys)
        await go_to(pilot, "on_end")
        await pilot.press("space", *"echo m", "enter")
        await pilot.pause()
        assert session.started == [
            changed(
                **{"optimizer": "adamw", "weight_decay": 0.05, "max_grad_norm": 1.0, "lr_schedule": "cosine", "warmup_steps": 50},
                **{"shuffle": True, "augment": "crop-flip"},
                **{"label_smoothing": 0.1, "target_accuracy": 0.9, "compile": True, "deterministic": False},
                **{"checkpoint_every_minutes": 5.0, "keep_checkpoints": 9, "note": "none", "on_end": "echo m"},
            )
        ]


async def test_a_field_is_edited_where_its_row_is_and_none_moves_under_it(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        await go_to(pilot, "dropout")
        before = launcher(app).line_of(ALL.index("dropout"))
        await pilot.press(*"0.5x")
        await until(pilot, lambda: "dropout: '0.5x' is not allowed" in said(app))
        assert launcher(app).line_of(ALL.index("dropout")) == before
        await until(pilot, lambda: "0.5x" in row(app, "dropout"))
        await resize(pilot, 120, 40)
        await until(pilot, lambda: "0.5x" in row(app, "dropout"))
        await resize(pilot, 80, 24)
        await pilot.press("escape")
        await pilot.pause()
        assert "0.1" in row(app, "dropout")


async def test_pages_and_ends_are_a_key_away(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        for key, field, seen in (
            ("pagedown", "augment", "12–22"),
            ("pagedown", "note", "22–32"),
            ("home", "recipe", "1–11"),
            ("pagedown", "name", "1–11"),
            ("end", "on_end", "23–33"),
            ("pageup", "loss", "23–33"),
            ("up", "augment", "22–32"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert (launcher(app).field, f"{seen} of 33" in screen_text(app)) == (field, True), key
        # In a field they belong to its text.
        await go_to(pilot, "note")
        await pilot.press("space", *"bc", "home", "a", "end", "d", "down")
        assert launcher(app).form.config.note == "abcd"


async def test_the_path_of_a_file_of_weights_is_typed_on_its_row(
    session: FakeSession, sampler: FakeSampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "best.pt").touch()
    monkeypatch.chdir(tmp_path)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        await go_to(pilot, "weights")
        assert "none: as the seed draws them" in row(app, "weights")
        assert "/ a path" in screen_text(app)
        await pilot.press(*"./w/b")
        await until_shown(pilot, "./w/best.pt", "Tab completes it")
        await pilot.press("tab")
        await until(pilot, lambda: launcher(app).form.config.weights == "./w/best.pt")
        await pilot.press("up")
        await pilot.pause()
        assert row(app, "weights") == "weights        ./w/best.pt      what of the file fits the model"
        assert "--set weights=./w/best.pt" in said(app)
        await go_to(pilot, "weights")
        app.post_message(events.Paste("/mnt/other.pt"))
        await until(pilot, lambda: launcher(app).form.config.weights == "/mnt/other.pt")
        await pilot.press(*["backspace"] * len("/mnt/other.pt"), "enter")
        await pilot.pause()
        assert session.started == [seed_cnn()]


async def test_what_is_not_allowed_is_forgotten_with_its_row(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        await go_to(pilot, "keep_checkpoints")
        await pilot.press("1", "up")
        await pilot.pause()
        assert "✗ keep_checkpoints: '1' is not allowed; it must be a whole number of 2 or more." in said(app)
        await pilot.press("m")
        await pilot.pause()
        assert "✗" not in screen_text(app)
        await pilot.press("enter")
        assert session.started == [seed_cnn()]


@pytest.mark.parametrize("further", [True, False])
async def test_a_refusal_stands_beside_a_row_that_shows(session: FakeSession, sampler: FakeSampler, further: bool) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await looked(pilot)
        if further:
            await pilot.press("m")
        launcher(app).refuse(seed_cnn(), "augment: crop-flip is for images.", "")
        launcher(app).redraw()
        await pilot.pause()
        assert "✗ augment: crop-flip is for images." in said(app)
        if further:
            assert "✗ crop-flip is for images" in row(app, "augment")


@pytest.mark.parametrize("size", SIZES)
async def test_rows_are_clicked_where_they_are(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await looked(pilot)
        await pilot.press("m")
        await go_to(pilot, "augment")
        for _ in range(2):
            line = next(y for y, strip in enumerate(launcher(app)._shown) if "│  shuffle " in strip.text or "│ ▸shuffle " in strip.text)
            assert await pilot.click(launcher(app), offset=(5, line))
            await pilot.pause()
        assert row(app, "shuffle").startswith("shuffle        ‹ true ›")


async def test_m_works_from_the_list_of_devices_and_is_a_letter_in_a_field(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await looked(pilot)
        await pilot.press("shift+tab")
        assert not launcher(app).has_focus
        await pilot.press("m")
        await pilot.pause()
        assert launcher(app).has_focus
        assert row(app, "network").startswith("network        ‹ seed-cnn ›")
        await go_to(pilot, "name")
        await pilot.press("space", *"mm", "down")
        await pilot.pause()
        assert row(app, "name").startswith("name           mm ")
        assert row(app, "momentum")


async def test_help_tells_of_further_settings(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        assert "the last launch, more settings" in screen_text(app)


def test_another_size_of_images_goes_with_their_folder() -> None:
    form = Form(changed(model="resnet18"))
    assert form.hint("image_size", None).idle  # type: ignore[arg-type]
    assert not form.set_text("image_size", "64")
    assert form.errors["image_size"].startswith("64 is for a folder of images, and data is auto")
    form.drop_draft("image_size")
    assert form.set_text("data", "~/pets")
    assert form.set_text("image_size", "64")
    assert form.hint("image_size", None).text == "pixels in height and width"  # type: ignore[arg-type]
    assert form.set_text("data", "synthetic")
    assert (form.config.data, form.config.image_size) == ("synthetic", 32)


def test_what_only_sgd_has_goes_and_comes_back_with_it() -> None:
    form = Form(changed(momentum=0.9, nesterov=True))
    assert form.set_text("optimizer", "adam")
    assert (form.config.momentum, form.config.nesterov) == (0.0, False)
    assert form.hint("momentum", None).idle  # type: ignore[arg-type]
    assert form.set_text("optimizer", "adamw")
    assert form.set_text("optimizer", "sgd")
    assert (form.config.momentum, form.config.nesterov) == (0.9, True)
    assert form.set_text("optimizer", "adam")
    assert form.set_text("recipe", "random-linear")
    assert form.set_text("optimizer", "adam")
    assert form.set_text("optimizer", "sgd")
    assert form.config.momentum == 0.0


def test_another_network_is_chosen_and_one_of_ones_own_typed() -> None:
    form = Form(changed())
    assert form.options("model") == (*MODELS, TYPED)
    for model in MODELS:
        assert form.set_text("model", model)
        assert form.hint("model", None).text not in ("", "your own")  # type: ignore[arg-type]
    assert form.set_text("model", "transformer")
    assert form.summary() == "seed-cnn with the network transformer"
    assert form.command() == "tuitrain run seed-cnn --set model=transformer"
    assert not form.hint("dropout", None).idle  # type: ignore[arg-type]
    assert not form.set_text("model", "nets.Net")
    assert form.errors["model"].endswith("Did you mean 'nets:Net'?")
    assert form.set_text("model", "nets:Net")
    assert form.hint("model", None).text == "your own"  # type: ignore[arg-type]
    assert form.summary() == "seed-cnn with a model of your own"
    assert form.set_text("data", "~/pets")
    assert form.set_text("image_size", "64")
    assert form.set_text("model", "seed-cnn")
    assert form.config.image_size == 32
    assert form.set_text("model", "resnet18")
    assert form.config.image_size == 64
    assert form.set_text("recipe", "rnn")
    assert (form.config.model, form.options("model")) == ("rnn", (*MODELS, TYPED))


async def test_a_network_of_ones_own_is_typed_in_the_launcher_and_trained(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        await pilot.press("left", *"nets:Net", "enter")
        await pilot.pause()
        assert session.started == [changed(model="nets:Net")]


def test_an_optimizer_of_ones_own_is_typed_beside_the_built_in_ones() -> None:
    form = Form(changed(momentum=0.9, nesterov=True))
    assert form.options("optimizer") == ("sgd", "adam", "adamw", TYPED)
    assert not form.set_text("optimizer", "rmsprop")
    assert form.errors["optimizer"].endswith("Did you mean 'torch.optim:RMSprop'?")
    assert form.set_text("optimizer", "torch.optim:RMSprop")
    assert form.options("optimizer") == ("sgd", "adam", "adamw", "torch.optim:RMSprop", TYPED)
    assert (form.config.momentum, form.config.nesterov) == (0.9, True)
    hints = {field: form.hint(field, None).text for field in ("optimizer", "momentum")}  # type: ignore[arg-type]
    assert hints == {"optimizer": "torch's own", "momentum": "where your optimizer takes one"}
    assert form.hint("lr", Machine((), (), 2)).text == "for RMSprop, momentum 0.9"
    form.toggle_further()
    form.refuse("momentum: 0.9 is nothing that the optimizer 'torch.optim:Adagrad' takes; it must be 0.0.")
    assert form.errors["momentum"] == "0.9 is nothing that the optimizer 'torch.optim:Adagrad' takes; it must be 0.0."
    assert form.set_text("optimizer", "adam")
    assert form.set_text("optimizer", "my.optim:make")
    assert form.hint("optimizer", None).text == "your own"  # type: ignore[arg-type]
    assert (form.config.momentum, form.config.nesterov) == (0.9, True)


def test_a_warm_up_goes_while_the_schedule_rises_by_itself_and_comes_back() -> None:
    form = Form(changed(warmup_steps=20))
    assert form.set_text("lr_schedule", "cosine")
    assert form.set_text("warmup_steps", "30")
    assert form.set_text("lr_schedule", "triangle")
    assert (form.config.lr_schedule, form.config.warmup_steps) == ("triangle", 0)
    assert not form.set_text("warmup_steps", "5")
    assert form.errors["warmup_steps"] == "5 does not go with lr_schedule triangle, which rises by itself; it must be 0."
    form.drop_draft("warmup_steps")
    assert form.set_text("lr_schedule", "none")
    assert form.config.warmup_steps == 30
    assert form.set_text("warmup_steps", "40")
    assert form.set_text("lr_schedule", "cosine")
    assert form.config.warmup_steps == 40


def test_every_further_row_has_a_value_and_choices_go_round() -> None:
    form = Form(seed_cnn())
    assert {field.name: form.text(field.name) for field in FURTHER} == {
        **{"model": "seed-cnn", "optimizer": "sgd", "momentum": "0.0", "nesterov": "false", "weight_decay": "0.0", "max_grad_norm": "none"},
        **{"lr_schedule": "none", "warmup_steps": "0", "shuffle": "false"},
        **{
            "image_size": "32",
            "augment": "none",
            "loss": "cross_entropy",
            "label_smoothing": "0.0",
            "dropout": "0.1",
            "weights": "none",
            "target_accuracy": "none",
        },
        **{"compile": "false", "deterministic": "true", "checkpoint_every_minutes": "1.0", "keep_checkpoints": "3"},
        **{"note": "", "on_end": "none"},
    }
    assert [form.cycle("lr_schedule", by) for by in (1, -1)] == ["cosine", "type it…"]
    assert form.set_text("lr_schedule", "triangle")
    assert form.hint("warmup_steps", None).idle  # type: ignore[arg-type]
    assert [form.cycle("shuffle", by) for by in (1, -1)] == ["true", "true"]
    assert [form.cycle("loss", by) for by in (1, -1)] == ["nll", "type it…"]
    assert form.hint("dropout", None).idle  # type: ignore[arg-type]


async def test_what_is_wrong_stands_beside_the_field_that_is_typed(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    app = make(session, sampler, changed(data=str(tmp_path)))
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        await go_to(pilot, "image_size")
        await pilot.press("6", "4")
        await until(pilot, lambda: "✗ image_size: 64 is not what the model seed-cnn takes, which is 32" in said(app))
        await until(pilot, lambda: row(app, "image size") == "image size     64               ✗ see the sentence below")


@pytest.mark.parametrize("opens", ["left", "slash"])
async def test_a_loss_is_chosen_or_typed(session: FakeSession, sampler: FakeSampler, opens: str) -> None:
    app = make(session, sampler, changed(label_smoothing=0.1))
    async with app.run_test(size=(80, 24)) as pilot:
        await looked(pilot)
        await pilot.press("m")
        await go_to(pilot, "loss")
        await until(pilot, lambda: "/ your own  space change" in screen_text(app))
        await pilot.press(opens)
        await pilot.pause()
        assert "your own, as module:name" in screen_text(app)
        await pilot.press(*"foo")
        await until(pilot, lambda: "loss: 'foo' is not known; it must be one of cross_entropy, nll, mse, or an import" in said(app))
        await pilot.press("ctrl+u", *"losses:far", "down")
        await pilot.pause()
        assert "for cross_entropy only" in row(app, "smooth labels")
        assert row(app, "loss") == "loss           losses:far       your own"
        assert "--set loss=losses:far" in screen_text(app)
        assert "--set label_smoothing" not in screen_text(app)
        await go_to(pilot, "loss")
        await pilot.press("left")
        await pilot.pause()
        assert "‹ mse ›" in row(app, "loss")
        assert "for labels that are numbers" in row(app, "loss")
        await pilot.press("left", "left")
        await pilot.pause()
        assert "0.1" in row(app, "smooth labels")

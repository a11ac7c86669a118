"""The main screen through its keys: each test presses what a person would press and reads what is on the screen."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from fakes import RUN, FakeSampler, FakeSession, busy_card, card, said, screen_text, seed_cnn, settle
from kept_runs import resize, until, until_shown, until_told
from textual.events import Key, MouseDown
from textual.pilot import Pilot
from textual.widgets._toast import Toast, ToastHolder

from tuitrain.config import RunConfig
from tuitrain.events import BYTES, Checkpoint, Notice, Progress, Replica, Replicas
from tuitrain.runs.record import RunRecord
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.hosts.going_on import More
from tuitrain.tui.screens import base
from tuitrain.tui.screens.ask import Ask, Patience, QueueDialog, QuitDialog
from tuitrain.tui.screens.dialog import Box, Dialog
from tuitrain.tui.screens.gpus import GpusScreen
from tuitrain.tui.screens.help import HelpScreen
from tuitrain.tui.screens.log import LogScreen
from tuitrain.tui.screens.more import MoreDialog
from tuitrain.tui.widgets.curve import Curve
from tuitrain.tui.widgets.launcher import Launcher

SIZES = [(80, 24), (80, 23), (120, 40), (200, 60)]
WIDE = (120, 40)
Ended = Literal["finished", "failed", "stopped"]


def make(session: FakeSession, sampler: FakeSampler, config: RunConfig | None = None, **options: bool) -> TuitrainApp:
    return TuitrainApp(session, sampler, config or seed_cnn(), Path("runs"), **options)


async def begun(pilot: Pilot[None], session: FakeSession, *, steps: int = 120, **begin: Any) -> None:
    """Start by Enter and train some steps."""
    await pilot.press("enter")
    session.begin(**begin)
    session.steps(steps)
    await settle(pilot)


# -- before a run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_the_first_screen_says_what_enter_will_do(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "Enter trains seed-cnn on cpu with the built-in synthetic data" in text
        assert "tuitrain run seed-cnn" in text
        assert "no NVIDIA driver found" in text
        for label in (
            "recipe",
            "data",
            "device",
            "strategy",
            "epochs",
            "max steps",
            "batch size",
            "learning rate",
            "seed",
            "precision",
            "name",
        ):
            assert f"{label} " in text
        assert len(text.splitlines()) == size[1]
        assert {len(line) for line in text.splitlines()} == {size[0]}


async def test_one_key_starts_what_is_proposed(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        assert session.started == [seed_cnn()]
        await settle(pilot)
        assert "importing torch…" in screen_text(app)


@pytest.mark.parametrize("focus", ["#devices", "#strategy", "#launcher"])
async def test_enter_starts_from_every_pane(session: FakeSession, sampler: FakeSampler, focus: str) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        app.screen.query_one(focus).focus()
        await pilot.press("enter")
        assert len(session.started) == 1


async def test_starting_at_once(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler, start_at_once=True)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert len(session.started) == 1
        assert app.main.view == "run"


class TypedAheadApp(TuitrainApp):
    """Its first keys were typed before it was there."""

    def on_mount(self) -> None:
        for key in ("enter", "g"):
            self.post_message(Key(key, None))


async def test_an_enter_that_was_typed_too_early_starts_nothing_beside_what_starts_at_once(
    session: FakeSession, sampler: FakeSampler
) -> None:
    app = TypedAheadApp(session, sampler, seed_cnn(), Path("runs"), start_at_once=True)
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: isinstance(app.screen, GpusScreen))
        assert session.started == [seed_cnn()]
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is app.main)
        assert app.main.view == "run"


async def test_what_flies_by_is_shown_once_a_beat(session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BEAT_SECONDS", 3600.0)
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.begin()
        for fly in (False, True):
            monkeypatch.setattr(RunRecord, "epochs_fly", fly)
            session.steps(1)
            await settle(pilot)
            session.say(Notice(text=f"first of {fly}"))
            session.evaluate()
            await pilot.pause()
            assert (f"first of {fly}" in said(app)) is not fly
            app.main.beat()
            await until_shown(pilot, f"first of {fly}")
            await pilot.press("o")
            await until(pilot, lambda: isinstance(app.screen, LogScreen))
            log = app.screen
            assert isinstance(log, LogScreen)
            session.say(Notice(text=f"second of {fly}"))
            await pilot.pause()
            assert (f"second of {fly}" in said(app)) is not fly
            log.beat()
            await until_shown(pilot, f"second of {fly}")
            await pilot.press("escape")
        session.end()
        await until_shown(pilot, "finished")


async def test_a_refused_start_comes_back_to_the_field(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.refuse("data: the folder has no train folder.")
        await settle(pilot)
        assert app.main.view == "launch"
        assert "✗ data: the folder has no train folder." in screen_text(app)
        await pilot.press("enter")
        assert len(session.started) == 2


async def test_a_start_that_is_refused_while_one_is_back_at_the_launcher_says_so_there(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter", "n")
        session.refuse("data: the folder has no train folder.")
        await settle(pilot)
        assert "✗ data: the folder has no train folder." in screen_text(app)


async def test_the_keys_follow_a_run_whose_threads_end_after_its_last_word(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        session.begin()
        session.steps(3)
        session.say(Checkpoint(step=3, path="checkpoints/step-00000003", kind="last"))
        session.end()
        session.state = "stopping"
        await pilot.pause()
        assert "finished" in screen_text(app)
        assert "R Resume" not in screen_text(app)
        session.state = "ended"
        app.main.beat()
        await pilot.pause()
        assert "R Resume" in screen_text(app)


async def test_a_refusal_is_shown_whose_thread_ends_after_it(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        session.refuse("data: the folder is gone.")
        session.state = "preparing"
        await pilot.pause()
        assert "the folder is gone" not in screen_text(app)
        session.state = "ended"
        app.main.beat()
        await pilot.pause()
        assert "✗ data: the folder is gone." in screen_text(app)


async def test_a_refusal_of_what_the_launcher_no_longer_holds_is_beside_no_field(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter", "n", "down", "right")
        session.refuse("data: the folder has no train folder.")
        await settle(pilot)
        assert "✗ seed-cnn was not started: data: the folder has no" in screen_text(app)
        assert list(app.main._launcher.form.errors) == [""]


async def test_a_start_that_is_refused_behind_another_screen_says_so_there_too(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter", "d")
        session.refuse("data: the folder has no train folder.")
        await until_told(pilot, "seed-cnn was not started: data: the folder has no train folder.")
        await pilot.press("n")
        await until_shown(pilot, "✗ data: the folder has no train folder.")


async def test_y_copies_the_line(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("down", "space", "y")
        assert app.clipboard == "tuitrain run seed-cnn --data cifar10"
        await settle(pilot)
        assert "170 MB download at the start" in screen_text(app)


# -- the form ---------------------------------------------------------------------------------------------------------


async def test_editing_a_field_and_starting_from_it(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*["down"] * 4, "space", "backspace", "backspace", "3", "enter")
        assert session.started[0].epochs == 3


async def test_a_digit_begins_to_type_and_escape_takes_it_back(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*["down"] * 4, "7")
        await pilot.pause()
        assert "--epochs 7" in screen_text(app)
        assert "↑↓ keeps it  Esc undoes it" in screen_text(app)
        assert "Esc Undo" in screen_text(app).splitlines()[-1]
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen.query_one(Launcher).form.config.epochs == 10
        assert not app.screen.query_one(Launcher).editing


async def test_a_wrong_value_says_what_is_allowed_and_enter_does_not_start(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*["down"] * 4, "space", "x")
        await pilot.pause()
        text = screen_text(app)
        assert "✗ a whole number of 1 or more" in text
        assert "✗ epochs: '10x' is not allowed" in text
        await pilot.press("enter")
        assert not session.started


async def test_letters_are_text_only_while_a_field_is_edited(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("end", *["down"] * 10, "space", *"quick")
        await pilot.pause()
        assert app.screen.query_one(Launcher).form.config.name == "quick"
        await pilot.press("down", "question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)


async def test_tab_goes_through_the_fields_and_on_to_the_panes(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press(*["tab"] * 11)
        assert app.focused is not None
        assert app.focused.id == "devices"
        await pilot.press("tab", "tab", "shift+tab")
        assert app.focused.id == "launcher"


async def test_a_choice_cycles_and_a_folder_is_typed(session: FakeSession, sampler: FakeSampler, tmp_path: Path) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("down", "left", *"/imgs", "enter")
        assert session.started[0].data == "/imgs"


async def test_leaving_the_empty_folder_field_keeps_the_data(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("down", "left", "down", "enter")
        assert session.started[0].data == "auto"


# -- devices and strategy ---------------------------------------------------------------------------------------------


async def test_the_freest_card_is_proposed_and_another_can_be_picked(session: FakeSession) -> None:
    app = make(session, FakeSampler(busy_card(0), card(1), card(2)))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        text = screen_text(app)
        assert "▣ cuda:1" in text
        assert "busy: alice python 18 GiB" in text
        assert "Enter trains seed-cnn on cuda:1" in text
        await pilot.press("shift+tab", "shift+tab", "down", "space")
        await pilot.pause()
        assert "▣ cuda:2" in screen_text(app)
        assert "▢ cuda:1" in screen_text(app)
        await pilot.press("enter")
        assert session.started[0].device == "cuda:2"


async def test_picking_the_chosen_device_again_goes_back_to_auto(session: FakeSession) -> None:
    app = make(session, FakeSampler(card(0), card(1)))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("shift+tab", "shift+tab", "down", "space", "space", "enter")
        assert session.started[0].device == "auto"


async def test_a_card_that_cannot_be_chosen_says_why(session: FakeSession) -> None:
    hidden = card(1, cuda_index=None, status="hidden", reason="hidden by CUDA_VISIBLE_DEVICES=0")
    app = make(session, FakeSampler(card(0), hidden))
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("shift+tab", "shift+tab", "down", "space")
        await pilot.pause()
        assert "hidden by CUDA_VISIBLE_DEVICES=0" in screen_text(app)
        await pilot.press("enter")
        assert session.started[0].device == "auto"


async def test_unknown_values_are_not_zero(session: FakeSession) -> None:
    silent = card(0, memory_used=None, memory_total=None, utilization=None, temperature=None, power=None)
    app = make(session, FakeSampler(silent))
    for size in SIZES:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            line = next(line for line in screen_text(app).splitlines() if "cuda:0" in line)
            assert " 0 %" not in screen_text(app)
            assert "n/a" in screen_text(app)
            assert line
        app = make(session, FakeSampler(silent))


@pytest.mark.usefixtures("still")
async def test_a_driver_that_hangs_and_old_values_are_said(session: FakeSession) -> None:
    sampler = FakeSampler(card(0))
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        sampler.stalled, sampler.age = 6.2, 7.0
        await settle(pilot)
        assert "NVML not responding for 6 s" in screen_text(app)
        assert "7 s old" in screen_text(app)


async def test_a_driver_that_hangs_is_said_where_most_cards_have_no_line(session: FakeSession) -> None:
    sampler = FakeSampler(*(card(index) for index in range(8)))
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        sampler.stalled, sampler.age = 6.2, 7.0
        await settle(pilot)
        assert "8 more · NVML not responding for 6 s" in screen_text(app)


async def test_nothing_is_claimed_before_the_first_sample(session: FakeSession) -> None:
    sampler = FakeSampler()
    sampler.taken = None
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        assert "looking for GPUs" in screen_text(app)


async def test_many_cards_are_counted_where_they_do_not_fit(session: FakeSession) -> None:
    app = make(session, FakeSampler(*(card(index) for index in range(8))))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "▣ cuda:0" in screen_text(app)
        assert "8 more" in screen_text(app)
        await pilot.press("shift+tab", *["down"] * 8)
        await pilot.pause()
        assert "▸▢ cpu" in screen_text(app)


async def test_strategies_that_do_not_fit_say_why(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("shift+tab", "right")
        await pilot.pause()
        assert "split needs two devices: + adds one" in screen_text(app)
        await pilot.press("right")
        await pilot.pause()
        assert "dp needs GPUs: on the CPU use split" in screen_text(app)
    app = make(session, FakeSampler(card(0), card(1)))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("shift+tab", "right", "right")
        await pilot.pause()
        assert "dp needs two GPUs: + adds one" in screen_text(app)
        await pilot.press("plus")
        await until_shown(pilot, "● ddp")
        await pilot.press("tab", "shift+tab")
        await until_shown(pilot, "▸● ddp")


# -- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_training_shows_progress_curve_and_shapes(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await begun(pilot, session)
        session.evaluate()
        await settle(pilot)
        text = screen_text(app)
        assert f"● {RUN}" in text
        assert "step   120/7,820" in text
        assert "samples/s" in text
        assert "accuracy 54.2 %" in text
        assert "[64, 3, 32, 32] → [64, 10]" in text
        assert any("\u2801" <= char <= "\u28ff" for char in text), "no braille curve"
        assert "●" in text
        assert {len(line) for line in text.splitlines()} == {size[0]}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("seconds", "words"), [(35.4, "no step for 35 s"), (250.0, "no step for 4 min"), (7300.0, "no step for 2 h")])
async def test_a_run_that_makes_no_steps_says_so_in_the_place_of_its_speed(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int], seconds: float, words: str
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await begun(pilot, session)
        assert session.record is not None
        session.record.stalled_seconds = seconds
        text = await until_shown(pilot, words, "space, c and x wait for the step to end · q leaves without it")
        assert "samples/s" not in text
        assert "ETA    -:--" in text
        await pilot.press("q")
        await until_shown(pilot, "A run hangs in a step", "▸ Stop and save when the step ends", "Leave now: what is not saved is lost")
        session.record.stalled_seconds = 0.0
        session.say(Notice(text="Steps come again."))
        await until_shown(pilot, "A run is training", "▸ Stop and save")
        await pilot.press("escape")
        assert "wait for the step" not in await until_shown(pilot, "samples/s")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("split", "space and c wait · x ends a wait for samples · q leaves without it"),
        ("ddp", "space, c and x wait for the step"),
    ],
)
async def test_a_run_that_may_wait_for_samples_says_what_ends_that(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int], strategy: str, words: str
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await begun(pilot, session, readers=3, strategy=strategy)
        assert session.record is not None
        session.record.stalled_seconds = 35.4
        await until_shown(pilot, words)


async def test_a_run_whose_first_step_does_not_end_says_so(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter")
        session.begin()
        assert "z Zoom" not in await until_shown(pilot, "making the first step…", "its loss comes when it is made")
        assert session.record is not None
        session.record.stalled_seconds = 61.0
        await until_shown(pilot, "making the first step…", "no step for 61 s")
        session.steps(40)
        await until_shown(pilot, "← → Read", "z Zoom")


@pytest.mark.parametrize("size", SIZES)
async def test_a_warning_shows_also_where_the_log_does_not(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await begun(pilot, session)
        assert "! " not in screen_text(app)
        session.say(Notice(text="Data: CIFAR-10, found on this machine."))
        session.say(Notice(level="warning", text="The checkpoint at step 100 could not be saved: No space left on device, and more."))
        await until_shown(pilot, "! ")
        if size[0] == 80:
            line = next(line for line in screen_text(app).splitlines() if "! " in line)
            assert re.search(r"! \d\d:\d\d The checkpoint at step 100 could not be saved: No s.*…  o log │", line)
        session.say(Notice(level="warning", text="The run's state cannot be written."))
        session.end()
        await until_shown(pilot, "The run's state cannot be")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ended", [False, True])
async def test_a_long_name_takes_no_room_from_what_the_run_learns_from(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int], ended: bool
) -> None:
    app = make(session, sampler, msgspec.structs.replace(seed_cnn(), name="with 学習 " * 25))
    async with app.run_test(size=size) as pilot:
        await begun(pilot, session)
        if ended:
            session.end()
            await settle(pilot)
        heading = next(line for line in screen_text(app).splitlines() if "with 学習" in line)
        assert "… · CIFAR-10 (50,000) · cpu · single ─" in heading
        assert ("✓ finished" in heading) is ended


async def test_no_number_of_a_run_is_cut_where_two_columns_are_narrow(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(100, 24)) as pilot:
        await pilot.press("enter")
        session.begin(total=1_000_000)
        session.steps(120)
        session.evaluate()
        await settle(pilot)
        text = screen_text(app)
        assert re.search(r"41,200/s · loss +[\d.]+ · test +[\d.]+ · acc 54.2 % +│", text)
        assert re.search(r"epoch  1/10 step +120/1,000,000 ETA +[\d:]+ +│", text)
        session.end()
        await settle(pilot)
        text = screen_text(app)
        assert re.search(r"│ loss +[\d.]+ · test +[\d.]+ · acc 54.2 %  best 54.2 % +│", text)
        assert re.search(r"step +120/1,000,000 took 00:00:\d\d +│", text)


async def test_pause_and_go_on_are_one_key_each(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        assert "space Pause" in screen_text(app)
        await pilot.press("space")
        await settle(pilot)
        assert "‖ paused" in screen_text(app)
        assert "space Go on" in screen_text(app)
        await pilot.press("space")
        assert session.asked == ["pause", "resume"]


async def test_stop_is_one_key_and_the_curve_stays(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        await pilot.press("x")
        await settle(pilot)
        assert session.asked == ["stop"]
        text = screen_text(app)
        assert "■ stopped" in text
        assert "x Stop" not in text
        assert any("\u2801" <= char <= "\u28ff" for char in text)


async def test_a_slow_stop_says_stopping(session: FakeSession, sampler: FakeSampler) -> None:
    session.slow_stop = True
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        await pilot.press("x")
        await settle(pilot)
        assert "■ stopping" in screen_text(app)
        session.end("stopped")
        await settle(pilot)
        assert "■ stopped" in screen_text(app)


async def test_a_checkpoint_is_one_key(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        await pilot.press("c")
        assert session.asked == ["checkpoint"]


async def test_a_sentence_that_is_said_again_stands_once(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        await begun(pilot, session)
        await pilot.press(*"ccc")
        await until_shown(pilot, "A checkpoint is written at the next step.")
        await pilot.press(*"ccc")
        app.say("Something else.")
        text = await until_shown(pilot, "Something else.")
        assert text.count("A checkpoint is written at the next step.") == 1
        assert len(app.screen.query(ToastHolder)) == 2


async def test_a_click_on_a_sentence_that_has_just_gone_harms_nothing(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE, notifications=True) as pilot:
        app.say("One that goes.")
        await until_shown(pilot, "One that goes.")
        toast = app.screen.query_one(Toast)
        x, y = toast.content_region.offset
        with monkeypatch.context() as busy:
            busy.setattr(app.screen, "_refresh_layout", lambda *_, **__: None)
            await toast.remove()
            assert app.screen.get_widget_at(x, y)[0] is toast
            app.screen._forward_event(MouseDown(None, x, y, 0, 0, button=1, shift=False, meta=False, ctrl=False, screen_x=x, screen_y=y))
        app.screen.refresh(layout=True)
        await settle(pilot)
        assert "One that goes." not in screen_text(app)


async def test_the_end_of_a_run_rings_once_and_is_told_where_one_looks_at_something_else(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make(session, sampler)
    rung: list[str] = []
    monkeypatch.setattr(app, "bell", lambda: rung.append(session.record.state))
    async with app.run_test(size=WIDE) as pilot:
        for state, elsewhere, told in (("finished", "", 0), ("stopped", "n", 0), ("failed", "g", 1)):
            await pilot.press("escape", "n")
            await begun(pilot, session)
            await pilot.press(*elsewhere)
            session.end(state)
            await settle(pilot)
            session.say(Notice(text="A word after the end."))
            await settle(pilot)
            assert [one.message for one in app._notifications] == ["seed-cnn failed at step 120"] * told
        assert rung == ["finished", "failed"], "whoever stops a run knows that it ends"


async def test_a_failure_is_a_sentence_with_what_to_press(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        session.end("failed", "step 121: the loss is NaN; a smaller lr may help.")
        await settle(pilot)
        text = screen_text(app)
        assert "✗ failed" in text
        assert "step 121: the loss is NaN; a smaller lr may help." in text
        assert "n changes the settings" in text
        assert "R Resume" not in text  # it was never saved
        await pilot.press("n", "enter")
        assert len(session.started) == 2


async def test_a_failure_after_a_checkpoint_may_be_resumed(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        session.say(Checkpoint(step=1, path="checkpoints/step-00000001", kind="last"))
        session.end("failed", "step 121: the loss is NaN; a smaller lr may help.")
        await settle(pilot)
        assert "R Resume" in screen_text(app)


async def test_no_clock_stands_still_while_a_run_is_prepared(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        assert (await until_shown(pilot, "○ preparing")).splitlines()[0].endswith(" ○ preparing ")
        session.begin()
        await until(pilot, lambda: re.search(r"running \d\d:\d\d:\d\d", screen_text(app).splitlines()[0]) is not None)


@pytest.mark.parametrize(("state", "error"), [("stopped", None), ("failed", "data: the folder cannot be read.")])
async def test_a_run_that_ended_while_it_was_prepared_counts_no_steps(
    session: FakeSession, sampler: FakeSampler, state: Literal["stopped", "failed"], error: str | None
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        session.end(state, error)
        text = await until_shown(pilot, "It ended before its first step.", error or "", "no step was made, so there is no loss")
        assert "step 0/" not in text
        assert "epoch " not in text


async def test_preparing_counts_what_it_decodes(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.say(Progress(phase="decoding images", done=12_000, total=50_000, unit="images"))
        await settle(pilot)
        assert "decoding images…" in screen_text(app)
        assert "12,000/50,000 images" in screen_text(app)


async def test_a_download_counts_in_megabytes(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.say(Progress(phase="downloading CIFAR-10", done=42_000_000, total=170_498_071, unit=BYTES))
        await settle(pilot)
        assert " 42/170 MB" in screen_text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_compiling_is_said_until_the_first_loss(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter")
        session.begin()
        session.say(Progress(phase="compiling"))
        await settle(pilot)
        assert "compiling…" in screen_text(app)
        session.steps(1)
        await settle(pilot)
        assert "compiling…" not in screen_text(app)
        assert "step     1/7,820" in screen_text(app)


async def test_idle_replicas_and_those_that_do_not_fit(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        rows = tuple(Replica(index=i, device="cpu", input=(4, 5), output=(4, 2), loss=0.7) for i in range(7))
        idle = Replica(index=7, device="cpu", input=None, output=None, loss=None)
        session.say(Replicas(step=121, batch=(30, 5), replicas=(idle, *rows)))
        await settle(pilot)
        assert "idle: the batch has no part for it" in screen_text(app)
        assert "5 more" in screen_text(app)


async def test_log_scale_and_smoothing(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        await pilot.press("l", "plus", "plus", "plus")
        await settle(pilot)
        assert "l log" in screen_text(app)
        assert "smoothing 0.99" in screen_text(app)
        await pilot.press(*["minus"] * 6)
        await settle(pilot)
        assert "no smoothing" in screen_text(app)


@pytest.mark.parametrize(
    "losses", [[float("nan")] * 40, [2.0, float("nan"), float("inf"), 1.0] * 10, [0.0] * 40, [-1.0] * 40, [1e30, 1e-30] * 20]
)
async def test_no_loss_breaks_the_curve(session: FakeSession, sampler: FakeSampler, losses: list[float]) -> None:
    from tuitrain.events import Losses, Step

    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session, steps=1)
        count = len(losses)
        session.say(
            Losses(first_step=2, epoch=1, losses=tuple(losses), times=(0.0,) * count),
            Step(step=count + 1, epoch=1, loss=losses[-1], lr=0.01, samples_per_second=1.0),
        )
        await settle(pilot)
        await pilot.press("l")
        await settle(pilot)
        assert "step    41/7,820" in screen_text(app)


async def test_the_curve_is_extended_not_redrawn_while_its_axes_hold(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tuitrain.tui.curve import plot

    drawn: list[str] = []
    for name in ("draw", "extend"):
        real = getattr(plot, name)
        monkeypatch.setattr(plot, name, lambda *args, name=name, real=real: (drawn.append(name), real(*args))[1])
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session, steps=250)
        drawn.clear()
        for _ in range(8):
            session.steps(25)
            app.screen.query_one(Curve).redraw()
        # The loss axis may need one more range on the way; nothing else redraws the whole chart.
        assert len(drawn) == 8
        assert drawn.count("extend") >= 6


async def test_switching_between_launcher_and_training(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("t")
        assert app.main.view == "launch"
        await begun(pilot, session)
        await pilot.press("n")
        await settle(pilot)
        assert "a run is training" in screen_text(app)
        await pilot.press("enter", "x", "c")
        assert len(session.started) == 1
        assert not session.asked, "the launcher's keys are about the next run"
        await pilot.press("t", "space")
        assert session.asked == ["pause"]


# -- the way out ------------------------------------------------------------------------------------------------------


async def test_q_without_a_run_leaves_at_once(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running
    assert (app.return_code or 0) == 0


async def test_q_while_training_asks_and_enter_stops_and_leaves(session: FakeSession, sampler: FakeSampler) -> None:
    session.slow_stop = True
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        await pilot.press("n", "q")
        await pilot.pause()
        assert isinstance(app.screen, QuitDialog)
        assert "Stop and save" in screen_text(app)
        await pilot.press("enter")
        await settle(pilot)
        assert session.asked == ["stop"]
        assert app.is_running
        assert app.main.view == "run"
        assert "stopping" in screen_text(app)
        await pilot.press("q")
        assert app.is_running
        session.end("stopped")
        for _ in range(200):
            if not app.is_running:
                break
            await pilot.pause(0.02)
        assert not app.is_running
    assert (app.return_code or 0) == 0


@pytest.mark.parametrize("keys", [["escape"], ["q"], ["down", "down", "enter"], ["up", "enter"]])
async def test_q_can_be_taken_back(session: FakeSession, sampler: FakeSampler, keys: list[str]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        await pilot.press("q", *keys)
        await pilot.pause()
        assert app.screen is app.main
        assert session.asked == []
        assert app.is_running


@pytest.mark.parametrize("state", ["finished", "failed", "stopped"])
async def test_a_run_that_ends_under_the_question_is_not_called_training(session: FakeSession, sampler: FakeSampler, state: Ended) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        await pilot.press("q", "down")
        session.end(state)
        await pilot.pause()
        text = screen_text(app)
        assert "No run is training any more" in text
        assert "▸ Leave " in text, "the run can go on nowhere: what is nearest to the background is to leave"
        assert "A run is training" not in text
        assert "background" not in text
        await pilot.press("enter")
        await until(pilot, lambda: app._exit)
    assert (app.return_code or 0) == 0
    assert session.asked == []


@pytest.mark.parametrize("state", ["finished", "failed", "stopped"])
async def test_q_asks_nothing_about_a_run_that_has_ended_and_is_still_being_written(
    session: FakeSession, sampler: FakeSampler, state: Ended
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        session.end(state)
        session.state = "stopping"
        await pilot.pause()
        await pilot.press("q")
        assert app.screen is app.main
        assert [one.message for one in app._notifications][-1] == "tuitrain closes when all of the run is written."
        assert not app._exit
        session.state = "ended"
        await until(pilot, lambda: app._exit)
    assert (app.return_code or 0) == 0
    assert session.asked == []


async def test_the_question_stays_on_its_answer_when_the_run_does_something_else(session: FakeSession, sampler: FakeSampler) -> None:
    session.slow_stop = True
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        await pilot.press("q", "down", "down")
        assert "▸ Cancel" in screen_text(app)
        session.pause()
        await pilot.pause()
        text = screen_text(app)
        assert "A run is paused" in text
        assert "  Keep it paused in the background" in text
        assert "▸ Cancel" in text
        session.stop()
        session.steps(1)
        await pilot.pause()
        text = screen_text(app)
        assert "A run is stopping" in text
        assert "  Leave when it has stopped" in text
        assert "▸ Cancel" in text
        await pilot.press("enter")
        assert app.screen is app.main
        await pilot.press("q", "enter")
        await pilot.pause()
        assert app.is_running
        session.end("stopped")
        await until(pilot, lambda: app._exit)
    assert session.asked == ["pause", "stop", "stop"]


async def test_a_run_that_is_refused_under_the_question_is_not_called_training(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "q")
        assert "A run is being prepared" in screen_text(app)
        session.refuse("data: nothing there")
        await pilot.pause()
        assert "No run is training any more" in screen_text(app)
        await pilot.press("escape")
        assert app.screen is app.main


@pytest.mark.parametrize("size", SIZES)
async def test_q_before_the_first_step_promises_no_checkpoint(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    session.slow_stop = True
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter", "q")
        await until_shown(
            pilot, "A run is being prepared", "▸ Stop: there is nothing to save yet", "Keep running in the background", "Cancel"
        )
        await pilot.press("enter")
        await until_told(pilot, "Stopping before the next step: tuitrain then closes, and there is nothing to save.")
        await settle(pilot)
        assert session.asked == ["stop"]
        assert "■ stopping · nothing to save yet" in screen_text(app)
        session.end("stopped")
        await until(pilot, lambda: app._exit)
    assert (app.return_code or 0) == 0


@pytest.mark.parametrize("size", SIZES)
async def test_a_run_that_does_not_come_to_its_end_can_be_left_all_the_same(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int]
) -> None:
    session.slow_stop = True
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await pilot.press("enter", "q", "enter")
        await until_told(pilot, "Stopping before the next step")
        await pilot.press("q")
        await until_shown(pilot, "A run is stopping", "▸ Leave when it has stopped", "Leave now: what is not saved is lost", "Cancel")
        await pilot.press("enter", "q")
        await until_shown(pilot, "▸ Leave when it has stopped")
        assert session.asked == ["stop"]
        await pilot.press("down", "enter")
        await until(pilot, lambda: app._exit)
    assert app.leaving.at_once
    assert (app.return_code or 0) == 0


async def test_the_question_is_about_the_run_that_has_begun_meanwhile(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "q")
        await until_shown(pilot, "A run is being prepared")
        session.begin()
        await until_shown(pilot, "A run is training", "▸ Stop and save")


async def test_a_run_that_was_stopped_before_it_had_a_folder_is_not_said_to_go_on(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.press("enter")
        session.end("stopped")
        await settle(pilot)
        assert "■ stopped · n starts it anew" in screen_text(app)


LOST = f"{RUN}: its curve, log and checkpoints are removed from disk. This cannot be undone."
QUESTIONS: dict[str, Callable[[], Dialog[Any, Any]]] = {
    "quit": lambda: QuitDialog("running", stalled=True),
    "delete": lambda: Ask("Delete it?", LOST, yes="Delete it", no="Keep it"),
    "queue": lambda: QueueDialog(["cuda:0"], LOST),
    "more": lambda: MoreDialog(More(RUN, "epochs", done=10, proposed=10, steps_per_epoch=782, epochs=10)),
    "patience": lambda: Patience("Handing over…", LOST),
}


def inside(text: str) -> list[str]:
    """The words of a dialog below its rule."""
    return text.partition("╮")[2].rpartition("╰")[0].split()


@pytest.mark.parametrize("size", [(67, 24), (45, 12)])
@pytest.mark.parametrize("name", QUESTIONS)
async def test_a_question_fits_a_terminal_that_becomes_small(
    session: FakeSession, sampler: FakeSampler, name: str, size: tuple[int, int]
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(QUESTIONS[name]())
        await pilot.pause()
        whole = said(app)
        assert "…" not in inside(whole)
        await resize(pilot, *size)
        await until(pilot, lambda: app.screen.query_one(Box).region.right <= size[0])
        box = [line.strip() for line in screen_text(app).splitlines() if line.strip()]
        assert {line[0] + line[-1] for line in box} == {"╭╮", "││", "╰╯"}
        assert inside(said(app)) == inside(whole)


async def test_help_opens_and_closes_with_the_same_key(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "copy the equal tuitrain run line" in screen_text(app)
        assert "this help, back, quit" in screen_text(app)
        await pilot.press("question_mark")
        await pilot.pause()
        assert app.screen is app.main


# -- the log ----------------------------------------------------------------------------------------------------------


async def test_the_whole_log_opens_scrolls_and_closes(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        session.say(*(Notice(text=f"notice {index}") for index in range(100)))
        await pilot.press("o")
        await pilot.pause()
        assert isinstance(app.screen, LogScreen)
        assert "notice 99" in screen_text(app)
        await pilot.press("home")
        await pilot.pause()
        assert "notice 0" in screen_text(app)
        assert "notice 99" not in screen_text(app)
        session.say(Notice(text="something new"))
        await pilot.pause()
        assert "notice 0" in screen_text(app)
        await pilot.press("end")
        await pilot.pause()
        assert "something new" in screen_text(app)
        await pilot.press("o")
        await pilot.pause()
        assert app.screen is app.main


async def test_notices_come_to_the_pane(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        session.say(Notice(level="warning", text="3 images could not be read"))
        await settle(pilot)
        assert "! 3 images could not be read" in screen_text(app)


# -- every key at every moment, every string, every size ----------------------------------------------------------------

HOSTILE = "[/]深層[bold red]\x1b]52;c;eA==\x1b\\\x9b2J\u202e[@click=app.quit]x[/]"


async def test_strings_from_outside_are_shown_as_they_are(session: FakeSession) -> None:
    config = msgspec.structs.replace(seed_cnn(), name="[/]深層[bold]x[/bold]")
    app = make(session, FakeSampler(card(0, name="[red]GPU 深[/]")), config)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        session.say(Notice(text=HOSTILE))
        await settle(pilot)
        text = screen_text(app)
        assert "[/]深層[bold]x[/bold]" in text
        assert "[red]GPU 深[/]" in text
        assert "[@click=a" in text, "the rest is on the next line of the log"
        assert "\x1b" not in text
        assert "\x9b" not in text
        assert "\u202e" not in text


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (71, 24), (80, 19), (40, 60)])
async def test_a_terminal_that_is_too_small_is_told_what_is_needed(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int]
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        app.main.start(seed_cnn())
        session.begin()
        await settle(pilot)
        if size[0] >= 40:
            assert "tuitrain needs 72×20" in screen_text(app)
            assert f"{size[0]}×{size[1]}" in screen_text(app)
            assert "running" in screen_text(app)
        assert app.is_running


async def test_only_help_and_leaving_work_while_the_terminal_is_too_small(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await resize(pilot, 60, 15)
        await until_shown(pilot, "tuitrain needs 72×20")
        assert screen_text(app).splitlines()[-1].split() == ["?", "Help", "q", "Quit"]
        await pilot.press("enter", "space", "n", "g", "r", "b", "escape", "down", "7")
        assert app.screen is app.main
        assert not session.started
        await resize(pilot, 80, 24)
        await until_shown(pilot, "▸recipe")
        await begun(pilot, session)
        await resize(pilot, 60, 15)
        await until_shown(pilot, "tuitrain needs 72×20", "running")
        await pilot.press("space", "x", "c", "n", "o")
        assert session.asked == []
        assert app.screen is app.main
        for key in ("q", "ctrl+c"):
            await pilot.press(key)
            await until_shown(pilot, "▸ Stop and save")
            await pilot.press("escape")
            await until_shown(pilot, "tuitrain needs 72×20")
        await resize(pilot, 80, 24)
        await until_shown(pilot, "space Pause")


async def test_a_run_that_begins_and_is_refused_while_the_terminal_is_too_small(session: FakeSession, sampler: FakeSampler) -> None:
    """The keys go to what shows when there is room again, not to what showed before."""
    app = TuitrainApp(session, sampler, seed_cnn(), Path("runs"), start_at_once=True)
    async with app.run_test(size=(60, 15)) as pilot:
        await until_shown(pilot, "tuitrain needs 72×20")
        await until(pilot, lambda: len(session.started) == 1)
        session.begin()
        session.steps(20)
        await settle(pilot)
        await resize(pilot, 80, 24)
        await until_shown(pilot, "space Pause")
        await pilot.press("left")
        await until_shown(pilot, "step 20")
        session.end()
        await pilot.press("n")
        await until_shown(pilot, "▸recipe")
        await resize(pilot, 60, 15)
        app.main.start(seed_cnn())
        session.begin()
        await settle(pilot)
        await resize(pilot, 80, 24)
        await until_shown(pilot, "space Pause")
        await resize(pilot, 60, 15)
        session.refuse("no such data")
        await settle(pilot)
        await resize(pilot, 80, 24)
        await until_shown(pilot, "▸recipe", "no such data")


@pytest.mark.parametrize("keys", [("question_mark",), ("ctrl+p",), ("down", "down", "down", "down", "7"), ("r", "slash"), ("q",)])
async def test_the_keys_of_the_terminal_work_in_dialogs_and_fields(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    repainted: list[object] = []
    monkeypatch.setattr(TuitrainApp, "action_repaint", lambda app: repainted.append(app.screen))
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        if keys == ("q",):
            await begun(pilot, session)
        await pilot.press(*keys)
        screen = app.screen
        await pilot.press("ctrl+l")
        assert repainted == [screen]
        await pilot.press("ctrl+z")
        await until_told(pilot, "No shell started tuitrain on this terminal")
        assert app.screen is screen


async def test_resizing_live(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        for width, height in [(80, 24), (20, 5), (200, 60), (99, 24), (100, 30), (3, 3), (120, 40)]:
            await resize(pilot, width, height)
            session.steps(5)
            await settle(pilot)
            lines = screen_text(app).splitlines()
            assert (len(lines), {len(line) for line in lines}) == (height, {width})
        assert "[64, 3, 32, 32] → [64, 10]" in screen_text(app)


async def test_messages_from_the_run_coalesce(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        seen = 0
        real = app.main.run_changed

        def counting() -> None:
            nonlocal seen
            seen += 1
            real()

        app.main.run_changed = counting  # type: ignore[method-assign]
        for _ in range(500):
            session.steps(1)
        await pilot.pause()
        assert 1 <= seen < 50


async def test_the_theme_can_be_changed(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=WIDE) as pilot:
        await begun(pilot, session)
        for theme in ("tuitrain-light", "ansi-dark", "nord", "tuitrain-dark"):
            app.theme = theme
            await settle(pilot)
            assert "[64, 3, 32, 32]" in screen_text(app)


async def test_plain_terminals_get_ascii_only(session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "linux")
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await begun(pilot, session)
        session.evaluate()
        await settle(pilot)
        text = screen_text(app)
        assert text.replace("\n", "").isascii()
        assert "* 20261121-0413-seed-cnn-k3f  running" in text
        assert "[64, 3, 32, 32] > [64, 10]" in text
        await pilot.press("q")
        await pilot.pause()
        assert screen_text(app).replace("\n", "").isascii()

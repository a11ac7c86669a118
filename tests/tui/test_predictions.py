"""The predictions screen through its keys, with made-up evaluations."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pytest
from fakes import FakeSampler, FakeSession, said, screen_text, seed_cnn, settle, started
from kept_runs import resize, until_told
from rich.cells import cell_len
from test_terminal import OnTerminal
from textual.pilot import Pilot

from tuitrain.events import Confusion, Eval, Prediction, Predictions
from tuitrain.text import clean
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.browse.pictures import BYTES, HEIGHT, SIDE, draw, ink_of
from tuitrain.tui.browse.results import Results
from tuitrain.tui.layout import LEAST
from tuitrain.tui.screens.predictions import PredictionsScreen
from tuitrain.tui.widgets.confusions import Confusions
from tuitrain.tui.widgets.images import Images
from tuitrain.tui.widgets.matrix import Matrix

SIZES = [(80, 24), (120, 40), (200, 60)]
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
HOSTILE = ("[red]x[/]", "a\x1b[31mb\x07", "猫猫猫猫猫猫猫", "🙂 smile", "\u202eright", "", "x" * 300, "tab\there", "new\nline", "[")


def picture(seed: int) -> bytes:
    """Stripes: quick to play back on an emulated terminal."""
    dice = random.Random(seed)
    return b"".join(dice.randbytes(3) * SIDE for _ in range(SIDE))


def confusion(count: int, right: int = 54) -> tuple[tuple[int, ...], ...]:
    """Of a hundred samples of each class `right` are right, 30 taken for the next class and the rest for the one after it."""
    rows = []
    for truth in range(count):
        row = [0] * count
        row[truth] += right
        row[(truth + 1) % count] += 30
        row[(truth + 2) % count] += 100 - 30 - right
        rows.append(tuple(row))
    return tuple(rows)


def evaluation(
    *, classes: tuple[str, ...] = CLASSES, mistakes: int = 40, right: int = 24, images: bool = True, step: int = 2346, first: int = 100
) -> Predictions:
    """Samples `first`, `first + 1`, ...: first the mistakes, each taken for the next class, then the right ones."""
    samples = []
    for place in range(mistakes + right):
        truth = place % len(classes)
        samples.append(
            Prediction(
                index=first + place,
                truth=truth,
                predicted=(truth + 1) % len(classes) if place < mistakes else truth,
                confidence=0.99 - place * 0.005,
                image=picture(place) if images else None,
            )
        )
    return Predictions(step=step, epoch=3, classes=classes, confusion=confusion(len(classes)), samples=tuple(samples))


async def opened(pilot: Pilot[None], session: FakeSession, event: Predictions | None = None) -> PredictionsScreen:
    """A run that has trained and been evaluated, and the screen over it."""
    await pilot.press("enter")
    session.begin()
    session.steps(10)
    if event is not None:
        session.evaluate()
        session.say(event)
    await settle(pilot)
    await pilot.press("p")
    await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, PredictionsScreen)
    return screen


def make(session: FakeSession, sampler: FakeSampler) -> TuitrainApp:
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


def selected(app: TuitrainApp) -> str:
    """The line that has the selected sample in words."""
    return next(line for line in screen_text(app).splitlines() if "test sample" in line)


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [LEAST[0], 200])
async def test_in_a_small_terminal_the_middle_of_a_picture_shows_and_what_it_is_of(
    session: FakeSession, sampler: FakeSampler, width: int
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(width, LEAST[1])) as pilot:
        await opened(pilot, session, evaluation())
        lines = screen_text(app).splitlines()
        pictured = [number for number, line in enumerate(lines) if "▀" * SIDE in line]
        assert HEIGHT - 4 <= len(pictured) < HEIGHT
        assert "▸✗ airplane → automobile    99 %" in lines[pictured[-1] + 1]
        assert "test sample 100 · 99 % sure" in screen_text(app)
        await pilot.click(Images, offset=(SIDE + 8, pictured[-1] - 1))
        await settle(pilot)
        assert "test sample 101 " in selected(app)


@pytest.mark.parametrize(("size", "columns", "rows"), [((80, 24), 2, 1), ((80, 23), 2, 1), ((120, 40), 3, 2), ((200, 60), 6, 3)])
async def test_as_many_pictures_as_fit(session: FakeSession, sampler: FakeSampler, size: tuple[int, int], columns: int, rows: int) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, evaluation())
        lines = screen_text(app).splitlines()
        assert "after epoch 3 · step 2,346 · 54.0 % right · 460 mistakes of 1,000" in screen_text(app)
        assert f"1–{columns * rows} of 64 · worst first" in lines[1]
        pictured = [line for line in lines if "▀" * SIDE in line]
        assert len(pictured) == rows * HEIGHT
        assert all(line.count("▀") == columns * SIDE for line in pictured)
        captions = [line for line in lines if " → " in line and "%" in line and "test sample" not in line]
        assert [line.count(" → ") for line in captions] == [columns] * rows
        assert "▸✗ airplane → automobile    99 %" in captions[0]
        assert "✗ automobile → bird" in captions[0]
        assert "test sample 100 · 99 % sure · truth airplane · prediction automobile" in screen_text(app)
        assert {len(line) for line in lines} == {size[0]}
        assert "p Close" in lines[-1]


def test_a_half_block_has_the_two_pixels_of_its_cell() -> None:
    image = bytearray(BYTES)
    image[0:3] = (255, 0, 0)  # the first pixel
    image[SIDE * 3 : SIDE * 3 + 3] = (0, 0, 255)  # the one below it
    style = next(iter(draw(bytes(image), "truecolor")[0])).style
    assert style is not None
    assert style.color is not None
    assert style.color.triplet == (255, 0, 0)
    assert style.bgcolor is not None
    assert style.bgcolor.triplet == (0, 0, 255)


@pytest.mark.parametrize("ink", ["truecolor", "256", "light", "dark"])
def test_every_ink_draws_the_whole_picture(ink: str) -> None:
    for image in (picture(1), bytes(BYTES), b"\xff" * BYTES):
        lines = draw(image, ink)  # type: ignore[arg-type]
        assert len(lines) == HEIGHT
        assert {len(line.text) for line in lines} == {SIDE}


def test_characters_follow_the_light() -> None:
    dark_above = bytes(BYTES // 2) + b"\xff" * (BYTES // 2)
    assert draw(dark_above, "light")[0].text == " " * SIDE
    assert draw(dark_above, "light")[-1].text == "@" * SIDE
    assert draw(dark_above, "dark")[0].text == "@" * SIDE


@pytest.mark.parametrize(
    ("environment", "ink"),
    [
        ({"COLORTERM": "truecolor"}, "truecolor"),
        ({"COLORTERM": ""}, "256"),
        ({"COLORTERM": "", "TERM": "xterm"}, "light"),
        ({"COLORTERM": "truecolor", "NO_COLOR": "1"}, "light"),
        ({"COLORTERM": "truecolor", "LANG": "C"}, "light"),
    ],
)
async def test_the_terminal_decides_what_pictures_are_drawn_with(
    session: FakeSession, sampler: FakeSampler, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], ink: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())
        assert ink_of(app) == ink
        assert ("▀" in screen_text(app)) == (ink != "light")
        app.theme = "tuitrain-light"
        await pilot.pause()
        assert ink_of(app) == ("dark" if ink == "light" else ink)
        await pilot.press("m")
        await pilot.pause()
        text = screen_text(app)
        # Shades are not colour alone: the numbers are there in any case.
        assert " 54" in text
        assert text.isascii() == (environment.get("LANG") == "C")


async def test_arrows_move_and_scroll_by_rows(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, evaluation())
        for key, index, seen in (
            ("left", 100, "1–6"),
            ("right", 101, "1–6"),
            ("down", 104, "1–6"),
            ("down", 107, "4–9"),
            ("up", 104, "4–9"),
            ("up", 101, "1–6"),
            ("pagedown", 107, "4–9"),
            ("end", 163, "61–64"),
            ("right", 163, "61–64"),
            ("pageup", 157, "58–63"),
            ("home", 100, "1–6"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert f"test sample {index} " in selected(app), key
            assert f"{seen} of 64" in screen_text(app), key


async def test_f_filters(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("f")
        await pilot.pause()
        assert "1–2 of 40 · mistakes" in screen_text(app)
        await pilot.press("f")
        await pilot.pause()
        assert "1–2 of 24 · right ones" in screen_text(app)
        assert "✓ airplane" in screen_text(app)
        assert "✗" not in screen_text(app)
        await pilot.press("f")
        await pilot.pause()
        assert "of 64 · worst first" in screen_text(app)


async def test_a_filter_without_samples_says_so(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation(right=0))
        await pilot.press("f", "f")
        await pilot.pause()
        assert "There is no right answer among the samples that are kept; f shows the others." in said(app)
        await pilot.press("down", "end", "pageup", "f")
        await pilot.pause()
        assert "of 40" in screen_text(app)


async def test_a_new_evaluation_keeps_the_selected_sample(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("pagedown", "right")
        session.say(evaluation(step=3128, first=90))
        await settle(pilot)
        assert "step 3,128" in screen_text(app)
        assert "test sample 107 " in selected(app)
        session.say(evaluation(step=3910, first=5000, mistakes=3, right=0))
        await settle(pilot)
        assert "test sample 5,002 " in selected(app)


async def test_a_click_selects(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.click(Images, offset=(60, 25))
        await pilot.pause()
        assert "test sample 104 " in selected(app)
        # Beside the pictures there is nothing to select.
        await pilot.click(Images, offset=(3, 25))
        await pilot.pause()
        assert "test sample 104 " in selected(app)
        # A cell is opened in the matrix alone.
        await pilot.press("enter", "space")
        await pilot.pause()
        assert "1–6 of 64 · worst first" in screen_text(app)


async def test_samples_without_pictures_are_listed(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation(images=False))
        text = screen_text(app)
        assert "These samples are not images of whole numbers (uint8), so they are listed." in text
        assert "▸    100  ✗ airplane    automobile   99 %" in text
        assert "1–16 of 64" in text
        await pilot.press("pagedown")
        await pilot.pause()
        assert "test sample 116 " in selected(app)


async def test_a_damaged_picture_leaves_the_others(session: FakeSession, sampler: FakeSampler) -> None:
    event = evaluation(mistakes=2, right=0)
    broken = Prediction(index=1, truth=99, predicted=-1, confidence=float("nan"), image=b"short")
    event = Predictions(step=1, epoch=1, classes=event.classes, confusion=((1, 2), ()), samples=(broken, *event.samples))
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, event)
        text = screen_text(app)
        assert "no picture" in text
        assert "class 99 → class -1" in text
        assert "n/a" in text
        assert "33.3 % right · 2 mistakes of 3" in text
        await pilot.press("m", "down", "right", "enter", "escape", "end")
        await pilot.pause()
        assert isinstance(app.screen, PredictionsScreen)


# -- the matrix -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
async def test_ten_classes_are_whole_at_every_size(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("m")
        await pilot.pause()
        text = screen_text(app)
        rows = [line for line in text.splitlines() if "54.0 %" in line and "right" not in line]
        assert [line[1:].split()[0 if "▸" not in line else 1] for line in rows] == list(CLASSES)
        for line in rows:
            assert {"54", "30", "16"} <= set(line.replace("[", " ").replace("]", " ").split())
        names = " ".join(text.splitlines()[:6])
        assert all(name[:8] in names for name in CLASSES)
        assert "recall" in text
        assert {len(line) for line in text.splitlines()} == {size[0]}


async def test_the_cursor_begins_on_the_worst_confusion_and_moves(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("tab")
        await pilot.pause()
        assert "[ 30]" in screen_text(app)
        assert "airplane taken for automobile: 30 of 100 (30.0 %)" in screen_text(app)
        await pilot.press("left", "up", "left")
        await pilot.pause()
        assert "airplane recognised: 54 of 100 (54.0 %)" in screen_text(app)
        assert "[ 54]" in screen_text(app)
        await pilot.press("down", "down", "down")
        await pilot.pause()
        assert "cat taken for airplane: 0 of 100 (0.0 %)" in screen_text(app)
        await pilot.press("end", "right", "down")
        await pilot.pause()
        assert "truck recognised" in screen_text(app)
        await pilot.press("home")
        await pilot.pause()
        assert "airplane recognised" in screen_text(app)
        await pilot.press("shift+tab")
        await pilot.pause()
        assert "▀" in screen_text(app)


@pytest.mark.parametrize("key", ["enter", "space"])
async def test_a_cell_opens_its_pictures_and_escape_brings_all_back(session: FakeSession, sampler: FakeSampler, key: str) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("end", "m", "down", "right", key)
        await pilot.pause()
        text = screen_text(app)
        assert "test sample 101 " in selected(app)
        assert "1–4 of 4 · in this cell" in text
        assert text.count("automobile → bird") == 4
        assert "cat" not in text
        await pilot.press("f")
        await pilot.pause()
        assert "in this cell" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "1–6 of 64 · worst first" in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, PredictionsScreen)


async def test_a_cell_without_samples_says_so(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("m", "right")
        await pilot.pause()
        assert "none of them was kept to look at" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "airplane taken for bird: no sample of these 16 is kept." in said(app)


def of_two_cells() -> Predictions:
    """Beside the usual samples three of a class taken for the one after the next, and one that was recognised."""
    further = [
        Prediction(index=index, truth=truth, predicted=predicted, confidence=0.5, image=picture(index))
        for index, truth, predicted in ((900, 0, 2), (901, 0, 2), (902, 0, 2), (903, 4, 4))
    ]
    return msgspec.structs.replace(evaluation(), of_cells=tuple(further))


async def test_samples_of_the_cells_show_in_their_cells_alone(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, of_two_cells())
        assert "1–6 of 64 · worst first" in screen_text(app)
        for which in ("40 · mistakes", "24 · right ones", "64 · worst first"):
            await pilot.press("f")
            await pilot.pause()
            assert f"of {which}" in screen_text(app)
        await pilot.press("m", "right")
        await pilot.pause()
        assert "airplane taken for bird: 16 of 100 (16.0 %)" in screen_text(app)
        assert "Enter shows 3 of them" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "1–3 of 3 · in this cell" in screen_text(app)
        assert "test sample 900 · 50 % sure · 3 of 16 kept · truth airplane · prediction bird" in selected(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "1–6 of 64 · worst first" in screen_text(app)
        assert "kept" not in selected(app)


async def test_a_cell_counts_the_samples_of_both_kinds(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_two_cells())
        shown = sum((one.truth, one.predicted) == (4, 4) for one in evaluation().samples)
        await pilot.press("m", "home", *["down", "right"] * 4)
        await pilot.pause()
        assert f"Enter shows {shown + 1} of them" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert f"{shown + 1} of 54 kept · deer" in selected(app).replace("truth ", "")


async def test_enter_is_offered_on_cells_alone_that_have_something(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())

        def offered() -> bool:
            return "Enter" in screen_text(app).splitlines()[-1]

        await pilot.press("m")
        await pilot.pause()
        assert offered()
        await pilot.press("right")
        await pilot.pause()
        assert not offered()
        assert "none of them was kept to look at" in screen_text(app)
        await pilot.press("left")
        await pilot.pause()
        assert offered()
        lines = screen_text(app).splitlines()
        row = next(y for y, line in enumerate(lines) if "  cat " in line and "54.0 %" in line)
        await pilot.click(Matrix, offset=(lines[row].index("·"), row - 1))
        await pilot.pause()
        assert not offered()
        assert "there is no such sample" in screen_text(app)
        session.say(msgspec.structs.replace(of_two_cells(), step=3128, confusion=confusion(10, 30)))
        await settle(pilot)
        assert not offered()
        await pilot.press("home", "right", "right")
        await pilot.pause()
        assert offered()
        session.say(evaluation(step=3910))
        await settle(pilot)
        assert not offered()


@pytest.mark.parametrize(
    ("kept", "count", "words"), [(1, 1, "Enter shows it"), (2, 2, "Enter shows all of them"), (2, 3, "Enter shows 2 of them")]
)
async def test_a_cell_says_how_many_of_its_samples_there_are(
    session: FakeSession, sampler: FakeSampler, kept: int, count: int, words: str
) -> None:
    event = evaluation(classes=("cat", "dog"), mistakes=2 * kept, right=0)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, msgspec.structs.replace(event, confusion=((5, count), (0, 5))))
        await pilot.press("m")
        await pilot.pause()
        assert words in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert f"{kept} of {count} kept" in selected(app)


async def test_a_cell_that_never_happened_says_so(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("m", "left", "down", "down", "down")
        await pilot.pause()
        assert "cat taken for airplane: 0 of 100" in screen_text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert "cat taken for airplane: there is no such sample. Esc shows all pictures, m the matrix." in said(app)


@pytest.mark.parametrize("count", [9, 10])
async def test_names_have_the_room_of_two_columns(session: FakeSession, sampler: FakeSampler, count: int) -> None:
    classes = tuple(f"pattern {number}" for number in range(count))
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation(classes=classes))
        await pilot.press("m")
        await pilot.pause()
        names = " ".join(screen_text(app).splitlines()[3:5])
        assert all(name in names for name in classes)
        assert "recall" in names


@pytest.mark.parametrize("size", SIZES)
async def test_many_classes_scroll(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, evaluation(classes=tuple(f"a kind of thing, number {number}" for number in range(70))))
        await pilot.press("m", "end")
        await pilot.pause()
        text = screen_text(app)
        assert "a kind of thing, number 69 recognised: 54 of 100" in text
        assert "[ 54]" in text
        # Names that are cut would all look the same.
        assert " 69 a kind" in text
        assert "–69, columns" in text
        assert "–69 of 70" in text
        for _ in range(3):
            await pilot.press("pageup")
        await pilot.press("home")
        await pilot.pause()
        assert "rows 0–" in screen_text(app)


async def test_a_click_selects_a_cell(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("m", "end")
        await pilot.pause()
        lines = screen_text(app).splitlines()
        row = next(y for y, line in enumerate(lines) if "  bird " in line and "54.0 %" in line)
        await pilot.click(Matrix, offset=(lines[row].index("54"), row - 1))
        await pilot.pause()
        assert "bird recognised" in screen_text(app)
        await pilot.click(Matrix, offset=(lines[row].index("54"), row - 3))
        await pilot.pause()
        assert "airplane taken for bird" in screen_text(app)


# -- the list in its place --------------------------------------------------------------------------------------------

MANY = tuple(f"breed {number:03}" for number in range(1000))


def of_many(listed: int = 100, classes: tuple[str, ...] = MANY, step: int = 2346) -> Predictions:
    """An evaluation with too many classes for a matrix: class N is taken for the next one, the first ones most often."""
    largest = tuple(Confusion(truth=n, predicted=n + 1, count=100 - n, samples=120) for n in range(listed))
    beside = tuple(Prediction(index=700 + n, truth=n, predicted=n + 1, confidence=0.5, image=picture(n)) for n in range(1, listed))
    samples = tuple(Prediction(index=n, truth=0, predicted=1, confidence=0.9, image=picture(n)) for n in range(3))
    return Predictions(step=step, epoch=3, classes=classes, confusion=(), samples=samples, of_cells=beside, largest=largest)


@pytest.mark.parametrize(("size", "seen"), [((80, 24), 17), ((120, 40), 33), ((200, 60), 53)])
async def test_too_many_classes_for_a_matrix_have_a_list_of_the_largest_confusions(
    session: FakeSession, sampler: FakeSampler, size: tuple[int, int], seen: int
) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, of_many())
        assert "after epoch 3 · step 2,346" in screen_text(app)
        assert "m Confusions" in screen_text(app).splitlines()[-1]
        await pilot.press("m")
        await pilot.pause()
        text = screen_text(app)
        assert "m Pictures" in text.splitlines()[-1]
        assert f"1–{seen} of 100" in text.splitlines()[1]
        rows = [line for line in text.splitlines() if " of 120 " in line and "taken" not in line]
        assert len(rows) == seen
        assert rows[0][1:].split()[:9] == ["▸", "breed", "000", "breed", "001", "100", "of", "120", "83.3"]
        assert "█" in rows[0]
        assert "breed 000 taken for breed 001: 100 of 120 (83.3 %)" in text
        assert "Enter shows 3 of them" in text
        assert {len(line) for line in text.splitlines()} == {size[0]}


async def test_the_list_of_confusions_has_a_cursor_and_enter_shows_pictures(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_many())
        await pilot.press("tab")
        for key, place, seen in (
            ("up", 0, "1–17"),
            ("down", 1, "1–17"),
            ("right", 1, "1–17"),
            ("pagedown", 18, "3–19"),
            ("up", 17, "3–19"),
            ("end", 99, "84–100"),
            ("down", 99, "84–100"),
            ("pageup", 82, "83–99"),
            ("home", 0, "1–17"),
            ("down", 1, "1–17"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert f"breed {place:03} taken for breed {place + 1:03}: {100 - place} of 120" in screen_text(app), key
            assert f"{seen} of 100" in screen_text(app), key
        await pilot.press("enter")
        await pilot.pause()
        assert "test sample 701 · 50 % sure · 1 of 99 kept · " in screen_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "worst first" in screen_text(app)
        await pilot.press("m")
        session.say(of_many(step=3128))
        await settle(pilot)
        assert "step 3,128" in screen_text(app)
        assert "breed 001 taken for breed 002" in screen_text(app)
        # Fewer than were above the cursor.
        session.say(of_many(listed=1, step=3910))
        await settle(pilot)
        assert "breed 000 taken for breed 001" in screen_text(app)
        session.say(evaluation(step=4692))
        await settle(pilot)
        assert "airplane taken for automobile: 30 of 100" in screen_text(app)
        await pilot.press("shift+tab")
        session.say(of_many(step=5474))
        await settle(pilot)
        assert "breed 000 taken for breed 001" in screen_text(app)


@pytest.mark.parametrize("size", SIZES)
async def test_with_a_matrix_the_list_comes_after_it(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, evaluation())
        for key, shown in {"m": "recall", "tab": "of class", "shift+tab": "recall"}.items():
            await pilot.press(key)
            await pilot.pause()
            assert shown in screen_text(app), key
        await pilot.press("m")
        await pilot.pause()
        text = screen_text(app)
        # Those of a count are in the order of the classes.
        rows = [line[3:].split()[:5] for line in text.splitlines() if " of 100  " in line]
        assert rows[0] == ["airplane", "automobile", "30", "of", "100"]
        # At 80×24 the heading has no room for the summary.
        assert len(rows) == min(20, size[1] - 8)
        assert rows[10:][:1] == [["airplane", "bird", "16", "of", "100"]]
        assert "airplane taken for automobile: 30 of 100 (30.0 %)" in text
        await pilot.press("down", "enter")
        await pilot.pause()
        assert "automobile → bird" in screen_text(app)
        assert "4 of 30 kept" in screen_text(app)
        await pilot.press("escape", "shift+tab", "m")
        await pilot.pause()
        assert "worst first" in screen_text(app)


async def test_enter_is_offered_on_a_confusion_of_which_something_is_kept(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("shift+tab")
        for key, kept in {"home": True, "end": False, "pageup": True}.items():
            await pilot.press(key)
            await pilot.pause()
            assert ("Enter Open cell" in screen_text(app).splitlines()[-1]) == kept, key
            assert ("none of them was kept to look at" in screen_text(app)) != kept, key


async def test_a_network_without_a_mistake_confuses_nothing(session: FakeSession, sampler: FakeSampler) -> None:
    event = Predictions(step=10, epoch=1, classes=("a", "b"), confusion=((3, 0), (0, 4)), samples=evaluation().samples)
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, event)
        await pilot.press("m", "m")
        await pilot.pause()
        assert "The network takes no class for another." in screen_text(app)
        await pilot.press("down", "end", "enter", "tab")
        await pilot.pause()
        assert "▀" in screen_text(app)


async def test_a_click_selects_a_confusion(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_many(listed=5))
        await pilot.press("m")
        await pilot.pause()
        lines = screen_text(app).splitlines()
        row = next(y for y, line in enumerate(lines) if line[1:].split()[:2] == ["breed", "003"])
        for y, place in ((row, 3), (row + 1, 4), (row + 2, 4), (row - 3, 0), (row - 4, 0)):
            await pilot.click(Confusions, offset=(20, y - 1))
            await pilot.pause()
            assert f"breed {place:03} taken for" in screen_text(app), y - row


async def test_without_a_list_of_confusions_the_screen_says_why(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_many(listed=0))
        await pilot.press("m")
        await pilot.pause()
        assert "Of these 1,000 classes nobody could read a confusion matrix, and their largest confusions were not kept." in said(app)
        await pilot.press("down", "end", "enter", "m")
        await pilot.pause()
        assert "▀" in screen_text(app)
        session.say(Eval(step=9000, epoch=4, loss=0.1, loss_sum=1.0, accuracy=1.0), of_many(listed=0, step=9000))
        await settle(pilot)
        await pilot.press("m")
        await pilot.pause()
        assert "The network takes no class for another." in screen_text(app)
        assert "100.0 % right" in screen_text(app)


async def test_help_tells_of_the_list(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, of_many())
        await pilot.press("question_mark")
        await pilot.pause()
        assert "between the pictures and the largest confusions" in screen_text(app)
        assert "matrix" not in screen_text(app)


@pytest.mark.parametrize("size", SIZES[:2])
async def test_hostile_names_of_many_classes(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = OnTerminal(session, sampler, size)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, of_many(listed=len(HOSTILE) - 1, classes=(*HOSTILE, *MANY[:100])))
        app.written.clear()
        for keys in (("m",), ("down",) * 3, ("end",), ("enter",), ("escape",)):
            await pilot.press(*keys)
            await pilot.pause()
            assert app.shown() == screen_text(app)
            if keys == ("m",):
                long = next(line for line in screen_text(app).splitlines() if "xxx" in line)
                assert "xxx…" in long
                assert " of 120  " in long
        assert "\x07" not in "".join(app.written)
        assert {cell_len(line) for line in screen_text(app).splitlines()} == {size[0]}


async def test_long_names_of_classes_leave_what_is_counted_room(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_many(classes=tuple(f"{name} {'x' * 60}" for name in MANY)))
        await pilot.press("m")
        await pilot.pause()
        assert "x… taken for breed 001 xxx" in screen_text(app)
        assert "x…: 100 of 120 (83.3 %)" in screen_text(app)
        session.say(evaluation(step=3128, classes=tuple(f"{name} {'x' * 60}" for name in CLASSES)))
        await settle(pilot)
        assert "x… taken for automobile xxx" in screen_text(app)
        await pilot.press("shift+tab", "left")
        await pilot.pause()
        assert "x…: 54 of 100 (54.0 %)" in screen_text(app)


# -- samples that are files -------------------------------------------------------------------------------------------


def of_files(path: str = "test/{truth}/{index:04}.jpg", classes: tuple[str, ...] = CLASSES) -> Predictions:
    """The usual samples, and those of a cell, as files of a folder."""
    event = msgspec.structs.replace(evaluation(classes=classes), of_cells=of_two_cells().of_cells)

    def named(samples: tuple[Prediction, ...]) -> tuple[Prediction, ...]:
        files = (path.format(truth=classes[sample.truth], index=sample.index) for sample in samples)
        return tuple(msgspec.structs.replace(sample, file=file) for sample, file in zip(samples, files, strict=True))

    return msgspec.structs.replace(event, samples=named(event.samples), of_cells=named(event.of_cells))


def last_line_of_the_pane(app: TuitrainApp) -> str:
    """Where the selected sample is in words."""
    return screen_text(app).splitlines()[-3][1:-1]


@pytest.mark.parametrize("size", SIZES)
async def test_a_file_is_named_and_y_copies_its_path(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = make(session, sampler)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, of_files())
        assert " test/airplane/0100.jpg · 99 % sure · " in last_line_of_the_pane(app)
        assert "test sample" not in screen_text(app)
        assert "y Copy path" in screen_text(app).splitlines()[-1]
        await pilot.press("right", "y")
        await until_told(pilot, "copied")
        assert app.clipboard == "test/automobile/0101.jpg"
        await pilot.press("m", "right")
        await pilot.pause()
        assert "Copy path" not in screen_text(app).splitlines()[-1]
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == "test/automobile/0101.jpg"
        await pilot.press("enter", "y")
        await pilot.pause()
        assert " test/airplane/0900.jpg · 50 % sure · 3 of 16 kept · " in last_line_of_the_pane(app)
        assert app.clipboard == "test/airplane/0900.jpg"


async def test_of_a_long_path_the_end_shows_and_all_is_copied(session: FakeSession, sampler: FakeSampler) -> None:
    long = "test/{truth}/" + "a long part of a name, " * 6 + "{index:04}.jpg"
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_files(long))
        await pilot.press("y")
        assert app.clipboard == long.format(truth="airplane", index=100)
        line = last_line_of_the_pane(app)
        assert line.startswith(" …")
        assert "of a name, 0100.jpg · 99 % sure · airplane → automobile" in line
        await pilot.press("m", "right", "enter")
        await pilot.pause()
        assert "a name, 0900.jpg · 50 % sure · 3 of 16 kept · airplane → bird" in last_line_of_the_pane(app)


async def test_long_names_of_classes_leave_the_file_room(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_files(classes=tuple(f"{name} {'x' * 60}" for name in CLASSES)))
        line = last_line_of_the_pane(app)
        assert "xxx/0100.jpg · 99 % sure · airplane x" in line
        assert " → automobile" in line


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_names_of_files_stay_in_their_line(session: FakeSession, sampler: FakeSampler, name: str) -> None:
    path = f"test/deer/{clean(name)}.jpg"
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_files(path.replace("{", "").replace("}", "")))
        assert f"{clean(name)[-3:]}.jpg · 99 % sure" in said(app)
        assert {cell_len(line) for line in screen_text(app).splitlines()} == {80}
        await pilot.press("y")
        assert app.clipboard == path


async def test_samples_that_are_no_files_have_no_path_to_copy(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, evaluation())
        assert "test sample 100 " in selected(app)
        assert "Copy" not in screen_text(app).splitlines()[-1]
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == ""
        await pilot.press("question_mark")
        await pilot.pause()
        assert "path" not in screen_text(app)


async def test_help_has_the_key_for_files_where_there_are_some(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session, of_files())
        await pilot.press("question_mark")
        await pilot.pause()
        assert "copy the picture's path in the data folder" in screen_text(app)


async def test_help_explains_the_keys(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, session, evaluation())
        await pilot.press("question_mark")
        await pilot.pause()
        text = screen_text(app)
        assert screen.ABOUT in text
        assert all(words in text for _, words in screen.KEYS)
        await pilot.press("escape")
        assert app.screen is screen


# -- when there is nothing, or something strange ----------------------------------------------------------------------


async def test_before_the_first_evaluation(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("p")
        await pilot.pause()
        assert "The run is being prepared" in said(app)
        session.begin()
        await settle(pilot)
        assert "The first evaluation comes after step 782" in said(app)
        await pilot.press("m", "f", "tab", "enter", "space", "down", "end", "pageup")
        await pilot.pause()
        assert "The first evaluation comes after step 782" in said(app)
        session.steps(782)
        session.evaluate()
        session.say(evaluation(step=782))
        await settle(pilot)
        assert "step 782" in screen_text(app)
        assert "▀" in screen_text(app)


async def test_a_resumed_run_waits_for_the_next_epoch_and_a_short_one_for_its_end(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session)
        session.steps(1000)
        await settle(pilot)
        assert "after step 1,564" in said(app)
        session.say(started(resumed_from=1000, total_steps=1200))
        await settle(pilot)
        assert "after step 1,200" in said(app)


async def test_no_test_data_and_no_evaluation(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, session)
        session.end("stopped")
        await settle(pilot)
        assert "This run ended before its first evaluation." in said(app)
        session.evaluate()
        await settle(pilot)
        assert "The answers of this run are not kept." in said(app)
        session.say(started(resumed_from=1000, test_samples=0))
        await settle(pilot)
        assert "This run has no test data" in said(app)
        await pilot.press("p")
        assert not isinstance(app.screen, PredictionsScreen)


@pytest.mark.parametrize("size", SIZES[:2])
async def test_hostile_class_names(session: FakeSession, sampler: FakeSampler, size: tuple[int, int]) -> None:
    app = OnTerminal(session, sampler, size)
    async with app.run_test(size=size) as pilot:
        await opened(pilot, session, evaluation(classes=HOSTILE))
        app.written.clear()
        for keys in (("right",) * 6, ("m",), ("down", "right"), ("end",), ("enter",), ("escape",), ("f",)):
            await pilot.press(*keys)
            await pilot.pause()
            assert app.shown() == screen_text(app)
        written = "".join(app.written)
        assert "\x07" not in written
        assert "\u202e" not in written
        assert "\x1b[31mb" not in written
        await pilot.press("f", "f", "home")
        await pilot.pause()
        assert "[red]x[/]" in screen_text(app)


async def test_a_still_screen_sends_nothing_and_a_moved_cursor_little(session: FakeSession, sampler: FakeSampler) -> None:
    app = OnTerminal(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, session, evaluation())
        app.since_last()
        session.steps(5)
        screen.run_changed()
        screen.beat()
        await pilot.pause()
        assert "▀" not in "".join(app.written)
        app.since_last()
        await pilot.press("right")
        await pilot.pause()
        assert 0 < app.since_last() < 1500
        await pilot.press("m", "down")
        await pilot.pause()
        app.since_last()
        await pilot.press("down")
        await pilot.pause()
        assert 0 < app.since_last() < 1500


async def test_a_terminal_that_becomes_too_small_and_large_again(session: FakeSession, sampler: FakeSampler) -> None:
    app = make(session, sampler)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, session, evaluation())
        await pilot.press("end")
        for size in ((60, 10), (80, 24), (200, 60)):
            await resize(pilot, *size)
            await pilot.pause()
            assert ("tuitrain needs 72×20" in screen_text(app)) == (size == (60, 10))
        assert "test sample 163 " in selected(app)
        await pilot.press("m")
        await resize(pilot, 80, 24)
        await pilot.pause()
        assert "taken for" in screen_text(app)


def test_results_count_what_there_is() -> None:
    results = Results(evaluation())
    assert (results.total, results.right, results.classes) == (1000, 540, 10)
    assert results.count((0, 1)) == 30
    assert results.share((0, 2)) == 0.16
    assert results.share((50, 0)) is None
    assert [results.name(number) for number in (-1, 10, 50)] == ["class -1", "class 10", "class 50"]
    assert [sample.index for sample in results.chosen("all", (0, 1))] == [100, 110, 120, 130]

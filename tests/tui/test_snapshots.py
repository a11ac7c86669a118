"""Every screen at every size: in colour against its kept picture, without colour against its kept text.

After a change that is meant to be seen run `.venv/bin/python -m pytest tests/tui/test_snapshots.py --snapshot-update`, and look at what
changed.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from fake_doctor import FakeDoctor
from fakes import FakeSampler, FakeSession, busy_card, card, screen_text, seed_cnn, settle
from gpu_machines import full_card, machine, process
from kept_runs import keep, until_shown
from syrupy import SnapshotAssertion
from textual.pilot import Pilot

from tuitrain.devices import DeviceSample
from tuitrain.events import Notice, Parameter, Parameters, Prediction, Predictions
from tuitrain.tui.app import TuitrainApp
from tuitrain.tui.screens import doctor as doctor_screen

NOW = 1_795_237_200.0
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

SIZES = [(80, 24), (120, 40), (200, 60)]
SIZE_NAMES = ["80x24", "120x40", "200x60"]

Compare = Callable[..., bool]
Scene = Callable[[Pilot[None], FakeSession], Awaitable[None]]


async def launcher(pilot: Pilot[None], session: FakeSession) -> None:
    await settle(pilot)


async def wrong_field(pilot: Pilot[None], session: FakeSession) -> None:
    await pilot.press(*["down"] * 6, "0")
    await settle(pilot)


async def training(pilot: Pilot[None], session: FakeSession) -> None:
    await pilot.press("enter")
    session.begin(device=("cuda:0",))
    session.say(Notice(text="Training on cuda:0, which has most free memory."))
    for _ in range(3):
        session.steps(391)
        session.evaluate()
    session.steps(200)
    session.say(_parameters(), _predictions())
    await settle(pilot)


async def reading(pilot: Pilot[None], session: FakeSession) -> None:
    await training(pilot, session)
    await pilot.press("left", "pageup", "plus")
    await settle(pilot)


async def failed(pilot: Pilot[None], session: FakeSession) -> None:
    await training(pilot, session)
    session.end("failed", "step 1,374: the loss is not finite (NaN); a smaller learning rate may help")
    await settle(pilot)


async def predictions(pilot: Pilot[None], session: FakeSession) -> None:
    await training(pilot, session)
    await pilot.press("p")
    await settle(pilot)


async def confusion(pilot: Pilot[None], session: FakeSession) -> None:
    await predictions(pilot, session)
    await pilot.press("m")
    await settle(pilot)


async def parameters(pilot: Pilot[None], session: FakeSession) -> None:
    await training(pilot, session)
    await pilot.press("w")
    await settle(pilot)


async def log(pilot: Pilot[None], session: FakeSession) -> None:
    await training(pilot, session)
    await pilot.press("o")
    await settle(pilot)


async def help_of_training(pilot: Pilot[None], session: FakeSession) -> None:
    await training(pilot, session)
    await pilot.press("question_mark")
    await pilot.pause()


async def quitting(pilot: Pilot[None], session: FakeSession) -> None:
    await training(pilot, session)
    await pilot.press("q")
    await pilot.pause()


async def no_runs(pilot: Pilot[None], session: FakeSession) -> None:
    await pilot.press("r")
    await until_shown(pilot, "No runs yet")


async def runs(pilot: Pilot[None], session: FakeSession) -> None:
    _keep_runs(Path("runs"))
    await pilot.press("r")
    await until_shown(pilot, "first try", "wide 深层", "▁")


async def opened(pilot: Pilot[None], session: FakeSession) -> None:
    await runs(pilot, session)
    await pilot.press("enter")
    await until_shown(pilot, "Replicas", "finished")
    await pilot.pause()


async def compared(pilot: Pilot[None], session: FakeSession) -> None:
    await runs(pilot, session)
    await pilot.press("space", "space", "v")
    await until_shown(pilot, "differences", "lr")
    await pilot.pause()


async def gpus(pilot: Pilot[None], session: FakeSession) -> None:
    await pilot.press("g")
    await until_shown(pilot, "Processes 12", "lost: ")
    await settle(pilot)


async def gpus_one_card(pilot: Pilot[None], session: FakeSession) -> None:
    await pilot.press("g")
    await until_shown(pilot, "Processes 2", "used by")
    await settle(pilot)


async def gpu_card(pilot: Pilot[None], session: FakeSession) -> None:
    await gpus_one_card(pilot, session)
    await pilot.press("enter")
    await until_shown(pilot, "memory clock")
    await settle(pilot)


async def doctor(pilot: Pilot[None], session: FakeSession) -> None:
    await pilot.press("d")
    await until_shown(pilot, "This machine has 2 GPUs", "counted by torch")
    await settle(pilot)


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        launcher,
        wrong_field,
        training,
        reading,
        failed,
        predictions,
        confusion,
        parameters,
        log,
        help_of_training,
        quitting,
        no_runs,
        runs,
        opened,
        compared,
        gpus,
        gpus_one_card,
        gpu_card,
        doctor,
    )
}


def _shared_card(index: int, **changes: object) -> DeviceSample:
    """A card with two processes, of which none is this one: its number would be another in each run."""
    return full_card(index, processes=(process(2 * index + 1), process(2 * index + 2)), **changes)


def _eight_cards() -> FakeSampler:
    reason = "this card has fallen off the bus; reboot the machine"
    lost = DeviceSample(nvml_index=6, cuda_index=6, uuid="GPU-6", name="NVIDIA H100 80GB HBM3", status="lost", reason=reason)
    return machine(*(_shared_card(index) for index in range(6)), lost, full_card(7))


MACHINES: dict[str, Callable[[], FakeSampler]] = {
    "gpus": _eight_cards,
    "gpus_one_card": lambda: machine(_shared_card(0)),
    "gpu_card": lambda: machine(_shared_card(1)),
}
"""The scenes with cards of their own."""


def _keep_runs(folder: Path) -> None:
    faster = msgspec.structs.replace(seed_cnn(), name="wide 深层", lr=0.03)
    keep(folder, "20261121-0413-seed-cnn-k3f", config=faster, steps=60, host="gpu-box")
    keep(folder, "20261120-2210-seed-cnn-a7m", config=msgspec.structs.replace(seed_cnn(), name="first try"), host="gpu-box")


def _parameters() -> Parameters:
    shapes = {"0.weight": (32, 3, 5, 5), "0.bias": (32,), "7.weight": (64, 1024), "7.bias": (64,)}
    rows = tuple(
        Parameter(name=name, shape=shape, count=_product(shape), device="cuda:0", trainable=True) for name, shape in shapes.items()
    )
    return Parameters(rows=rows, warnings=("blocks: 3 layers are kept in a plain Python list; use nn.ModuleList.",))


def _product(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _predictions() -> Predictions:
    dice = random.Random(5)
    confusion = tuple(
        tuple(700 if truth == predicted else dice.randrange(70) for predicted in range(len(CLASSES))) for truth in range(len(CLASSES))
    )
    samples = tuple(
        Prediction(index=index, truth=index % 10, predicted=(index * 3 + 1) % 10, confidence=0.99 - index / 100, image=_image(index))
        for index in range(24)
    )
    beside = [(truth, predicted) for truth in range(10) for predicted in range(10) if truth != predicted]
    truth, predicted = max(beside, key=lambda cell: confusion[cell[0]][cell[1]])
    of_cells = tuple(
        Prediction(index=100 + place, truth=truth, predicted=predicted, confidence=0.5, image=_image(place)) for place in range(6)
    )
    return Predictions(step=1173, epoch=3, classes=CLASSES, confusion=confusion, samples=samples, of_cells=of_cells)


def _image(index: int) -> bytes:
    """A disc on a slope, in colours of its own."""
    pixels = bytearray()
    for y in range(32):
        for x in range(32):
            inside = (x - 16) ** 2 + (y - 14 - index % 5) ** 2 < 90
            pixels += bytes((40 + index * 9, 90, 200 - 4 * y)) if inside else bytes((8 * y, 120 + 4 * x, 60))
    return bytes(pixels)


@pytest.fixture(autouse=True)
def _same_moment_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_screen, "MachineDoctor", FakeDoctor)
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-box")
    monkeypatch.setattr(time, "time", lambda: NOW)


def _app(session: FakeSession, scene: str) -> TuitrainApp:
    session.clock = lambda: 0.0
    sampler = MACHINES[scene]() if scene in MACHINES else FakeSampler(card(0), card(1), busy_card(2))
    return TuitrainApp(session, sampler, seed_cnn(), Path("runs"))


@pytest.mark.parametrize("size", SIZES, ids=SIZE_NAMES)
@pytest.mark.parametrize("scene", SCENES)
def test_the_screen_looks_as_it_did(scene: str, size: tuple[int, int], snap_compare: Compare) -> None:
    session = FakeSession()
    assert snap_compare(_app(session, scene), terminal_size=size, run_before=lambda pilot: SCENES[scene](pilot, session))


@pytest.mark.parametrize("size", SIZES, ids=SIZE_NAMES)
@pytest.mark.parametrize("scene", SCENES)
async def test_the_screen_reads_as_it_did_without_colour(
    scene: str, size: tuple[int, int], snapshot: SnapshotAssertion, session: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = _app(session, scene)
    async with app.run_test(size=size) as pilot:
        await SCENES[scene](pilot, session)
        assert screen_text(app) == snapshot

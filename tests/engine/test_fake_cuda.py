"""Runs on GPUs that are made believe, see `fake_cuda`: where everything is, and that no step waits. Evidence from the CPU alone."""

from __future__ import annotations

import gc
import importlib.util
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import CLASSES, FakeControl, go_on, losses_of, make_images, of, run, small_config
from fake_cuda import Cards
from fake_cuda_api import fake_cuda
from fake_recorder import count_as_built_in
from test_export_script import compare, executed, exported
from torch import Tensor, nn

from tuitrain.config import RECIPES, ConfigError, RunConfig, with_changes
from tuitrain.engine import train as train_module
from tuitrain.engine.graphs import WARM_UP
from tuitrain.engine.models import build_model
from tuitrain.engine.ranks.world import World
from tuitrain.engine.seeding import run_settings
from tuitrain.engine.trial import measure
from tuitrain.engine.vision import import_torchvision
from tuitrain.events import Eval, Event, Notice, Predictions, Replicas, ReplicaStats, RunEnded, RunStarted, StepTimes, TensorMemory
from tuitrain.recipes import load_recipe
from tuitrain.wire import Trial

pytestmark = [
    pytest.mark.skipif(
        torch.version.cuda is not None or torch.version.hip is not None, reason="this torch is built for GPUs: see test_gpu.py"
    ),
    pytest.mark.filterwarnings("ignore:PyTorch (was|is) (not )?compiled with:UserWarning"),
]

WHOLE = WARM_UP + 2
"""Whole batches of two samples in an epoch of `make_few`; one of a single sample follows."""

AVERAGED = {"averaging": "lookahead", "epochs": 5, "batch_size": 16}
"""Twenty steps, the last five of which are averaged; an epoch's last batch has 2 samples."""


def make_few(config: Any) -> Any:
    """Images as large as CIFAR's."""
    (inputs, labels), (test_inputs, test_labels) = make_images(config)
    many = 2 * WHOLE + 1
    return (inputs[:many].repeat(1, 1, 4, 4), labels[:many]), (test_inputs[:3].repeat(1, 1, 4, 4), test_labels[:3])


@pytest.fixture
def cards() -> Iterator[Cards]:
    """A machine with three of them."""
    with fake_cuda(3) as cards:
        yield cards


@pytest.fixture
def waits(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What steps waited for, each with its number; not what happens between two steps, where saving and evaluating wait, nor the clock,
    which waits for steps before the last one."""
    found: list[str] = []
    step = train_module._step

    def watched(run: Any) -> Iterator[Event]:
        before = len(cards.waits)
        yield from list(step(run))
        found.extend(f"step {run.step}: {one}" for one in cards.waits[before:] if " in clock.py" not in one)

    monkeypatch.setattr(train_module, "_step", watched)
    return found


def finished(config: RunConfig, folder: Path) -> list[Event]:
    events = run(config, FakeControl(folder))
    assert of(RunEnded, events)[0].state == "finished", of(RunEnded, events)[0].error
    return events


def on_the_cpu(config: RunConfig, folder: Path) -> list[Event]:
    return finished(with_changes(config, {"device": "cpu", "strategy": "single", "output_device": None}), folder)


# -- the recipes ----------------------------------------------------------------------------------------------------------


@pytest.fixture(params=RECIPES)
def recipe(request: pytest.FixtureRequest) -> RunConfig:
    """A built-in one, with few samples."""
    if request.param == "resnet18":
        if importlib.util.find_spec("torchvision") is None:
            pytest.skip("torchvision is not installed")
        import_torchvision("the test")  # its operators are declared before there are cards
    few = {"data": "test_fake_cuda:make_few", "batch_size": 2, "epochs": 1, "max_steps": None, "precision": "fp32"}
    return with_changes(load_recipe(request.param), {"epochs": 2} if request.param == "random-linear" else few)


def test_a_step_of_a_recipe_stays_on_its_card_and_waits_for_nothing(
    tmp_path: Path, recipe: RunConfig, cards: Cards, waits: list[str], replays: list[str]
) -> None:
    events = finished(with_changes(recipe, {"device": "cuda:1"}), tmp_path)
    assert waits == []
    assert cards.touched == {1}
    assert replays.count("_forward") == replays.count("_backward") == WHOLE - WARM_UP, [event.text for event in of(Notice, events)]
    assert {replica.device for event in of(Replicas, events) for replica in event.replicas} == {"cuda:1"}
    assert {event.device for event in of(TensorMemory, events)} == {"cuda:1"}
    assert of(ReplicaStats, events)[0].replicas[0].step_seconds > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"momentum": 0.9, "shuffle": True, "augment": "crop-flip"},
        {"optimizer": "adam", "augment": "flip-shift", "tta": True, "label_smoothing": 0.1, "lr_schedule": "triangle"},
        {"optimizer": "adamw", **AVERAGED},
        {"model": "seed-cnn", "data": "test_fake_cuda:make_few", "batch_size": 2},
        {"model": "transformer", "data": "test_fake_cuda:make_few", "batch_size": 2, "batch_dim": 1, "dropout": 0.0},
    ],
    ids=["crop-flip", "flip-shift", "lookahead", "images", "rows"],
)
def test_what_is_computed_does_not_depend_on_where(
    tmp_path: Path, cards: Cards, waits: list[str], replays: list[str], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Steps that are replayed, too: what is not in their graphs would be missing."""
    count_as_built_in(monkeypatch)
    config = small_config(precision="fp64", device="cuda:2", **changes)
    expected = on_the_cpu(config, tmp_path / "cpu")
    found = finished(config, tmp_path / "card")
    assert losses_of(found) == pytest.approx(losses_of(expected), rel=1e-9)
    assert [event.loss for event in of(Eval, found)] == pytest.approx([event.loss for event in of(Eval, expected)], rel=1e-9)
    assert of(Predictions, found)[-1].confusion == of(Predictions, expected)[-1].confusion
    assert waits == []
    assert cards.touched == {2}
    assert replays


# -- several replicas -----------------------------------------------------------------------------------------------------

FEW = {"data": "test_fake_cuda:make_few", "batch_size": 5, "dropout": 0.0, "epochs": 1}
"""Batches of 5, 5 and 3 samples."""


@pytest.mark.parametrize(
    ("device", "strategy", "changes", "last"),
    [
        ("cuda:0,cuda:1", "split", {"momentum": 0.9, "epochs": 1}, [1, 1]),
        ("cuda:0,cuda:1", "dp", {"momentum": 0.9, "epochs": 1}, [1, 1]),
        ("cuda:2,cuda:1", "split", {"optimizer": "adam", "augment": "crop-flip", **AVERAGED}, [1, 1]),
        ("cuda:2,cuda:0,cuda:1", "split", {"epochs": 1}, [1, 1, None]),
        ("cuda:2,cuda:0,cuda:1", "dp", {"output_device": "cuda:1", "epochs": 1}, [1, 1, None]),
        ("cuda:0,cuda:1", "split", {**FEW, "model": "transformer", "batch_dim": 0}, [2, 1]),
        ("cuda:1,cuda:0", "dp", {**FEW, "model": "rnn", "batch_dim": 1}, [2, 1]),
    ],
)
def test_replicas_on_several_cards_learn_what_one_device_learns(
    tmp_path: Path, cards: Cards, waits: list[str], device: str, strategy: str, changes: dict[str, Any], last: list[int | None]
) -> None:
    config = small_config(precision="fp64", device=device, strategy=strategy, **changes)
    expected = on_the_cpu(config, tmp_path / "cpu")
    found = finished(config, tmp_path / "cards")
    assert losses_of(found) == pytest.approx(losses_of(expected), rel=1e-9)
    assert [event.loss for event in of(Eval, found)] == pytest.approx([event.loss for event in of(Eval, expected)], rel=1e-9)
    assert waits == []
    names = device.split(",")
    assert cards.touched == {int(name[-1]) for name in names}
    shown = of(Replicas, found)[1]
    assert [replica.device for replica in shown.replicas] == names
    assert [replica.output and replica.output[0] for replica in shown.replicas] == last
    assert [stat.memory is not None for stat in of(ReplicaStats, found)[0].replicas] == [True] * len(names)
    assert of(StepTimes, found)[0].devices == tuple(names)


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize(
    ("device", "strategy", "tries"),
    [("cuda:0", "single", True), ("cuda:0,cuda:1", "split", True), ("cuda:0", "dp", True), ("cuda:0,cuda:1", "dp", False)],
)
def test_cudnn_tries_its_algorithms_where_what_it_finds_lasts(device: str, strategy: str, tries: bool) -> None:
    """It keeps that for a thread, and nn.DataParallel makes new threads in each step."""
    config = small_config(device=device, strategy=strategy, deterministic=False)
    with run_settings(config, list(map(torch.device, device.split(",")))):
        assert torch.backends.cudnn.benchmark is tries
    with run_settings(with_changes(config, {"deterministic": True}), [torch.device("cuda:0")]):
        assert torch.backends.cudnn.benchmark is False


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize(
    ("device", "precision", "inside"), [("cuda:0", "tf32", "high"), ("cuda:0", "fp32", "highest"), ("cpu", "tf32", "highest")]
)
def test_matrices_are_multiplied_in_tf32_where_that_is_asked_for(device: str, precision: str, inside: str) -> None:
    config = small_config(device=device, precision=precision)
    for _ in range(2):
        with run_settings(config, [torch.device(device)]):
            assert torch.get_float32_matmul_precision() == inside
        assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("device", ["cpu,cuda:1", "cuda:1,cpu,cuda:1"])
def test_a_card_beside_the_cpu(tmp_path: Path, cards: Cards, device: str) -> None:
    """What is read on the CPU has landed there."""
    config = small_config(precision="fp64", device=device, strategy="split", momentum=0.9)
    expected = on_the_cpu(config, tmp_path / "cpu")
    found = finished(config, tmp_path / "both")
    assert losses_of(found) == pytest.approx(losses_of(expected), rel=1e-9)
    assert cards.touched == {1}


def test_a_rank_on_the_second_card_touches_no_other(
    tmp_path: Path, cards: Cards, waits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    config, control = (
        small_config(precision="fp64", device="cuda:1", strategy="ddp", model="seed-cnn", **FEW),
        FakeControl(tmp_path / "rank"),
    )
    expected = on_the_cpu(config, tmp_path / "cpu")
    events = []
    try:
        for event in World(config, control, torch.device("cuda:1")).events():
            if isinstance(event, RunStarted):
                control.folder = control.given_folder
            events.append(event)
    finally:
        torch.distributed.destroy_process_group()
    assert losses_of(events) == pytest.approx(losses_of(expected), rel=1e-9)
    assert cards.touched == {1}
    # Those whose account of the replicas comes from all ranks wait for it; here the shapes are new in them.
    assert {one.split(":")[0] for one in waits} == {"step 1", "step 3"}


# -- what is kept of a run ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "strategy", "at"),
    [("cuda:1", "single", 3), ("cuda:0", "single", 2 * WARM_UP), ("cuda:2,cuda:1", "split", 3), ("cuda:1,cuda:2", "dp", 6)],
)
def test_a_run_that_goes_on_draws_what_it_would_have_drawn(
    tmp_path: Path, cards: Cards, monkeypatch: pytest.MonkeyPatch, device: str, strategy: str, at: int
) -> None:
    """Each card's generator is part of a checkpoint; the run that goes on begins with other ones."""
    count_as_built_in(monkeypatch)
    changes = {"model": "engine_small:make_dropout_net", "optimizer": "adam", "batch_size": 10, "epochs": 3}
    config = small_config(device=device, strategy=strategy, **changes)
    expected = losses_of(finished(config, tmp_path / "whole"))
    found = losses_of(run(config, FakeControl(tmp_path / "broken", {at: ["stop"]})))
    assert max(found) == at
    for generator in cards.generators:
        generator.manual_seed(99)
    found |= losses_of(go_on(config, FakeControl(tmp_path / "broken")))
    assert found == expected


@pytest.mark.parametrize(("before", "after"), [("cuda:0", "cpu"), ("cpu", "cuda:1"), ("cuda:0", "cuda:1")])
@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam"}], ids=["sgd", "adam"])
def test_a_run_goes_on_elsewhere(tmp_path: Path, cards: Cards, before: str, after: str, optimizer: dict[str, Any]) -> None:
    config = small_config(precision="fp64", device=before, **AVERAGED, **optimizer)
    expected = losses_of(on_the_cpu(config, tmp_path / "cpu"))
    found = losses_of(run(config, FakeControl(tmp_path / "moved", {18: ["stop"]})))
    cards.touched.clear()
    found |= losses_of(go_on(with_changes(config, {"device": after}), FakeControl(tmp_path / "moved")))
    assert found == pytest.approx(expected, rel=1e-9)
    assert cards.touched == ({1} if after == "cuda:1" else set())


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cuda:1", "optimizer": "adam", "augment": "crop-flip", "tta": True},
        {"device": "cuda:1,cuda:2", "strategy": "split", "momentum": 0.9},
        {"device": "cuda:1,cuda:2", "strategy": "dp", "output_device": "cuda:2"},
    ],
    ids=["single", "split", "dp"],
)
def test_an_exported_script_trains_on_its_cards(tmp_path: Path, cards: Cards, changes: dict[str, Any]) -> None:
    text, losses, evals = exported(small_config(precision="fp64", epochs=1, **changes), tmp_path)
    cards.touched.clear()
    compare(executed(text), losses, evals, 1e-9, 0.0)
    assert cards.touched == {int(name[-1]) for name in changes["device"].split(",")}


def test_a_trial_looks_for_the_largest_batch(tmp_path: Path, cards: Cards) -> None:
    answer = measure(Trial(config=small_config(device="cuda:2"), folder=str(tmp_path), steps=2, warmup=1, seconds=60.0))
    assert (answer.error, answer.devices, answer.steps, answer.largest, answer.largest_by) == (None, ("cuda:2",), 2, 50, "data")
    assert answer.memory == (torch.cuda.max_memory_allocated("cuda:2"),)
    assert cards.touched == {2}


# -- cards that fail ------------------------------------------------------------------------------------------------------


def test_a_computation_that_breaks_cuda_ends_the_run_and_not_the_process(
    tmp_path: Path, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses are on their way to the host then, into memory that torch cannot free any more."""

    def breaking(scores: Tensor) -> Tensor:
        if cards.sending:
            cards.fail("CUDA error: device-side assert triggered")
            cards.ask()
        return scores

    monkeypatch.setattr("engine_small.make_net", lambda config: Wrong(breaking))
    ended = of(RunEnded, run(small_config(device="cuda:1"), FakeControl(tmp_path)))[0]
    assert (ended.state, ended.step) == ("failed", 2)
    assert "CUDA error: device-side assert triggered" in ended.error
    gc.collect()
    assert cards.aborted == 0


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize("fails", ["tryouts.model._in_memory", "prepare.copies", "prepare.warm_up"])
def test_what_a_refused_run_has_made_on_a_card_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """The error that refuses it goes through the frames that hold it."""
    made: list[Any] = []
    left: list[bool] = []

    def build(*given: Any) -> nn.Module:
        model = build_model(*given)
        made.append(weakref.ref(model.get_parameter("0.weight")))
        return model

    def full(*given: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr("tuitrain.engine.prepare.build_model", build)
    monkeypatch.setattr(f"tuitrain.engine.{fails}", full)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: left.append(made[0]() is not None))
    with pytest.raises(ConfigError, match=r"device: cuda:1 (has no room|ran out of memory)"):
        run(small_config(device="cuda:1", target_accuracy=0.5), FakeControl(tmp_path))
    assert left == [False]


@pytest.mark.usefixtures("cards")
def test_cublas_gives_its_workspaces_back_before_torch_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While cuBLAS holds them they are no part of the cache."""
    done: list[str] = []
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: done.append("workspaces"), raising=False)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("cache"))
    run(small_config(device="cuda:1"), FakeControl(tmp_path))
    assert done == ["workspaces", "cache"]


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize(("alone", "fails", "given_back"), [(True, True, 1), (False, True, 0), (True, False, 1), (False, False, 1)])
def test_an_error_in_a_group_is_not_held_up_for_memory(monkeypatch: pytest.MonkeyPatch, alone: bool, fails: bool, given_back: int) -> None:
    """CUDA waits for the device before it frees memory, and the device for a rank that may have died."""
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("cache"))
    with suppress(ZeroDivisionError), run_settings(small_config(device="cuda:1"), [torch.device("cuda:1")], alone=alone):
        _ = 1 / (0 if fails else 1)
    assert len(done) == given_back


@pytest.mark.parametrize("device", ["cuda:1", "cuda:0,cuda:1", "cpu,cuda:1"])
def test_a_card_for_which_torch_has_no_kernels_is_refused_before_the_run_begins(tmp_path: Path, cards: Cards, device: str) -> None:
    cards.without_kernels = {1}
    with pytest.raises(ConfigError) as refused:
        run(small_config(device=device, strategy="split"), FakeControl(tmp_path))
    reason = "this torch has no kernels for it; `tuitrain doctor` says which one has"
    assert str(refused.value) == f"device: cuda:1 cannot be used: {reason}."


# -- whether the cards that are made believe see what a step must not do ---------------------------------------------------


class Wrong(nn.Module):
    """Does what it should not in each training step."""

    def __init__(self, wrong: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.wrong = nn.Linear(192, CLASSES), wrong

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.layer(inputs.flatten(1))
        return self.wrong(scores) if self.training else scores


WAITING: dict[str, Callable[[Tensor], Tensor]] = {
    "item": lambda scores: scores * scores.detach().sum().item(),
    "float": lambda scores: scores * float(scores.detach().sum()),
    "bool": lambda scores: scores * 2 if scores.mean() > 0 else scores,
    "tolist": lambda scores: scores * scores.detach()[0, 0].tolist(),
    "nonzero": lambda scores: scores + len(scores.detach().nonzero()),
    "mask": lambda scores: scores + scores[scores > 0].sum(),
    "to the cpu and back": lambda scores: scores.to("cpu").to(scores.device),
    "made on the host": lambda scores: scores + torch.tensor([1.0] * CLASSES, device=scores.device),
    "made on the host of a tensor": lambda scores: scores + scores.new_tensor([1.0] * CLASSES),
    "index of the host": lambda scores: scores[:, torch.arange(CLASSES)],
    "synchronize": lambda scores: (torch.cuda.synchronize(), scores)[1],
}
MIXING: dict[str, Callable[[Tensor], Tensor]] = {
    "added": lambda scores: scores + torch.tensor([1.0] * CLASSES),
    "multiplied": lambda scores: scores @ torch.eye(CLASSES),
    "of another card": lambda scores: scores + torch.ones(CLASSES, device="cuda:0"),
    "moved away": lambda scores: scores.cpu(),
}


@pytest.mark.parametrize("wrong", WAITING)
def test_what_waits_is_seen(tmp_path: Path, waits: list[str], monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setattr("engine_small.make_net", lambda config: Wrong(WAITING[wrong]))
    finished(small_config(device="cuda:1", epochs=1, max_steps=2), tmp_path)
    assert {one.split(":")[0] for one in waits} == {"step 1", "step 2"}


@pytest.mark.parametrize("wrong", MIXING)
def test_what_mixes_devices_fails(tmp_path: Path, cards: Cards, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setattr("engine_small.make_net", lambda config: Wrong(MIXING[wrong]))
    events = run(small_config(device="cuda:1"), FakeControl(tmp_path))
    assert "Expected all tensors to be on the same device" in of(RunEnded, events)[0].error


def test_numbers_of_the_host_go_along(tmp_path: Path, waits: list[str], cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_small.make_net", lambda config: Wrong(lambda scores: scores * torch.tensor(2.0) + 1))
    finished(small_config(device="cuda:1", epochs=1, max_steps=2), tmp_path)
    assert waits == []


def test_a_copy_to_the_host_is_not_there_before_it_has_landed(cards: Cards) -> None:
    values, host = torch.ones(3, device="cuda:0"), torch.empty(3, pin_memory=True)
    landed = torch.cuda.Event()
    host.copy_(values, non_blocking=True)
    landed.record()
    assert host.isnan().all()
    assert not landed.query()
    assert landed.query()
    assert host.tolist() == [1, 1, 1]
    assert cards.waits == []

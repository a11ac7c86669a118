"""Learning rates that fall along a cosine: torch's own, for each optimizer, in scripts and in runs that go on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from engine_small import FakeControl, go_on, losses_of, of, run, small_config
from safetensors.torch import load_file
from test_export_script import compare, executed, exported

from tuitrain.config import ConfigError
from tuitrain.engine.check import check
from tuitrain.events import Notice, Step


def torchs(lr: float, steps: int) -> list[float]:
    """The rates of `steps` steps by torch's own schedule."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("changes", [{"momentum": 0.9}, {"optimizer": "adamw"}, {"max_steps": 10}], ids=["sgd", "adamw", "fewer steps"])
def test_a_cosine_is_torchs(tmp_path: Path, changes: dict[str, object]) -> None:
    events = of(Step, run(small_config(lr=0.05, lr_schedule="cosine", epochs=2, **changes), FakeControl(tmp_path)))
    assert [event.lr for event in events] == pytest.approx(torchs(0.05, len(events)), abs=1e-9)
    assert len(events) == changes.get("max_steps", 14)


def test_a_run_on_a_cosine_goes_on_bit_for_bit(tmp_path: Path) -> None:
    config = small_config(lr_schedule="cosine", optimizer="adam")
    unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
    run(config, FakeControl(tmp_path / "broken", {6: ["stop"]}))
    assert losses_of(go_on(config, FakeControl(tmp_path / "broken"))) == {step: loss for step, loss in unbroken.items() if step > 6}


def test_a_cosine_as_a_script(tmp_path: Path) -> None:
    text, losses, evals = exported(small_config(precision="fp64", lr=0.1, lr_schedule="cosine"), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 0.0)
    assert "import tuitrain" not in text


# -- warm-up ------------------------------------------------------------------------------------------------------------


def warmed(lr: float, steps: int, warmup: int, rest: Sequence[float]) -> list[float]:
    return [*(lr * step / warmup for step in range(1, warmup + 1)), *rest][:steps]


@pytest.mark.parametrize("warmup", [1, 5, 14, 20])
@pytest.mark.parametrize("schedule", ["none", "cosine"])
def test_a_warm_up_is_a_straight_line_and_the_schedule_has_the_rest(tmp_path: Path, schedule: str, warmup: int) -> None:
    events = of(Step, run(small_config(lr=0.05, lr_schedule=schedule, warmup_steps=warmup, epochs=2), FakeControl(tmp_path)))
    left = max(0, 14 - warmup)
    rest = torchs(0.05, left) if schedule == "cosine" else [0.05] * left
    assert [event.lr for event in events] == pytest.approx(warmed(0.05, 14, warmup, rest), abs=1e-9)


def test_a_warm_up_that_is_longer_than_the_run_is_warned_of(tmp_path: Path) -> None:
    config = small_config(lr=0.05, warmup_steps=1500, epochs=2)
    text = "warmup_steps is 1,500, and the run has 14 steps: the learning rate does not reach 0.05."
    assert text in [notice.text for notice in of(Notice, run(config, FakeControl(tmp_path)))]


def test_a_run_that_warms_up_goes_on_bit_for_bit(tmp_path: Path) -> None:
    config = small_config(lr_schedule="cosine", warmup_steps=8, max_grad_norm=0.5)
    unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
    run(config, FakeControl(tmp_path / "broken", {6: ["stop"]}))
    assert losses_of(go_on(config, FakeControl(tmp_path / "broken"))) == {step: loss for step, loss in unbroken.items() if step > 6}


# -- of the person's own ----------------------------------------------------------------------------------------------


def thirds(done: int, total: int) -> float:
    return 0.5 ** (3 * done // total)


def drawing_late(done: int, total: int) -> torch.Tensor:
    return torch.tensor(0.5) + (0 * torch.rand(()) if done >= 5 else 0)


def of_one(done: int) -> float:
    return 1.0


def short(done: int, total: int) -> float:
    return [1.0, 0.5][done]


def negative(done: int, total: int) -> float:
    return 1.0 if done < total - 1 else -1.0


def without_end(done: int, total: int) -> float:
    return float("inf")


class Class:
    pass


@pytest.mark.parametrize("warmup", [0, 2])
def test_a_schedule_of_ones_own_is_asked_how_far_the_run_is(tmp_path: Path, warmup: int) -> None:
    config = small_config(lr=0.05, lr_schedule="test_schedule:thirds", warmup_steps=warmup, epochs=2)
    events = of(Step, run(config, FakeControl(tmp_path)))
    left = 14 - warmup
    rates = [*(0.05 * step / warmup for step in range(1, warmup + 1)), *(0.05 * thirds(done, left) for done in range(left))]
    assert [event.lr for event in events] == pytest.approx(rates, abs=1e-12)


@pytest.mark.parametrize("changes", [{}, {"warmup_steps": 3}, {"device": "cpu,cpu", "optimizer": "torch.optim:Adagrad"}])
def test_a_schedule_of_ones_own_in_a_script_and_in_a_run_that_goes_on(tmp_path: Path, changes: dict[str, object]) -> None:
    config = small_config(precision="fp64", lr=0.05, lr_schedule="test_schedule:thirds", **changes)
    text, losses, evals = exported(config, tmp_path / "unbroken")
    compare(executed(text), losses, evals, 1e-9, 0.0)
    run(config, FakeControl(tmp_path / "broken", {6: ["stop"]}))
    assert losses_of(go_on(config, FakeControl(tmp_path / "broken"))) == {step: loss for step, loss in losses.items() if step > 6}


def test_what_it_draws_changes_nothing_before_the_run_and_a_tensor_is_a_number(tmp_path: Path) -> None:
    drawing = small_config(lr=0.1, model="engine_small:make_dropout_net", lr_schedule="test_schedule:drawing_late")
    plain = small_config(lr=0.05, model="engine_small:make_dropout_net")
    steps = of(Step, run(drawing, FakeControl(tmp_path / "drawing", {3: ["stop"]})))
    assert [(type(step.lr), step.lr) for step in steps] == [(float, 0.05)] * 3
    # The network drops what it would without the schedule.
    without = losses_of(run(plain, FakeControl(tmp_path / "plain", {3: ["stop"]})))
    assert list(without.values()) == [step.loss for step in steps]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "test_schedule:of_one",
            "'test_schedule:of_one' cannot be called with two numbers; it must be a function of two numbers, the steps",
        ),
        ("test_schedule:Class", "'test_schedule:Class' is a class; it must be a function of two numbers, the steps that are done and the"),
        ("test_schedule:short", "'test_schedule:short' raised IndexError: list index out of range (test_schedule.py, line "),
        ("test_schedule:negative", "'test_schedule:negative' gives -1.0 after 13 of 14 steps; it must give a number of 0 or more."),
        ("test_schedule:without_end", "'test_schedule:without_end' gives inf after 0 of 14 steps; it must give a number of 0 or more."),
        ("test_schedule:third", "the module test_schedule has no 'third'. Did you mean 'thirds'?"),
    ],
)
def test_a_schedule_that_gives_no_rate_is_one_sentence(tmp_path: Path, name: str, said: str) -> None:
    config = small_config(lr_schedule=name, epochs=2)
    with pytest.raises(ConfigError) as error:
        run(config, FakeControl(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert str(error.value).startswith("lr_schedule: ")
    assert said in str(error.value)


def test_a_run_for_the_queue_is_refused_for_a_schedule_that_is_not_there() -> None:
    check(small_config(lr_schedule="test_schedule:short"))  # how many steps there will be is not known yet
    for name in ("third", "Class", "of_one"):
        with pytest.raises(ConfigError, match=rf"^lr_schedule: 'test_schedule:{name}'"):
            check(small_config(lr_schedule=f"test_schedule:{name}"))


# -- clipped gradients --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("device", "strategy"), [("cpu", "single"), ("cpu,cpu", "split")])
@pytest.mark.parametrize("schedule", ["none", "cosine"])
def test_clipped_and_warmed_up_as_a_script(tmp_path: Path, device: str, strategy: str, schedule: str) -> None:
    changes = {"lr": 0.5, "warmup_steps": 3, "lr_schedule": schedule, "max_grad_norm": 0.05, "device": device, "strategy": strategy}
    text, losses, evals = exported(small_config(precision="fp64", **changes), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 0.0)
    assert "clip_grad_norm_" in text


def test_gradients_are_no_longer_than_asked_for(tmp_path: Path) -> None:
    """Without momentum an update is the learning rate times the gradient, so no step moves the weights by more."""

    def moved(**changes: object) -> list[float]:
        config = small_config(lr=0.5, epochs=1, checkpoint_every_steps=1, keep_checkpoints=99, **changes)
        folder = tmp_path / str(len(changes))
        run(config, FakeControl(folder))
        saved = sorted((folder / "checkpoints").glob("step-*"))
        weights = [torch.cat([one.flatten() for one in load_file(each / "model.safetensors").values()]) for each in saved]
        return [float((after - before).norm()) for before, after in pairwise(weights)]

    free, clipped = moved(), moved(max_grad_norm=0.05)
    assert len(free) == len(clipped) == 6
    assert max(free) > 0.5 * 0.05
    assert max(clipped) <= 0.5 * 0.05 * (1 + 1e-5)

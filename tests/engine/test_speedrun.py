"""The recipe `speedrun-94`: its parts against plain references, and the whole of it against a plain PyTorch script."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from engine_small import SAMPLES, FakeControl, go_on, losses_of, of, run, small_config
from test_export_devices import STARTED
from test_export_script import compare, executed, exported
from torch import nn

from benchmarks import plain_speedrun
from tuitrain.config import ConfigError, RunConfig, with_changes
from tuitrain.engine import export
from tuitrain.engine.augment import flip_shift, moves
from tuitrain.engine.averaging import Lookahead
from tuitrain.engine.batches import Batches
from tuitrain.engine.data import Split
from tuitrain.engine.datasets.synthetic import synthetic_images
from tuitrain.engine.models import build_model
from tuitrain.engine.optim import make_optimizer
from tuitrain.engine.run import Run
from tuitrain.engine.schedule import make_schedule, triangle
from tuitrain.engine.speedrun import SpeedrunNet
from tuitrain.engine.views import six_views
from tuitrain.engine.warm_up import fit, warm_up
from tuitrain.events import Clock, Eval, Event, Notice, Progress, RunEnded, Step
from tuitrain.recipes import load_recipe

CPU = torch.device("cpu")
made_up = functools.cache(synthetic_images)


def make_few(config: Any) -> Any:
    """Five images to train on, so that the last batch of two has one, and two to test with; no smaller ones fit through the network."""
    return few_images(5, 25)


def make_nine(config: Any) -> Any:
    """Nine images to train on, five steps an epoch, and two to test with, as large as CIFAR's."""
    return few_images(9, 32)


def few_images(count: int, side: int) -> Any:
    images, labels, test_images, test_labels = (part[..., :side, :side] if part.dim() == 4 else part for part in made_up())
    # The plain script's network has ten classes.
    return (images[:count].clone(), labels[:count].clone()), (test_images[:2].clone(), torch.tensor([int(test_labels[0]), 9]))


def make_few_without_test(config: Any) -> Any:
    return make_few(config)[0], None


def few(**changes: Any) -> RunConfig:
    """The recipe on five images: three steps an epoch, eighteen in all, with a learning rate for batches of two.

    The slow weights begin in the middle of the fourth epoch, and are met again at the end of the fifth.
    """
    small = {"data": "test_speedrun:make_few", "device": "cpu", "batch_size": 2, "epochs": 6, "max_steps": 18, "precision": "fp64"}
    return with_changes(load_recipe("speedrun-94"), small | {"lr": 0.02} | changes)


# -- the network --------------------------------------------------------------------------------------------------------


def test_the_network_is_the_one_of_the_recipe() -> None:
    net = build_model(few())
    assert isinstance(net, SpeedrunNet)
    assert sum(parameter.numel() for parameter in net.parameters()) == 1_972_792
    convolutions = [layer for layer in net.layers if isinstance(layer, nn.Conv2d)]
    assert [(layer.in_channels, layer.out_channels) for layer in convolutions] == [
        *((24, 64), (64, 64), (64, 256)),
        *((256, 256), (256, 256), (256, 256)),
    ]
    inputs = torch.randn(2, 24, 9, 9)
    torch.testing.assert_close(convolutions[0](inputs)[:, :24], inputs)
    assert not torch.equal(convolutions[0].weight[24], convolutions[0].weight[25])
    frozen = {name for name, parameter in net.named_parameters() if not parameter.requires_grad}
    scales = {f"layers.{number}.weight" for number, layer in enumerate(net.layers) if isinstance(layer, nn.BatchNorm2d)}
    assert frozen == scales | {"whitening.weight"}
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 10)


def test_the_fitted_convolution_whitens_patches() -> None:
    net = SpeedrunNet()
    # Smooth, so that neighbouring pixels are much alike.
    images = nn.functional.interpolate(torch.rand(600, 3, 8, 8), size=(16, 16), mode="bilinear")
    net.fit(images)
    with torch.no_grad():
        white = net.whitening(net.normalised(images)).double().transpose(0, 1).flatten(1)
    covariance = white[:12] @ white[:12].T / white.shape[1]
    # A little is added to each variance before it is divided by, which counts where there is hardly any.
    assert torch.diag(covariance).min() > 0.5
    assert torch.diag(covariance).max() <= 1.0001
    off = covariance - torch.diag(torch.diag(covariance))
    assert off.abs().max() < 1e-4
    torch.testing.assert_close(white[12:], -white[:12])


def test_groups_of_parameters() -> None:
    config = few()
    net = build_model(config)
    optimizer = make_optimizer(config, net)
    weights, biases, first = optimizer.param_groups
    trained = {id(parameter) for parameter in net.parameters() if parameter.requires_grad}
    assert {id(one) for group in optimizer.param_groups for one in group["params"]} == trained
    assert all(one.dim() == 1 for one in biases["params"])
    assert (weights["lr"], biases["lr"]) == (0.02, 1.28)
    assert biases["lr"] * biases["weight_decay"] == pytest.approx(weights["lr"] * weights["weight_decay"])
    schedule = make_schedule(config, optimizer, 30)
    schedule(1, 1)
    assert [group["lr"] for group in (weights, biases, first)] == pytest.approx([0.004, 0.256, 0.004])
    schedule(16, 4)
    assert first["lr"] == 0
    assert weights["lr"] == pytest.approx(0.02 * triangle(15, 30))
    assert weights["nesterov"]


def test_a_groups_own_epochs_count_without_a_schedule_too() -> None:
    config = few(lr_schedule="none")
    optimizer = make_optimizer(config, build_model(config))
    schedule = make_schedule(config, optimizer, 30)
    for epoch, expected in ((3, [0.02, 1.28, 0.02]), (4, [0.02, 1.28, 0.0])):
        schedule(1, epoch)
        assert [group["lr"] for group in optimizer.param_groups] == expected


# -- its training -------------------------------------------------------------------------------------------------------


def test_the_schedule_at_its_corners() -> None:
    assert [triangle(0, 476), triangle(109, 476), triangle(476, 476)] == pytest.approx([0.2, 1.0, 0.07])
    reference = np.interp(np.arange(477), [0, 109, 476], [0.2, 1, 0.07])
    assert [triangle(step, 476) for step in range(477)] == pytest.approx(list(reference))
    assert triangle(0, 1) == 1


def test_every_image_is_seen_from_both_sides_in_two_epochs() -> None:
    first, second, third = (moves(1000, 5, epoch) for epoch in (1, 2, 3))
    assert torch.equal(first[0], ~second[0])
    assert torch.equal(first[0], third[0])
    assert 400 < int(first[0].sum()) < 600
    assert first[1].unique().tolist() == [-2, -1, 0, 1, 2]
    assert not torch.equal(first[1], third[1])
    assert not torch.equal(first[0], moves(1000, 6, 1)[0])


def test_a_moved_image_is_a_crop_of_the_reflected_one() -> None:
    images = torch.rand(50, 3, 32, 32)
    mirrored, shifts = moves(50, 0, 1)
    moved = flip_shift(images, mirrored, shifts)
    padded = nn.functional.pad(images, (2, 2, 2, 2), mode="reflect")
    for image, flip, (down, right), found in zip(padded, mirrored, shifts.tolist(), moved, strict=True):
        expected = image[:, 2 + down : 34 + down, 2 + right : 34 + right]
        assert torch.equal(found, expected.flip(2) if flip else expected)
    assert moved.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shuffle", [False, True])
def test_each_image_keeps_its_side_whatever_batch_it_is_in(shuffle: bool) -> None:
    """Ramps from left to right, whose brightness names them: which way one goes says whether it is mirrored."""
    pixels = torch.arange(20)[:, None] * 8 + torch.arange(8)
    split = Split(pixels[:, None, None, :].expand(20, 3, 8, 8).to(torch.uint8), torch.arange(20))
    batches = Batches(split, small_config(augment="flip-shift", batch_size=6, shuffle=shuffle))
    sides = []
    for epoch in (1, 2, 3):
        seen = {}
        for position in range(batches.per_epoch):
            inputs, labels = batches.get(epoch, position, 1)
            seen |= {int(label): bool(image[0, 0, 2] > image[0, 0, 5]) for image, label in zip(inputs, labels, strict=True)}
        sides.append([seen[label] for label in range(20)])
    assert sides[0] == [not side for side in sides[1]] == sides[2]
    assert sides[0] == moves(20, 0, 1)[0].tolist()


def test_the_lookahead_is_the_one_of_a_loop_written_by_hand() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).double()
    lookahead = Lookahead(model, 40)
    weight, count = model[0].weight, model[1].num_batches_tracked
    slow: torch.Tensor | None = None
    reference = weight.detach().clone()
    for step in range(1, 41):
        epoch = (step - 1) // 8 + 1
        with torch.no_grad():
            weight += step
            count += 1
        reference = reference + step
        lookahead.after_step(step, epoch)
        if epoch >= 4 and step % 5 == 0:
            stay = 0.95**5 * (step / 40) ** 3
            slow = reference if slow is None else stay * slow + (1 - stay) * reference
            reference = slow
        if step % 8 == 0:
            lookahead.go_back()
            reference = reference if slow is None else slow
        torch.testing.assert_close(weight.detach(), reference)
    assert slow is not None
    assert int(count) == 40, "a whole number is not averaged"


def test_six_views_are_the_mean_of_six_calls() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 30 * 30, 10))
    images = torch.rand(5, 3, 32, 32)
    padded = nn.functional.pad(images, (1, 1, 1, 1), mode="reflect")
    with torch.no_grad():
        expected = torch.zeros(5, 10)
        for weight, view in ((0.5, images), (0.25, padded[:, :, :32, :32]), (0.25, padded[:, :, 2:34, 2:34])):
            expected += weight * (net(view) + net(torch.flip(view, [3]))) / 2
        torch.testing.assert_close(six_views(net, images), expected)


def test_a_network_that_changes_its_inputs_in_place_sees_the_same_six_views() -> None:
    images = torch.rand(2, 3, 8, 8)
    expected = six_views(lambda view: (view * 2).flatten(1), images)
    assert torch.equal(six_views(lambda view: view.mul_(2).flatten(1), images), expected)


def test_an_evaluation_with_views_is_another_one(tmp_path: Path) -> None:
    plain, views = (of(Eval, run(small_config(tta=tta), FakeControl(tmp_path / str(tta))))[-1] for tta in (False, True))
    assert plain.loss != views.loss
    assert plain.loss == pytest.approx(views.loss, rel=0.5)


def test_smoothed_labels_and_a_schedule_are_for_every_model(tmp_path: Path) -> None:
    config = small_config(label_smoothing=0.3, lr_schedule="triangle", momentum=0.5, nesterov=True)
    events = run(config, FakeControl(tmp_path))
    rates = [event.lr for event in of(Step, events)]
    assert rates == pytest.approx([0.01 * triangle(step, 14) for step in range(14)])
    assert losses_of(events)[1] != losses_of(run(small_config(momentum=0.5), FakeControl(tmp_path / "plain")))[1]


def test_thirty_steps_are_those_of_a_plain_script(tmp_path: Path) -> None:
    events = run(few(seed=3, data="test_speedrun:make_nine", max_steps=30), FakeControl(tmp_path))
    train, test = make_nine(None)
    done = plain_speedrun.train(plain_speedrun.Data(train, test), 3, steps=30, epochs=6, batch=2, lr=0.02, precision="fp64")
    assert list(losses_of(events).values()) == pytest.approx(done.losses, rel=1e-9)
    assert of(Eval, events)[-1].accuracy == done.accuracy
    assert min(done.losses) < done.losses[0] - 0.5, "a network that learns nothing is like any other"


@pytest.mark.usefixtures("two_threads")
def test_in_bf16_too_steps_are_bit_for_bit_those_of_a_plain_script(tmp_path: Path) -> None:
    events = run(few(seed=3, data="test_speedrun:make_nine", max_steps=12, precision="bf16"), FakeControl(tmp_path))
    train, test = make_nine(None)
    done = plain_speedrun.train(plain_speedrun.Data(train, test), 3, steps=12, epochs=6, batch=2, lr=0.02, precision="bf16")
    assert list(losses_of(events).values()) == done.losses


def test_it_learns_in_a_few_steps(tmp_path: Path) -> None:
    changes = {"data": "synthetic", "device": "cpu", "batch_size": 24, "max_steps": 14, "precision": "fp32", "seed": 1}
    recipe = with_changes(load_recipe("speedrun-94"), changes | {"data": "test_speedrun:make_some"})
    losses = losses_of(run(recipe, FakeControl(tmp_path)))
    assert losses[1] == pytest.approx(2.31, abs=0.15)
    assert min(losses[step] for step in range(11, 15)) < 1.6


def make_some(config: Any) -> Any:
    images, labels, test_images, test_labels = made_up()
    return (images[:320].clone(), labels[:320].clone()), (test_images[:2].clone(), test_labels[:2].clone())


# -- going on, spreading, exporting -------------------------------------------------------------------------------------


TRICKS = {
    **{"lr_schedule": "triangle", "averaging": "lookahead", "augment": "flip-shift", "tta": True, "label_smoothing": 0.2},
    **{"momentum": 0.8, "nesterov": True, "shuffle": True, "epochs": 6},
}


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("config", "at"),
    [
        *((small_config(**TRICKS), at) for at in (3, 24, 25, 28, 33)),
        (small_config(device="cpu,cpu", **TRICKS), 32),
        (few(precision="fp32", max_steps=16, tta=False), 11),
    ],
    ids=["early", "before the slow weights", "at their first step", "at an epoch's end", "among them", "split", "its own network"],
)
def test_it_goes_on_bit_for_bit(tmp_path: Path, config: RunConfig, at: int) -> None:
    unbroken = run(config, FakeControl(tmp_path / "unbroken"))
    run(config, FakeControl(tmp_path / "broken", {at: ["stop"]}))
    torch.manual_seed(99)
    events = go_on(config, FakeControl(tmp_path / "broken"))
    expected = {step: loss for step, loss in losses_of(unbroken).items() if step > at}
    assert losses_of(events) == expected
    assert len(set(expected.values())) == len(expected) > 0
    assert of(Eval, events) == [event for event in of(Eval, unbroken) if event.step > at]
    assert not [notice for notice in of(Notice, events) if "bit for bit" in notice.text]


def test_going_on_to_another_end_says_that_the_schedule_is_another_one(tmp_path: Path) -> None:
    config = small_config(lr_schedule="triangle")
    run(config, FakeControl(tmp_path, {5: ["stop"]}))
    events = go_on(with_changes(config, {"epochs": 3}), FakeControl(tmp_path))
    assert "the number of planned steps is 21, and was 14" in of(Notice, events)[0].text


def test_two_replicas_and_the_script_of_them(tmp_path: Path) -> None:
    text, losses, evals = exported(small_config(device="cpu,cpu", precision="fp64", **TRICKS), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 0.0)
    assert len(losses) == 42


# In bf16, which is slow where the processor has no instructions for it, two epochs, in which it learns fast enough to show what is rounded.
@pytest.mark.parametrize(
    ("precision", "steps", "lr", "relative", "floor"), [("fp64", 13, 0.02, 1e-9, 0.0), ("bf16", 6, 0.3, 2e-4, 0.1)], ids=["fp64", "bf16"]
)
def test_the_recipe_as_a_script(tmp_path: Path, precision: str, steps: int, lr: float, relative: float, floor: float) -> None:
    text, losses, evals = exported(few(precision=precision, max_steps=steps, lr=lr), tmp_path)
    compare(executed(text), losses, evals, relative, floor)
    assert "import tuitrain" not in text
    assert re.search(rf"^optimizer = torch\.optim\.SGD\(groups, lr={lr}, momentum=0\.85, nesterov=True", text, re.MULTILINE)


def test_its_network_split_over_devices_as_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitting comes before the copies are made, and the groups are of the model that is updated."""
    data = {"data": "test_speedrun:make_few_without_test", "target_accuracy": None}
    config = few(device="cpu,cpu", precision="fp32", max_steps=7, **data)
    losses = losses_of(run(config, FakeControl(tmp_path)))
    on_gpus = with_changes(config, {"device": "cuda:0,cuda:1", "strategy": "split"})
    text = export.script(on_gpus, msgspec.structs.replace(STARTED, test_samples=0))
    assert "copy.deepcopy(model)" in text
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    # "cpu" and "cpu:0" are the same memory to torch, and two devices to the script.
    told = re.findall(r"^step \d+ loss (\S+)$", executed(text.replace('["cpu", "cpu"]', '["cpu", "cpu:0"]')), re.MULTILINE)
    assert list(map(float, told)) == pytest.approx(list(losses.values()), rel=2e-4)


# -- the clock ----------------------------------------------------------------------------------------------------------


def test_the_clock_counts_steps_and_the_last_evaluation(tmp_path: Path) -> None:
    config = small_config(target_accuracy=0.01)
    events = run(config, FakeControl(tmp_path))
    clocks, steps = of(Clock, events), of(Step, events)
    assert clocks[0].step == 0
    trained = sum(8 / step.samples_per_second if step.step % 7 else 2 / step.samples_per_second for step in steps)
    newest = [clock for clock in clocks if clock.step == 14]
    assert newest[0].seconds == pytest.approx(trained)
    assert newest[-1].seconds > newest[0].seconds, "the last evaluation counts"
    assert [clock.seconds for clock in clocks] == sorted(clock.seconds for clock in clocks)
    first = next(clock for clock in clocks if clock.crossed_epoch is not None)
    assert (first.step, first.crossed_epoch, first.crossed_seconds) == (7, 1, first.seconds)
    assert {(clock.crossed_epoch, clock.crossed_seconds) for clock in newest} == {(1, first.seconds)}
    told = [notice.text for notice in of(Notice, events)]
    assert told == [f"The test accuracy crossed 1 % at epoch 1, after {first.seconds:.2f} s of training."]


def test_a_target_that_is_not_reached_and_a_run_without_one(tmp_path: Path) -> None:
    clocks = of(Clock, run(small_config(target_accuracy=1.0, epochs=1), FakeControl(tmp_path / "high")))
    assert clocks
    assert all(clock.crossed_epoch is None for clock in clocks)
    assert not of(Clock, run(small_config(epochs=1), FakeControl(tmp_path / "none")))


def test_the_clock_goes_on_where_it_was(tmp_path: Path) -> None:
    config = small_config(target_accuracy=0.01)
    before = of(Clock, run(config, FakeControl(tmp_path, {9: ["stop"]})))[-1]
    after = of(Clock, go_on(config, FakeControl(tmp_path)))
    assert before.step == 9
    assert after[0] == before
    assert after[-1].seconds > before.seconds
    assert after[-1].crossed_seconds == before.crossed_seconds


def test_fitting_counts_and_other_models_need_none() -> None:
    split = Split(*make_few(None)[0])
    config = few(precision="fp32")
    net = build_model(config)
    assert isinstance(net, SpeedrunNet)
    before = net.whitening.weight.detach().clone()
    assert fit(net, split, config) > 0
    assert not torch.equal(net.whitening.weight, before)
    assert fit(nn.Linear(2, 2), split, config) == 0


def test_warming_up_leaves_no_trace() -> None:
    config = few(precision="fp32")
    net = build_model(config).train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    generator = torch.get_rng_state()
    warm_up(net, Batches(Split(*make_few(None)[0]), config), [2, 1], config, CPU)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert net.training
    assert all(parameter.grad is None for parameter in net.parameters())


class Compiled(nn.Module):
    """As torch.compile gives a model; notes each kind of call, for which a compiler works anew."""

    def __init__(self, model: nn.Module, calls: list[tuple[bool, int]]) -> None:
        super().__init__()
        self.model, self.calls = model, calls

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls.append((self.model.training, len(inputs)))
        scores: torch.Tensor = self.model(inputs)
        return scores


@pytest.mark.parametrize(
    "changes", [{}, {"model": "engine_small:make_dropout_net", "batch_size": 12, "shuffle": True}], ids=["net", "drops"]
)
def test_what_is_compiled_for_a_clock_is_compiled_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    config = small_config(target_accuracy=0.01, **changes)
    expected = losses_of(run(config, FakeControl(tmp_path / "plain")))
    calls: list[tuple[bool, int]] = []
    monkeypatch.setattr(torch, "compile", lambda model, dynamic: Compiled(model, calls))
    warm: list[set[tuple[bool, int]]] = []

    class Clocked(Run):
        def clock(self) -> Iterator[Event]:
            warm.append(set(calls))
            yield from super().clock()

    monkeypatch.setattr("tuitrain.engine.train.Run", Clocked)
    events = run(with_changes(config, {"compile": True}), FakeControl(tmp_path / "compiled"))
    assert losses_of(events) == expected
    size, last = config.batch_size, SAMPLES % config.batch_size
    assert warm == [{(True, size), (True, last), (False, size)}]
    phases = (progress.phase for progress in of(Progress, events))
    assert next(phase for phase in phases if not phase.startswith("calling ")) == "compiling"


def test_asked_to_end_while_it_is_compiled_a_run_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = FakeControl(tmp_path)

    def interrupted(model: nn.Module, dynamic: bool) -> nn.Module:
        control.ending = True
        raise RuntimeError("the C++ compiler was interrupted")

    monkeypatch.setattr(torch, "compile", interrupted)
    control.queue, control.fresh = ["interrupt"], False
    events = run(small_config(target_accuracy=0.01, compile=True), control)
    assert events[-1] == RunEnded(state="interrupted", step=0)


# -- what is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nesterov": True}, "nesterov: true needs a momentum above 0"),
        ({"label_smoothing": 0.1, "loss": "nll"}, "label_smoothing: 0.1 is for the loss cross_entropy; with nll it must be 0."),
        ({"label_smoothing": 1.0}, "label_smoothing: '1.0' is not allowed; it must be a number from 0 up to, not including, 1."),
        ({"target_accuracy": 94}, "target_accuracy: '94' is not allowed; it must be a number above 0 and up to 1, or none."),
        (
            {"lr_schedule": "triangel"},
            "lr_schedule: 'triangel' is not known; it must be one of none, cosine, triangle, or an import string",
        ),
        ({"averaging": "ema"}, "averaging: 'ema' is not allowed; it must be one of none, lookahead."),
        ({"tta": 2}, "tta: '2' is not allowed; it must be true or false."),
    ],
)
def test_what_is_not_allowed_is_a_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        small_config(**changes)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tta": True}, "tta: true is for images; a sample of random is [5] with batch_dim 0."),
        ({"augment": "flip-shift"}, "augment: flip-shift is for images"),
        ({"target_accuracy": 0.9}, "target_accuracy: 0.9 is of test data, and random has none; it must be none."),
    ],
)
def test_what_the_data_does_not_allow_is_a_sentence(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        run(small_config(model="linear", data="random", **changes), FakeControl(tmp_path))
    assert words in str(refusal.value)


def test_samples_that_it_cannot_be_fitted_to_are_the_datas_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(net: SpeedrunNet, images: torch.Tensor) -> None:
        raise torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge.")

    monkeypatch.setattr(SpeedrunNet, "fit", failing)
    config = with_changes(load_recipe("speedrun-94"), {"data": "synthetic", "device": "cpu"})
    with pytest.raises(
        ConfigError, match=r"^data: speedrun cannot be fitted to these samples: linalg.eigh: The algorithm failed to converge.$"
    ):
        run(config, FakeControl(tmp_path))


def test_images_of_another_size_are_refused_before_anything_is_fitted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="model: 'speedrun' does not take inputs"):
        run(small_config(model="speedrun"), FakeControl(tmp_path))

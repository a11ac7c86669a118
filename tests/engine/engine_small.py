"""Small things that the engine's tests train with: a fake host, small data, small models. Import strings name them as `engine_small:…`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tuitrain.config import DEFAULTS, RunConfig, with_changes
from tuitrain.engine.train import train
from tuitrain.events import Event, Losses, RunStarted, Step
from tuitrain.text import print_error

SAMPLES, TEST_SAMPLES, CLASSES = 50, 22, 4
STARTED = RunStarted(
    recipe="custom",
    device=("cpu",),
    strategy="single",
    data="custom",
    parameters=1,
    train_samples=SAMPLES,
    test_samples=TEST_SAMPLES,
    steps_per_epoch=7,
    total_steps=14,
)


class FakeControl:
    """A host that asks for things at chosen moments.

    Args:
        folder: the run folder; made when missing.
        plan: boundary number (from 1) -> the requests that arrive there, in order.
    """

    def __init__(self, folder: Path, plan: dict[int, list[str]] | None = None) -> None:
        self.folder = Path("not-set-yet")
        folder.mkdir(exist_ok=True)
        self.given_folder = folder
        self.resolved: RunConfig | None = None
        self.environment: dict[str, Any] = {}
        self.free_cuda_devices: Callable[[], Sequence[int] | None] = list
        self.ending = False
        self.plan = plan or {}
        self.boundary = 0
        self.queue: list[str] = []
        self.fresh = True

    def placed(self, devices: Sequence[str]) -> None:
        self.devices = tuple(devices)

    def recorded(self) -> None:
        pass

    def raised(self, error: BaseException) -> None:
        print_error(error)

    def stay(self) -> None:
        self.ending = False

    def take(self, *, wait: bool) -> Any:
        if self.fresh:
            self.boundary += 1
            self.queue += self.plan.get(self.boundary, [])
        if self.queue:
            self.fresh = False
            request = self.queue.pop(0)
            if request in ("stop", "interrupt"):
                self.ending = False
            return request
        assert not wait, "the run waits for a request that never comes"
        self.fresh = True
        return None


def small_config(**changes: Any) -> RunConfig:
    small = {"data": "engine_small:make_images", "model": "engine_small:make_net", "device": "cpu", "batch_size": 8, "epochs": 2}
    return with_changes(DEFAULTS, small | changes)


def run(config: RunConfig, control: FakeControl) -> list[Event]:
    """All events of a run; the folder is given when the host would give it."""
    events = []
    for event in train(config, control):
        if isinstance(event, RunStarted):
            control.folder = control.given_folder
        events.append(event)
    return events


def go_on(config: RunConfig, control: FakeControl) -> list[Event]:
    """All events of a run that goes on in a folder that holds it."""
    control.folder = control.given_folder
    return list(train(config, control))


def of(kind: type, events: Sequence[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def losses_of(events: Sequence[Event]) -> dict[int, float]:
    """Every step's loss, from the `Losses` blocks."""
    return {block.first_step + i: loss for block in of(Losses, events) for i, loss in enumerate(block.losses)}


def logged_steps(events: Sequence[Event]) -> list[int]:
    return [event.step for event in of(Step, events)]


def make_images(config: Any) -> Any:
    """Small images [N, 3, 8, 8] whose class shows in their brightness."""
    generator = torch.Generator().manual_seed(3)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        labels = torch.randint(CLASSES, (count,), generator=generator)
        noise = torch.randint(100, (count, 3, 8, 8), generator=generator)
        return (noise + labels.view(-1, 1, 1, 1) * 50).to(torch.uint8), labels

    return part(SAMPLES), part(TEST_SAMPLES)


def make_images_without_test(config: Any) -> Any:
    return make_images(config)[0], None


def make_counted_from_one(config: Any) -> Any:
    (inputs, labels), _ = make_images(config)
    return (inputs, labels + 1), None


def make_flat(config: Any) -> Any:
    """The small images as rows of numbers [N, 192]: models keep them in contiguous memory."""
    return tuple((inputs.contiguous().flatten(1), labels) for inputs, labels in make_images(config))


def make_floats(config: Any) -> Any:
    """The small images as floats from 0 to 1, which are taken as they are."""
    return tuple((inputs / 255, labels) for inputs, labels in make_images(config))


def make_holed(config: Any) -> Any:
    """The small images as floats, one of which is not measured in one place."""
    train, test = make_floats(config)
    train[0][21, 2, 0, 3] = np.nan
    return train, test


def make_holed_tests(config: Any) -> Any:
    """The same, where two test images are so."""
    train, test = make_floats(config)
    test[0][[9, 13], 2, 0, 3] = np.nan
    return train, test


def make_thin(config: Any) -> Any:
    """Images that are one pixel high."""
    return tuple((inputs[:, :, :1], labels) for inputs, labels in make_images(config))


def make_large_images(config: Any) -> Any:
    """A few images as large as CIFAR's [N, 3, 32, 32]; an epoch's last batch of 8 has 4."""
    (inputs, labels), (test_inputs, test_labels) = make_images(config)
    return (inputs[:12].repeat(1, 1, 4, 4), labels[:12]), (test_inputs[:6].repeat(1, 1, 4, 4), test_labels[:6])


def make_large_floats(config: Any) -> Any:
    return tuple((inputs / 255, labels) for inputs, labels in make_large_images(config))


def make_large_floats_without_test(config: Any) -> Any:
    return make_large_floats(config)[0], None


def make_net(config: Any) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, CLASSES))


class _FirstPass(nn.Module):
    """Keeps how many samples its first pass had, as layers do that take their scale from it, and makes its layer then where it has none."""

    def __init__(self, layer: nn.Module | None) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("first", torch.tensor(0))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if not self.first:
            self.first.fill_(len(inputs))
        if self.layer is None:
            self.layer = nn.Linear(16, CLASSES)
        return self.layer(inputs)


def make_first_pass(config: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 16), _FirstPass(nn.Linear(16, CLASSES)))


class _NoRoom(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


class _Large(nn.Linear):
    """There is no room for what a copy of it computes."""

    def __deepcopy__(self, memo: Any) -> nn.Module:
        return _NoRoom()


def make_large(config: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), _Large(192, CLASSES))


def make_growing(config: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 16), _FirstPass(None))


def make_log_net(config: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, CLASSES), nn.LogSoftmax(1))


class LeNet(nn.Module):
    """The network of PyTorch's CIFAR-10 tutorial, as it is mostly written."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.pool = nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5), nn.MaxPool2d(2, 2)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16 * 5 * 5, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(nn.functional.relu(self.conv1(x)))
        x = self.pool(nn.functional.relu(self.conv2(x)))
        x = x.view(-1, 16 * 5 * 5)
        return self.fc3(nn.functional.relu(self.fc2(nn.functional.relu(self.fc1(x)))))


def make_lenet(config: Any) -> nn.Module:
    return LeNet()


class ViewOfInputs(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs.view(inputs.size(0), -1))


def make_view_of_inputs(config: Any) -> nn.Module:
    return ViewOfInputs(3 * 32 * 32, CLASSES)


class ViewOnTheWay(nn.Module):
    """Has a view where it is asked for: in training alone, or on the way back."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.conv, self.layer, self.where = nn.Conv2d(3, 8, 3), nn.Linear(8, CLASSES), where

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        maps = self.conv(inputs)
        if self.training and self.where == "training":
            maps = maps * maps.view(len(maps), -1).mean()
        elif self.where == "backward" and maps.requires_grad:
            maps = maps.relu()
            maps.register_hook(lambda gradient: gradient.view(len(gradient), -1).view_as(gradient))
        return self.layer(maps.mean((2, 3)))


def make_view_in_training(config: Any) -> nn.Module:
    return ViewOnTheWay("training")


def make_view_in_backward(config: Any) -> nn.Module:
    return ViewOnTheWay("backward")


def make_dropout_net(config: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, CLASSES))


class InPlace(nn.Module):
    """Changes its inputs where they are, as a layer with `inplace=True` does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs.mul_(2).sub_(0.5).flatten(1))


def make_in_place(config: Any) -> nn.Module:
    return InPlace()


class Forgetful(nn.Linear):
    """Has a `train` that returns nothing."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs.flatten(1))

    def train(self, mode: bool = True) -> Any:
        super().train(mode)


def make_forgetful(config: Any) -> nn.Module:
    return Forgetful(192, CLASSES)


def make_with_gradients(config: Any) -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, CLASSES))
    model(torch.rand(2, 3, 8, 8)).square().sum().backward()
    return model


class Chance(nn.Linear):
    """Draws from Python's and NumPy's generators in each forward."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs.flatten(1)) * (1 + random.random() + np.random.rand())


def make_chance(config: Any) -> nn.Module:
    return Chance(192, CLASSES)


class Breaking(nn.Module):
    """Raises what it is told in its n-th training forward, or in evaluation."""

    def __init__(self, error: BaseException, at: int | None) -> None:
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)
        self.error, self.at, self.calls, self.evaluations = error, at, 0, 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += self.training
        self.evaluations += not self.training
        # The first evaluation may be the try-out before the run.
        if self.calls == self.at if self.training else self.at is None and self.evaluations > 1:
            raise self.error
        return self.layer(inputs.flatten(1))


def make_raising(config: Any) -> nn.Module:
    return Breaking(ValueError("bad\nthing\x1b[2J"), 3)


def make_leaving(config: Any) -> nn.Module:
    return Breaking(SystemExit(3), 3)


def make_hungry(config: Any) -> nn.Module:
    return Breaking(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), 3)


def make_bad_evaluation(config: Any) -> nn.Module:
    return Breaking(ValueError("not in evaluation"), None)


class Silent(nn.Linear):
    """Gives numbers in training alone."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores = super().forward(inputs.flatten(1))
        return scores if self.training else scores * np.nan


def make_silent(config: Any) -> nn.Module:
    return Silent(192, CLASSES)


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        hidden = inputs.flatten(1)
        return self.layer(hidden), {"hidden": hidden}


def make_two_outputs(config: Any) -> nn.Module:
    return TwoOutputs()


class HiddenFirst(nn.Module):
    def __init__(self, key: str | None) -> None:
        super().__init__()
        self.layer, self.key = nn.Linear(192, CLASSES), key

    def forward(self, inputs: torch.Tensor) -> Any:
        hidden = inputs.flatten(1)
        scores = self.layer(hidden)
        return (hidden, scores) if self.key is None else {"hidden": hidden, self.key: scores}


def make_hidden_and_logits(config: Any) -> nn.Module:
    return HiddenFirst("logits")


def make_hidden_and_scores(config: Any) -> nn.Module:
    return HiddenFirst("scores")


def make_hidden_first(config: Any) -> nn.Module:
    return HiddenFirst(None)


class Noisy(nn.Module):
    """Draws in evaluation too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(192, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        scores = self.layer(inputs.flatten(1))
        return scores + torch.randn_like(scores)


def make_noisy(config: Any) -> nn.Module:
    return Noisy()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(192, CLASSES)
        self.second = nn.Linear(192, CLASSES)
        self.second.weight = self.first.weight

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.first(inputs.flatten(1)) + self.second(inputs.flatten(1))


def make_tied(config: Any) -> nn.Module:
    return Tied()


def make_class_numbers(config: Any) -> nn.Module:
    model = make_net(config)
    model.register_forward_hook(lambda module, inputs, output: output.long())
    return model


class Sparse(nn.Module):
    """One layer with dense gradients, and one with sparse ones."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.table = nn.Linear(192, CLASSES), nn.Embedding(256, CLASSES, sparse=True)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.dense(inputs.flatten(1)) + self.table((inputs[:, 0, 0, 0] * 255).long())


def make_sparse(config: Any) -> nn.Module:
    return Sparse()


def make_mapping(config: Any) -> nn.Module:
    """A float64 net that gives what a mapping holds, as half floats."""
    model = make_net(config).double()
    model.register_forward_hook(lambda module, inputs, output: {"name": "scores", "scores": (None, output.half())})
    return model


def device(config: Any) -> nn.Module:
    """Has the name of what an exported script has too."""
    return make_net(config)


def make_sequences(config: Any) -> Any:
    """The small images as sequences of 24 numbers, [N, 8, 24]."""
    return tuple((inputs.contiguous().view(-1, 8, 24), labels) for inputs, labels in make_floats(config))


class TimeFirst(nn.Linear):
    """Takes [T, N, C], as torch's recurrent layers do, and answers after the last of T."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return super().forward(inputs[-1])


def make_time_first(config: Any) -> nn.Module:
    return TimeFirst(24, CLASSES)


def make_normalized(config: Any) -> nn.Module:
    """Its normalization takes the mean over a batch of two or more."""
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(192), nn.Linear(192, CLASSES))


def make_squeezed(config: Any) -> nn.Module:
    """Takes away each axis of length one, that of a batch of one sample too."""
    model = make_net(config)
    model.register_forward_hook(lambda module, inputs, output: output.squeeze())
    return model


class FailsInTraining(nn.Linear):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        assert not self.training, "not written yet"
        return super().forward(inputs.flatten(1))


def make_failing_in_training(config: Any) -> nn.Module:
    return FailsInTraining(192, CLASSES)


def make_three_scores(config: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 3))


def make_nothing(config: Any) -> None:
    return None


def make_lazy(config: Any) -> nn.Module:
    return nn.LazyLinear(2)


def make_lazy_buffers(config: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyBatchNorm1d(affine=False), nn.Linear(192, CLASSES))


def make_meta(config: Any) -> nn.Module:
    return nn.Linear(192, CLASSES, device="meta")


def make_complex(config: Any) -> nn.Module:
    return nn.Linear(192, CLASSES, dtype=torch.complex64)


def make_complex_buffer(config: Any) -> nn.Module:
    model = nn.Linear(192, CLASSES)
    model.register_buffer("turns", torch.polar(torch.ones(4), torch.arange(4.0)))
    return model


def make_expanded(config: Any) -> nn.Module:
    model = nn.Linear(192, CLASSES)
    model.bias = nn.Parameter(torch.zeros(1).expand(CLASSES))
    return model


def make_expanded_buffer(config: Any) -> nn.Module:
    model = make_net(config)
    model.register_buffer("positions", torch.arange(6).expand(4, 6))
    return model


def make_sparse_buffer(config: Any) -> nn.Module:
    model = make_net(config)
    model.register_buffer("graph", torch.eye(4).to_sparse())
    return model


def make_torch_script(config: Any) -> nn.Module:
    return torch.jit.ScriptModule()


class Extra(nn.Linear):
    """Its state_dict holds what is no tensor."""

    def get_extra_state(self) -> Any:
        return {"version": 1}

    def set_extra_state(self, state: Any) -> None:
        pass


def make_extra_state(config: Any) -> nn.Module:
    return Extra(192, CLASSES)


def make_interrupt(config: Any) -> nn.Module:
    raise KeyboardInterrupt


def make_no_parameters(config: Any) -> nn.Module:
    return nn.Flatten()


def make_frozen(config: Any) -> nn.Module:
    return nn.Linear(192, 10).requires_grad_(False)


class Told(nn.Sequential):
    """A network's class for images, which asks how many classes there are."""

    def __init__(self, num_classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(3072, num_classes))


class NetWithSizes(nn.Linear):
    """A network's class, which asks for sizes and not for a configuration."""


def make_large_net(config: Any) -> nn.Module:
    """For images of 64 by 64 pixels."""
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, CLASSES))


FROZEN_NET = nn.Sequential(nn.Flatten(), nn.Linear(192, 10)).requires_grad_(False)


def make_error(config: Any) -> nn.Module:
    raise KeyError("hidden_size")

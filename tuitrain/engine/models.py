"""The built-in models, and models of the person's own. Built-in ones are plain PyTorch: an exported script carries their source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.own import modules as own_modules
from tuitrain.engine.own.arguments import NUM_CLASSES
from tuitrain.engine.own.imports import called, import_string
from tuitrain.engine.seeding import seed_everything
from tuitrain.engine.sequences import Rnn, Transformer
from tuitrain.engine.speedrun import SpeedrunNet
from tuitrain.engine.vision import import_torchvision

_LARGEST_SMALL = 64
"""Images whose shorter side has more pixels than this are large."""


def seed_cnn(num_classes: int = 10) -> nn.Module:
    """A small convolutional network for [N, 3, 32, 32] images: 145,578 parameters with 10 classes."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 64),
        nn.Linear(64, num_classes),
    )


def linear(num_classes: int = 2) -> nn.Module:
    """One linear layer from 5 numbers."""
    return nn.Linear(5, num_classes)


def resnet18(num_classes: int = 10, large: bool = False) -> nn.Module:
    """torchvision's ResNet-18 for [N, 3, H, W] images. Small ones get a 3x3 convolution without stride first, and no pooling after it."""
    import torchvision

    model: nn.Module = torchvision.models.resnet18(num_classes=num_classes)
    if not large:
        model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        model.maxpool = nn.Identity()
    return model


@dataclass(frozen=True)
class BuiltIn:
    """A built-in model.

    Attributes:
        make: the class or the function that makes it; its source is all that an exported script needs. It takes `num_classes`.
        sample: the shape of what it is made for; `None` stands for any size.
        takes_rows: it reads images as sequences of rows, and `make` takes `dropout` and `batch_first`.
        of_two_sizes: it is another one for large images, and `make` takes `large`.
    """

    make: Callable[..., nn.Module]
    sample: tuple[int | None, ...] = (3, 32, 32)
    takes_rows: bool = False
    of_two_sizes: bool = False

    def arguments(self, config: RunConfig, *, large: bool) -> dict[str, Any]:
        """What `make` is called with beside `num_classes`, for images that are `large` or not."""
        if self.takes_rows:
            return {"dropout": config.dropout, "batch_first": config.batch_dim == 0}
        return {"large": True} if self.of_two_sizes and large else {}

    def fits(self, sample: Sequence[int]) -> bool:
        """Whether `sample` is the shape of what it is made for."""
        return len(sample) == len(self.sample) and all(wanted in (None, size) for wanted, size in zip(self.sample, sample, strict=True))


BUILT_IN: dict[str, BuiltIn] = {
    "seed-cnn": BuiltIn(seed_cnn),
    "linear": BuiltIn(linear, (5,)),
    "rnn": BuiltIn(Rnn, takes_rows=True),
    "transformer": BuiltIn(Transformer, takes_rows=True),
    "resnet18": BuiltIn(resnet18, (3, None, None), of_two_sizes=True),
    "speedrun": BuiltIn(SpeedrunNet, (3, None, None)),
}


def are_large(sample: Sequence[int]) -> bool:
    """Whether samples of the shape `sample` are images that a network should make smaller at once: a step of resnet18 with 8 images of
    224×224 took 0.54 s then on two cores of an AMD EPYC, and 9.1 s with the stem for small ones."""
    return len(sample) == 3 and min(sample[1:]) > _LARGEST_SMALL


def takes_rows(config: RunConfig) -> bool:
    """Whether the model gets images as sequences of rows."""
    return config.model in BUILT_IN and BUILT_IN[config.model].takes_rows


def made_for(config: RunConfig, sample: Sequence[int]) -> str | None:
    """What a built-in model is made for, where samples of the shape `sample` are something else: an end for a sentence."""
    built_in = BUILT_IN.get(config.model)
    if built_in is None or built_in.fits(sample):
        return None
    sizes = ", ".join("HW"[axis - 1] if size is None else str(size) for axis, size in enumerate(built_in.sample))
    # As arrays of images from elsewhere often are.
    turned = len(sample) == 3 and built_in.fits((sample[2], *sample[:2]))
    way = "; inputs.permute(0, 3, 1, 2) are these" if turned else _way_for_images(built_in, sample)
    return f"it is made for [N, {sizes}]{way}"


def _way_for_images(built_in: BuiltIn, sample: Sequence[int]) -> str:
    """What makes images of the shape `sample` fit, as the end of a sentence; empty where nothing of torchvision's does."""
    if len(sample) != 3 or len(built_in.sample) != 3 or sample[0] not in (1, 3):
        return ""
    colours = ["Grayscale(3)"] if sample[0] == 1 else []
    side = built_in.sample[1]
    transforms = [*colours, *([f"Resize(({side}, {side}))"] if side is not None and tuple(sample[1:]) != (side, side) else [])]
    return f"; images become that by torchvision's {' and '.join(transforms)}" if transforms else ""


def build_model(config: RunConfig, num_classes: int | None = None, sample: Sequence[int] = ()) -> nn.Module:
    """The model that `config.model` names, on the CPU, its weights decided by `config.seed` alone.

    Args:
        num_classes: how many classes the data has; `None`: as many as a model is for by itself.
        sample: the shape of one of its samples, where that is known.

    Raises:
        ConfigError: it needs torchvision, which is not there; or an import string's function is not there, raised, or gave no module that
            can be trained.
    """
    if config.model == "resnet18":
        import_torchvision("model: resnet18")
    built_in = BUILT_IN.get(config.model)
    if built_in is None:
        return _own(config, num_classes)
    seed_everything(config.seed)
    arguments = built_in.arguments(config, large=are_large(sample)) | ({} if num_classes is None else {"num_classes": num_classes})
    return built_in.make(**arguments)


def model_dtype(config: RunConfig) -> torch.dtype:
    """The dtype of parameters and inputs; bf16 is autocast over float32 ones."""
    return torch.float64 if config.precision == "fp64" else torch.float32


_given: WeakValueDictionary[int, nn.Parameter] = WeakValueDictionary()
"""The parameters of the networks that people's functions have returned in this process, by their ids."""


def _own(config: RunConfig, num_classes: int | None) -> nn.Module:
    model = _returned(config, num_classes)
    if _was_given(model):
        # Made by importing the module, it is the one of the run before, which has trained it: in a process of its own it would be new.
        own_modules.forget()
        model = _returned(config, num_classes)
        if _was_given(model):
            raise ConfigError(f"model: {config.model!r} returned the network of an earlier run again; it must make a new one each time.")
    _given.update((id(parameter), parameter) for parameter in model.parameters())
    model.zero_grad()  # nothing that it learned from before belongs to the first step
    for buffer in filter(_is_expanded, model.buffers()):
        buffer.data = buffer.data.contiguous()  # else no checkpoint could be read into it
    return model


def _was_given(model: nn.Module) -> bool:
    return any(_given.get(id(parameter)) is parameter for parameter in model.parameters())


def _returned(config: RunConfig, num_classes: int | None) -> nn.Module:
    """What the person's function returns, or their network itself, which can be trained; what importing its module draws is decided by the
    seed too."""
    seed_everything(config.seed)
    function = import_string("model", config.model)
    is_made = isinstance(function, nn.Module)
    if is_made:
        model = function
    else:
        seed_everything(config.seed)
        model = called("model", function, config, **({} if num_classes is None else {NUM_CLASSES: num_classes}))
    if not isinstance(model, nn.Module):
        raise ConfigError(f"model: {config.model!r} returned a {type(model).__name__}; it must return a torch.nn.Module.")
    if reason := _why_not(model):
        raise ConfigError(f"model: {config.model!r} {'is' if is_made else 'returned'} {reason}.")
    module = sys.modules.get(config.model.partition(":")[0])
    # Then it is not made for each run.
    if module is not None and any(value is model for value in vars(module).values()):
        own_modules.holds_what_is_trained(config.model)
    return model


def _is_expanded(tensor: torch.Tensor) -> bool:
    """Whether elements share memory, as `Tensor.expand` has it."""
    if tensor.layout != torch.strided:
        return False
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _why_not(model: nn.Module) -> str | None:
    """What about a person's module stands in the way of its training."""
    if isinstance(model, torch.jit.ScriptModule):
        return "a TorchScript module, in which nothing can be watched; it must return the module that it was made from"
    values = [*model.parameters(), *model.buffers()]
    if any(is_lazy(value) for value in values):
        return "a module with lazy layers; it must show them an input first, or name their sizes"
    if any(value.is_meta for value in values):
        return "a module on the meta device, where nothing has a value; it must make it on the CPU"
    # torch would leave out the imaginary part where it brings all values to one precision.
    if any(value.is_complex() for value in values):
        return "a module with complex parameters or buffers; it must hold their real and imaginary parts (torch.view_as_real)"
    if any(_is_expanded(parameter) for parameter in model.parameters()):
        return "a module with a parameter whose elements share memory (Tensor.expand), which no optimizer can change; it must clone it"
    if not all(isinstance(value, torch.Tensor) for value in model.state_dict().values()):
        return "a module whose state_dict holds more than tensors (get_extra_state), which no checkpoint could keep"
    if any(value.layout != torch.strided for value in model.state_dict().values()):
        return (
            "a module with sparse parameters or buffers, which no checkpoint could keep; it must hold them dense, or not in its state_dict"
        )
    trained = [parameter.requires_grad for parameter in model.parameters()]
    if not trained:
        return "a module without parameters to train; a plain list hides its layers"
    if not any(trained):
        return "a module whose parameters are all frozen (requires_grad is False); it must leave some to train"
    return None

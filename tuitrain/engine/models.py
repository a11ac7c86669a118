"""The built-in models, and models of the person's own. Built-in ones are plain PyTorch: an exported script carries their source."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.imports import import_string, one_line
from tuitrain.engine.seeding import seed_everything


def seed_cnn() -> nn.Module:
    """A small convolutional network for [N, 3, 32, 32] images and 10 classes: 145,578 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 64),
        nn.Linear(64, 10),
    )


def linear() -> nn.Module:
    """One linear layer from 5 numbers to 2 classes."""
    return nn.Linear(5, 2)


BUILT_IN: dict[str, Callable[[], nn.Module]] = {"seed-cnn": seed_cnn, "linear": linear}


def build_model(config: RunConfig) -> nn.Module:
    """The model that `config.model` names, on the CPU, its weights decided by `config.seed` alone.

    Raises:
        ConfigError: an import string's function is not there, raised, or gave no module that can be trained.
    """
    make = BUILT_IN.get(config.model) or _own(config)
    seed_everything(config.seed)
    return make()


def model_dtype(config: RunConfig) -> torch.dtype:
    """The dtype of parameters and inputs; bf16 is autocast over float32 ones."""
    return torch.float64 if config.precision == "fp64" else torch.float32


def _own(config: RunConfig) -> Callable[[], nn.Module]:
    function = import_string("model", config.model)

    def make() -> nn.Module:
        try:
            model = function(config)
        except (Exception, SystemExit) as error:  # whatever the person's code raises is a sentence about their code
            raise ConfigError(f"model: {config.model!r} raised {one_line(error)}.") from error
        if not isinstance(model, nn.Module):
            raise ConfigError(f"model: {config.model!r} returned a {type(model).__name__}; it must return a torch.nn.Module.")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ConfigError(f"model: {config.model!r} returned a module without parameters to train; a plain list hides its layers.")
        return model

    return make

"""What was meant where an import string was written in another way."""

from __future__ import annotations

import pytest

from tuitrain.config import MODELS
from tuitrain.import_strings import import_string_meant, is_import_string


@pytest.mark.parametrize(
    ("field", "value", "meant"),
    [
        ("model", "nets.py:Net", "nets:Net"),
        ("model", "my_package/nets.py:Net", "my_package.nets:Net"),
        ("model", "./my_package/nets.py:Net", "my_package.nets:Net"),
        ("model", "my_package/nets:Net", "my_package.nets:Net"),
        ("model", "my_package.nets.Net", "my_package.nets:Net"),
        ("model", "ResNet50", "torchvision.models:resnet50"),
        ("loss", "torch.nn.HuberLoss", "torch.nn:HuberLoss"),
        ("optimizer", "rmsprop", "torch.optim:RMSprop"),
        ("data", "/sets:photos", "sets:photos"),
        ("data", "./sets.py:photos", "sets:photos"),
        ("data", "mnist", "torchvision.datasets:MNIST"),
        ("data", "Fashion-MNIST", "torchvision.datasets:FashionMNIST"),
        ("data", "cifar_100", "torchvision.datasets:CIFAR100"),
    ],
)
def test_what_is_meant_is_an_import_string(field: str, value: str, meant: str) -> None:
    assert import_string_meant(field, value, MODELS) == f" Did you mean '{meant}'?"
    assert is_import_string(meant)


@pytest.mark.parametrize(("value", "meant"), [("nets.py", "nets:NAME"), ("./a/nets.py", "a.nets:NAME")])
def test_a_file_alone_defines_something(value: str, meant: str) -> None:
    assert import_string_meant("model", value) == f" What it defines is named like '{meant}'."


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", "nets:Net"),
        ("model", "nets"),
        ("model", "RESNET18"),
        ("model", "mnist"),
        ("model", "../nets.py:Net"),
        ("model", "/home/me/nets.py"),
        ("data", "/home/me/sets.py:photos"),
        ("data", "my photos.py"),
        ("data", "resnet50"),
        ("loss", "rmsprop"),
        ("data", ""),
    ],
)
def test_of_others_nobody_can_tell(field: str, value: str) -> None:
    assert import_string_meant(field, value, MODELS) == ""

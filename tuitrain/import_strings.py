"""What `my_package.nets:make_model` looks like, and what others meant who wrote it in another way."""

from __future__ import annotations

import re
from collections.abc import Collection

TORCHS = "torch.optim:"
"""How the import strings of torch's own optimizers begin."""
_TORCHS = ("Adadelta", "Adafactor", "Adagrad", "Adamax", "ASGD", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop")
"""Other optimizers of torch's, of which a person may give the name alone."""
_MODELS = re.compile(
    r"alexnet|googlenet|((wide_)?resnet|resnext|vgg|densenet)\d\w*"
    r"|(convnext|efficientnet|inception|maxvit|mobilenet|regnet|shufflenet|swin|vit)_\w+|(mnasnet|squeezenet)\d_\d+",
    re.IGNORECASE,
)
"""What the names of torchvision's networks for classes look like."""
_DATASETS = ("CIFAR100", "FashionMNIST", "KMNIST", "MNIST", "QMNIST", "STL10", "SVHN")
"""Those of torchvision's data sets that come by themselves, have one size and a part to test with."""
_IMPORT_STRING = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_FILE = ".py"


def is_import_string(value: str) -> bool:
    """Whether `value` names a function like `my_package.nets:make_model`."""
    return bool(_IMPORT_STRING.fullmatch(value))


def import_string_meant(field: str, value: str, built_in: Collection[str] = ()) -> str:
    """` Did you mean 'x'?` for the import string of what a person wrote in another way; empty where nobody can tell.

    They may have named a file (`nets.py`, `my_package/nets.py:Net`), left out the colon (`torch.nn.HuberLoss`), or given a name alone as
    torch or torchvision have it (`rmsprop`, `vgg16`, `mnist`).

    Args:
        built_in: what needs no import string; a name of these in other letters is meant as such.
    """
    if not is_import_string(value) and value.endswith(_FILE):
        meant = of_file(value, "NAME")
        return f" What it defines is named like '{meant}'." if is_import_string(meant) else ""
    # With a "/" one begins to type in the launcher.
    place, _, name = (value if value.count("/") > 1 else value.removeprefix("/")).rpartition(":")
    module, _, last = value.rpartition(".")
    candidates = [of_file(place, name), f"{module}:{last}"]
    if value.lower() not in built_in:
        candidates += _known(field, value)
    return next((f" Did you mean '{one}'?" for one in candidates if one != value and is_import_string(one)), "")


def network_named(value: str) -> str:
    """The import string of a network that a person named where something else belongs, as it is or as torchvision's; else empty."""
    return value if is_import_string(value) else next(iter(_known("model", value)), "")


def data_named(value: str) -> str:
    """The import string of the data that a person named where something else belongs, as torchvision's; else empty."""
    return next(iter(_known("data", value)), "")


def of_file(path: str, name: str) -> str:
    """The import string of what a file defines: `my_package/nets.py` is the module my_package.nets. Of paths from the root it is none."""
    return f"{path.removeprefix('./').removesuffix(_FILE).replace('/', '.')}:{name}"


def _known(field: str, value: str) -> list[str]:
    """What torch and torchvision have by this name."""
    if field == "optimizer":
        return [f"{TORCHS}{one}" for one in _TORCHS if one.casefold() == value.casefold()]
    if field == "model" and _MODELS.fullmatch(value):
        return [f"torchvision.models:{value.lower()}"]
    if field == "data":
        bare = value.casefold().replace("-", "").replace("_", "")
        return [f"torchvision.datasets:{one}" for one in _DATASETS if one.casefold() == bare]
    return []

"""What an exported script imports."""

from __future__ import annotations

from collections.abc import Mapping

from tuitrain.config import LOSSES, RunConfig, own_functions
from tuitrain.engine.own.arguments import CONFIG, NOT_CALLED, Arguments
from tuitrain.engine.script import array_file, data, ranks, speedrun
from tuitrain.engine.script.devices import is_numbered, needs_copy
from tuitrain.engine.script.facts import Facts
from tuitrain.engine.script.weights import reads_safetensors
from tuitrain.import_strings import TORCHS, is_import_string

OWN_NETWORK = "own_network"
"""What a script calls a network that stands in a module."""


def imports(config: RunConfig, facts: Facts) -> list[str]:
    """All that stand at its beginning. Where the network stands in a module, those of one's own functions come after the seed is set."""
    kind = facts.kind
    own_model, given_weights, own_loss = is_import_string(config.model), config.weights is not None, config.loss not in LOSSES
    typed = own_model or given_weights or kind == "custom" or own_loss
    standard, others = set[str](), {"import torch", f"from torch import {'Tensor, nn' if typed else 'nn'}"}
    others |= {"from safetensors.torch import load_file"} if reads_safetensors(config) else set()
    standard |= data.STANDARD_IMPORTS.get(kind, frozenset())
    others |= data.OTHER_IMPORTS.get(kind, frozenset())
    if array_file.is_file(config, kind):
        standard |= {"import hashlib", "import os"} if array_file.is_parted(facts) else set()
        others |= {"from PIL import Image"}
    if facts.scores is not None:
        standard |= {"import hashlib", "import os"}
        others |= {"from torch.utils.data import DataLoader, Dataset"}
    if config.model == "resnet18":
        others |= {"import torchvision"}
    if needs_copy(config) or own_loss:
        standard |= {"import copy"}
    if config.lr_schedule == "cosine":
        standard |= {"import math"}
    if is_numbered(config):
        standard |= {"import os"}
    if config.strategy == "ddp":
        standard |= {"import os"} if ranks.needs_environment(config) else set()
        standard |= {"import hashlib"} if ranks.draws(config) else set()
        others |= {"import torch.distributed as dist", "from torch.nn.parallel import DistributedDataParallel"}
    kinds = [
        *(["Callable"] if config.tta or speedrun.warms_up_to_schedule(config) else []),
        *(["Iterator", "Mapping"] if own_model or given_weights or own_loss else []),
    ]
    standard |= {f"from collections.abc import {', '.join(kinds)}"} if kinds else set()
    standard |= {"from typing import Any"} if typed else set()
    if own_functions(config):
        standard |= {"import random"} | ({"from types import SimpleNamespace"} if asks_for_config(facts.given) else set())
        others |= {"import numpy as np"}
    own = [] if facts.network_stands else own_imports(own_functions(config), facts)
    groups = [sorted(group, key=lambda line: (line.startswith("from"), line)) for group in (standard, others, own) if group]
    return [line for group in groups for line in ("", *group)][1:]


def asks_for_config(given: Arguments) -> bool:
    """Whether one of the person's own functions is called with the configuration."""
    return any(CONFIG in names for names in given.values())


def own_imports(functions: Mapping[str, str], facts: Facts) -> list[str]:
    """The imports of one's own functions, by their fields, under names that nothing else in the script has."""
    names = {
        "model": OWN_NETWORK if facts.network_stands else "make_model",
        "data": "own_data" if NOT_CALLED in facts.given.get("data", ()) else "make_data",
        "loss": "own_loss",
        "optimizer": "make_optimizer",
        "lr_schedule": speedrun.OWN_SCHEDULE,
    }
    return [_own_import(value, names[field]) for field, value in functions.items() if not value.startswith(TORCHS)]


def _own_import(value: str, name: str) -> str:
    module, _, function = value.partition(":")
    return f"from {module} import {function}" + (f" as {name}" if function != name else "")

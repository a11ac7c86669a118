"""Weights from a file, with which a network begins in the place of what its seed draws."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.torch_version import TorchVersion

from tuitrain.config import ConfigError
from tuitrain.engine.failures import first_line
from tuitrain.engine.tensor_file import tensors_in
from tuitrain.events import Notice
from tuitrain.paths import weights_file
from tuitrain.text import clean, first_few

_SAFE_TORCH = "2.10"
"""Before it a file could make `torch.load` run code, with `weights_only` too (CVE-2026-24747)."""
_MUST_BE = "it must be what torch.save(model.state_dict(), …) or safetensors writes"


@dataclass(frozen=True)
class GivenWeights:
    """What a file of weights holds; see `matching`."""

    path: Path
    content: Any

    def put_into(self, modules: Iterable[nn.Module]) -> None:
        """Give the copies of a network what the file has for it.

        Raises:
            ConfigError: they do not take it.
        """
        for module in modules:
            try:
                module.load_state_dict(matching(self.content, module.state_dict()), strict=False)
            except RuntimeError as error:
                raise ConfigError(f"weights: the model does not take those of {self._shown}: {first_line(error)}.") from error

    def fit(self, model: nn.Module) -> Notice:
        """What of the file a network begins with.

        Raises:
            ConfigError: nothing for any parameter.
        """
        own = model.state_dict()
        there = named_tensors(self.content, own)
        taken = fitting(there, own)
        if not any(name in taken for name, _ in model.named_parameters()):
            raise ConfigError(f"weights: {self._shown} {_why_nothing(there, own)}")
        left = [f"{clean(name)} ({_instead(name, tensor, there)})" for name, tensor in own.items() if name not in taken]
        strange = [clean(name) for name in there if name not in own]
        rest = f" It has {len(strange):,} besides that the model has not: {first_few(strange)}." if strange else ""
        if not left:
            return Notice(text=f"The model begins with the weights of {self._shown}.{rest}")
        text = f"The model begins with {len(taken):,} of its {len(own):,} tensors as in {self._shown}, and with these as drawn"
        return Notice(level="warning", text=f"{text}: {first_few(left)}.{rest}")

    @property
    def _shown(self) -> str:
        return clean(str(self.path))


def given_weights(value: str) -> GivenWeights:
    """Read the file that a `weights` value names, on the CPU; of a pickle only tensors are ever made.

    Raises:
        ConfigError: there is no such file, or it is none of weights.
    """
    path = weights_file(value)
    shown, safe = clean(str(path)), is_safetensors(path.name)
    if not safe and torch.__version__ < TorchVersion(_SAFE_TORCH):
        reason = f"is read with torch {_SAFE_TORCH} or newer only: before, such a file could run code (CVE-2026-24747), and this is"
        raise ConfigError(f"weights: {shown} {reason} torch {torch.__version__}; a .safetensors file is read with any.")
    try:
        content = tensors_in(_bytes_of(path)) if safe else torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(f"weights: {shown} cannot be read: {error.strerror or error}.") from error
    except Exception as error:  # whatever reading says of a file that somebody else made
        raise ConfigError(f"weights: {shown} {_why_unread(error)}") from error
    return GivenWeights(path, content)


def is_safetensors(name: str) -> bool:
    """Whether a file of this name is in the format of safetensors."""
    return name.endswith(".safetensors")


def matching(content: Any, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of a file's tensors that a network has a place for; `own` is its state_dict."""
    return fitting(named_tensors(content, own), own)


def named_tensors(content: Any, own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a file, by their names: of all in it that may be a state_dict the one that fits `own` best."""
    best: dict[str, Tensor] = {}
    for found in state_dicts(content):
        if not best or len(fitting(found, own)) > len(fitting(best, own)):
            best = found
    return best


def state_dicts(content: Any) -> Iterator[dict[str, Tensor]]:
    """All of a file that may be a state_dict: it may be within another dictionary, beside the optimizer's state and the like, and its names
    may begin with what a wrapper has put before all of them, as "module." and "_orig_mod."."""
    outer = content if isinstance(content, Mapping) else {}
    for inner in (outer, *outer.values()):
        items = inner.items() if isinstance(inner, Mapping) else ()
        found = {str(name): value for name, value in items if isinstance(value, Tensor)}
        while found:
            yield found
            if not all("." in name for name in found) or len({name.partition(".")[0] for name in found}) > 1:
                break
            found = {name.partition(".")[2]: value for name, value in found.items()}


def fitting(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those of `found` that have the name and the shape of one of a network's `own`."""
    return {name: value for name, value in found.items() if name in own and value.shape == own[name].shape}


def _bytes_of(path: Path) -> bytearray:
    """The content of a file, once in memory."""
    with path.open("rb") as file:
        content = bytearray(os.fstat(file.fileno()).st_size)
        file.readinto(content)
    return content


def _why_nothing(there: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> str:
    if not there:
        return f"holds no tensors by their names; {_MUST_BE}."
    name, tensor = next(iter(there.items()))
    first, other = next(iter(own.items()))
    examples = f"it begins with {clean(name)} {list(tensor.shape)}, and the model with {clean(first)} {list(other.shape)}"
    return f"has nothing that fits the model: {examples}; it must be of such a one."


def _why_unread(error: Exception) -> str:
    if found := re.search(r"GLOBAL (\w+(?:\.\w+)*)", str(error)):
        return f"holds {found[1]}, and only tensors are ever made from such a file; {_MUST_BE}."
    return f"is damaged, or no file of weights; {_MUST_BE}."


def _instead(name: str, tensor: Tensor, there: Mapping[str, Tensor]) -> str:
    return f"{list(tensor.shape)}, there {list(there[name].shape)}" if name in there else "not there"

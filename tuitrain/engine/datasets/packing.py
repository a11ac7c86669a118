"""Several inputs of a sample as one row of bytes: it is kept, read, cut and sent like any other, and taken apart at the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, TypeAlias

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from tuitrain.engine.datasets.sample import for_model, type_name, type_named

Several: TypeAlias = Mapping[str, Tensor] | Sequence[Tensor]
"""By what the model calls them, or in the order in which it takes them."""
_ROW = 8
"""What lies in a row is aligned for the largest type, also where it is not the first row."""


def are_several(inputs: object) -> bool:
    """Whether a sample's inputs, or all samples', are several, and not the numbers of one."""
    if isinstance(inputs, Mapping):
        return len(inputs) > 0
    return isinstance(inputs, (tuple, list)) and len(inputs) > 0 and all(map(_has_axes, inputs))


def _has_axes(value: object) -> bool:
    return hasattr(value, "convert") or (isinstance(value, (Tensor, np.ndarray)) and value.ndim > 0)


def _can_be_parameter(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not iskeyword(name)


class Packing(msgspec.Struct, frozen=True):
    """How several inputs lie in a row.

    Attributes:
        names: what the model calls them; empty where it takes them in their order.
        shapes: of each, for one sample.
        types: by torch's names, as "int64".
        begins: at which byte of a row each begins; those of the largest types come first, so that each is aligned.
        size: bytes of a row.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    begins: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, inputs: Several) -> Packing:
        """For inputs [N, ...] like these.

        Raises:
            TypeError: one has no name by which a model could be called with it.
        """
        names, parts = tuple(inputs) if isinstance(inputs, Mapping) else (), _parts(inputs)
        if wrong := [name for name in names if not _can_be_parameter(name)]:
            raise TypeError(f"an input is called {wrong[0]!r}, which can be no parameter of a network")
        begins, end = dict[int, int](), 0
        for place in sorted(range(len(parts)), key=lambda place: -parts[place].itemsize):
            begins[place], end = end, end + parts[place][0].nbytes
        shapes = tuple(tuple(part.shape[1:]) for part in parts)
        places = tuple(begins[place] for place in range(len(parts)))
        return cls(names, shapes, tuple(map(type_name, parts)), places, -(-end // _ROW) * _ROW)

    def pack(self, inputs: Several) -> Tensor:
        """Rows [N, size] of bytes of inputs [N, ...] on the CPU."""
        parts = _parts(inputs)
        rows = torch.zeros(len(parts[0]), self.size, dtype=torch.uint8)
        for part, begin in zip(parts, self.begins, strict=True):
            numbers = part.contiguous().reshape(len(rows), -1).view(torch.uint8)
            rows[:, begin : begin + numbers.shape[1]] = numbers
        return rows

    def unpack(self, rows: Tensor) -> list[Tensor]:
        """The inputs [B, ...] of rows [B, size], in the memory of these."""
        found = []
        for shape, name, begin in zip(self.shapes, self.types, self.begins, strict=True):
            dtype = type_named(name)
            part = rows[:, begin : begin + torch.Size(shape).numel() * dtype.itemsize].view(dtype)
            found.append(part.reshape(len(rows), *shape))
        return found

    def in_words(self, count: int | None = None) -> str:
        """Their shapes, of so many samples or of one: "ids [2, 12] and mask [2, 12]"."""
        leading = () if count is None else (count,)
        named = zip(self.names or ("",) * len(self.shapes), self.shapes, strict=True)
        told = [f"{name} {[*leading, *shape]}".lstrip() for name, shape in named]
        return " and ".join(filter(None, (", ".join(told[:-1]), told[-1])))


def _parts(inputs: Several) -> Sequence[Tensor]:
    return [*inputs.values()] if isinstance(inputs, Mapping) else inputs


@dataclass(frozen=True)
class Unpacked:
    """Before a model's forward call: what it gets in the place of rows.

    Attributes:
        packing: how these hold its inputs.
        dtype: of those that are floats, or images.
    """

    packing: Packing
    dtype: torch.dtype

    def __call__(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """As torch calls it; whatever else the model is called with, by itself, say, stays."""
        if named or len(given) != 1 or not self._are_rows(given[0]):
            return None
        parts = [for_model(part, self.dtype, copy=True) for part in self.packing.unpack(given[0])]
        return ((), dict(zip(self.packing.names, parts, strict=True))) if self.packing.names else (tuple(parts), {})

    def _are_rows(self, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype == torch.uint8 and value.shape[1:] == (self.packing.size,)

"""What a run and the processes that read its samples say to each other, and the memory that they share."""

from __future__ import annotations

import mmap
from typing import Any, Literal, TypeAlias

import msgspec
import torch
from torch import Tensor

from tuitrain.config import RunConfig
from tuitrain.engine.datasets.packing import Packing
from tuitrain.engine.datasets.sample import is_image, type_name, type_named
from tuitrain.signals import signal_name

LONGEST = 65_536
"""Bytes of a message at most. Each is sent, and taken by one process, as a whole."""
_ALIGNED = 64

PartName: TypeAlias = Literal["train", "test"]
"""What samples are for."""


class Layout(msgspec.Struct, frozen=True):
    """How batches lie in the memory that processes share: places of as many rows each, of inputs and of labels.

    Attributes:
        inputs, labels: the shape of one sample's.
        inputs_type, labels_type: their types by torch's names, as "uint8".
        wide: the inputs are images [C, H, W] in channels_last memory.
    """

    places: int
    rows: int
    inputs: tuple[int, ...]
    inputs_type: str
    labels: tuple[int, ...]
    labels_type: str
    wide: bool

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor, *, places: int, rows: int) -> Layout:
        """For samples like this one."""
        return cls(places, rows, tuple(inputs.shape), type_name(inputs), tuple(labels.shape), type_name(labels), is_image(inputs))

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        each = _bytes(self.inputs, self.inputs_type, self.rows) + _bytes(self.labels, self.labels_type, self.rows)
        return self.places * each

    def views(self, memory: mmap.mmap) -> list[tuple[Tensor, Tensor]]:
        """Inputs [rows, ...] and labels [rows, ...] of each place."""
        found, begin = [], 0
        for _ in range(self.places):
            inputs = _tensor(memory, begin, self.rows, self.inputs, self.inputs_type, wide=self.wide)
            begin += _bytes(self.inputs, self.inputs_type, self.rows)
            labels = _tensor(memory, begin, self.rows, self.labels, self.labels_type, wide=False)
            begin += _bytes(self.labels, self.labels_type, self.rows)
            found.append((inputs, labels))
        return found


def _tensor(memory: mmap.mmap, begin: int, rows: int, shape: tuple[int, ...], name: str, *, wide: bool) -> Tensor:
    """What `memory` has from `begin` on, [rows, ...]."""
    lies = (rows, shape[1], shape[2], shape[0]) if wide else (rows, *shape)
    found = torch.frombuffer(memory, dtype=type_named(name), count=torch.Size(lies).numel(), offset=begin).view(lies)
    return found.permute(0, 3, 1, 2) if wide else found


def _bytes(shape: tuple[int, ...], name: str, rows: int) -> int:
    size = rows * torch.Size(shape).numel() * type_named(name).itemsize
    return -(-size // _ALIGNED) * _ALIGNED


class Ask(msgspec.Struct, frozen=True):
    """What the processes are to read: a part of the data that `config` names.

    Attributes:
        count: how many samples there are.
        workers: how many processes read.
        folder: that of images, whose names are in the memory that comes with this; else the data is a person's own function.
        packing: how several inputs of a sample are in its row.
        side: to how many pixels images of the function's are brought, if they are.
    """

    config: RunConfig
    part: PartName
    count: int
    layout: Layout
    workers: int
    folder: str | None = None
    packing: Packing | None = None
    side: int | None = None


class Task(msgspec.Struct, frozen=True, tag=True):
    """Samples to read, by their numbers, into a place from its `row` on, as they are in one draw: an epoch, or 0 before the first."""

    place: int
    row: int
    draw: int
    samples: list[int]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The processes have the data."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """So many rows of a place have been read."""

    place: int
    rows: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """Something cannot be read: one sentence, and where that was in the code, as Python tells it."""

    text: str
    traceback: str = ""


Answer: TypeAlias = Ready | Done | Failed


def ended(code: int) -> str:
    """How a process ended, by its exit code, which is negative after a signal."""
    return f"was ended by {signal_name(-code)}" if code < 0 else f"ended with the exit code {code}"


_encoder = msgspec.msgpack.Encoder()


def encoded(message: Task | Answer) -> bytes:
    """The message; of a failure not more than can be sent."""
    if isinstance(message, Failed):
        message = Failed(message.text[: LONGEST // 16], message.traceback[-LONGEST // 8 :])
    return _encoder.encode(message)


_tasks: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Task)
_answers: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Ready | Done | Failed)


def task(message: bytes) -> Task:
    """The task that was sent."""
    found: Task = _tasks.decode(message)
    return found


def answer(message: bytes) -> Answer:
    """The answer that was sent."""
    found: Answer = _answers.decode(message)
    return found

"""A torch `Dataset` of a person's own: read once into memory, or, by other processes, while the run trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from tuitrain import words
from tuitrain.allowance import free_memory
from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.control import Interrupted
from tuitrain.engine.datasets.packing import Packing
from tuitrain.engine.datasets.readers import BEFORE_TRAINING, Readers, workers_for
from tuitrain.engine.datasets.readers.wire import PartName
from tuitrain.engine.datasets.sample import is_image
from tuitrain.engine.datasets.samples import closed_on_failure
from tuitrain.engine.datasets.torch_beside import known_labels
from tuitrain.engine.datasets.torch_samples import Samples
from tuitrain.engine.seeding import host_generators
from tuitrain.events import Notice, Progress

_TOLD_SECONDS = 0.1
_READ_TWICE = 16
"""About so many samples are read twice at first."""
_LONG_SECONDS = 10.0
"""What takes one process longer than this is read by several."""


@dataclass(frozen=True, eq=False)
class Part:
    """What was read: inputs [N, ...] and labels [N] or [N, ...]. Of a part that `readers` read again and again the inputs are all the first
    one, without memory of their own, and labels that may be drawn at random too are as they were drawn once; where a sample has several,
    they are all the first one's. Pillow's images were brought to `side` pixels in height and in width."""

    inputs: Tensor
    labels: Tensor
    readers: Readers | None = None
    packing: Packing | None = None
    side: int | None = None


def read(
    config: RunConfig,
    part: PartName,
    dataset: Any,
    ending: Callable[[], bool],
    check: Callable[[Tensor, Tensor], Callable[[Tensor], None] | None],
    side_for: Callable[[Any], int | None],
) -> Generator[Notice | Progress, None, Part]:
    """A part of `config.data` that is a `Dataset` of (input, label), or of dicts of these, see `pair`.

    An input is a tensor, an array, or one of Pillow's images, which becomes bytes [C, H, W]; a label is a number, a
    tensor, an array, or an image of class numbers. What does not fit in memory, and what is drawn at random where it is trained with, is
    read anew each time that it is gone through.

    Args:
        part: what its samples are for.
        ending: asked now and then; `True` ends it.
        check: gets inputs and labels of the first sample alone, and raises where they cannot be trained with. What it gives gets the labels
            of all samples, some at a time, where they are not kept; `None` where nobody has to look at them.
        side_for: gets the first sample where that is one of Pillow's images, and says to how many pixels all are brought.

    Raises:
        ConfigError: a sample cannot be read or is not alike the others, or there is no memory for its labels.
        Interrupted: `ending` said so.
    """
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        return Part(*dataset.tensors)
    reading = _Reading(config, part, dataset, ending, side_for)
    look = check(reading.first[None], reading.label[None])
    found = reading.look()
    size, free = (reading.first.nbytes + reading.label.nbytes) * reading.count, free_memory()
    if part == "train" and found.differ and not found.draw:
        yield Notice(level="warning", text=_UNSEEDED)
    if size > free or (part == "train" and (found.differ or found.draw)):
        why = "are drawn at random" if size <= free else f"would take {words.size(size)} of memory, and {words.size(free)} are free"
        return (yield from reading.anew(known_labels(dataset, found.labels), look, why))
    if found.differ:
        yield Notice(level="warning", text=_DRAWN_ONCE)
    if found.seconds * reading.count > _LONG_SECONDS and workers_for(config) > 1:
        return (yield from reading.by_others())
    return (yield from reading.here())


_UNSEEDED = (
    "The train samples are others each time, and not by a generator that the seed sets (Python's random, numpy.random, torch): "
    "the same seed gives other losses, and so does a run that goes on."
)
_DRAWN_ONCE = "The test samples are not the same each time that they are read. Each is read once, and is the same in every evaluation."


@dataclass(frozen=True, eq=False)
class _Found:
    """What is known of the samples after a few of them were read twice.

    Attributes:
        differ: one was another one the second time.
        draw: what reading them gives depends on Python's, NumPy's or torch's generator, or may, as where few are changed by chance.
        labels: of those that were looked at, by their numbers.
        seconds: that one takes.
    """

    differ: bool
    draw: bool
    labels: dict[int, Tensor]
    seconds: float


class _Reading:
    """How a part is read.

    Attributes:
        count: its samples.
        first, label: input and label of the first of them.

    Raises:
        ConfigError: there is no first one, or it cannot be read.
    """

    def __init__(
        self, config: RunConfig, part: PartName, dataset: Any, ending: Callable[[], bool], side_for: Callable[[Any], int | None]
    ) -> None:
        self._config, self._part, self._ending = config, part, ending
        self._where, self._all = f"data: {config.data!r}", f"the {part} samples"
        self._told = 0.0
        self._samples = Samples(f"{self._where}: {part} sample", dataset)
        self.count = self._samples.count(f"{self._where}: the {part} part")
        self.first, self.label = self._samples.get(0, side_for)

    @property
    def side(self) -> int | None:
        """To how many pixels images are brought."""
        return self._samples.side

    def look(self) -> _Found:
        """What a few samples say that are read twice."""
        labels: dict[int, Tensor] = {}
        begin, differ, draw = time.perf_counter(), False, False
        for index in range(0, self.count, max(1, self.count // _READ_TWICE)):
            self._go_on()
            once, after = self._get(index), host_generators()
            again, at_last = self._get(index), host_generators()
            labels[index] = once[1]
            # One that seeds the generators anew leaves them as it did before.
            draw = draw or after != at_last
            if differ := not all(map(_is_same, once, again)):
                break
        return _Found(differ, draw, labels, (time.perf_counter() - begin) / (2 * len(labels)))

    def here(self) -> Generator[Progress, None, Part]:
        """One after the other, into memory."""
        inputs, labels = self._rooms()
        for index in range(self.count):
            if self._due():
                self._go_on()
                yield self._progress(self._all, index)
            inputs[index], labels[index] = self._get(index)
        yield self._progress(self._all, self.count)
        return Part(inputs, labels, packing=self._samples.packing, side=self.side)

    def by_others(self) -> Generator[Progress, None, Part]:
        """By processes, into memory."""
        inputs, labels = self._rooms()

        def keep(index: Tensor, values: Tensor, marks: Tensor) -> None:
            inputs[index], labels[index] = values, marks

        with closing(self._readers()) as readers:
            yield from self._each(readers, self._all, keep)
        return Part(inputs, labels, packing=self._samples.packing, side=self.side)

    def anew(self, labels: Tensor | None, look: Callable[[Tensor], None] | None, why: str) -> Generator[Notice | Progress, None, Part]:
        """By processes, each time that the samples are gone through.

        Args:
            labels: of all samples; `None` where they are not known, and have to be read now. Where a sample has several they are not kept:
                those of masks, or of texts, may take more memory than the inputs.
            look: see `read`.
        """
        room: Tensor | None = None
        if self.label.dim():
            labels = self.label.expand(self.count, *self.label.shape)
        elif labels is None:
            room = labels = self._room_for_labels()

        def take(index: Tensor, values: Tensor, marks: Tensor) -> None:
            if room is not None:
                room[index] = marks
            elif look is not None:
                look(marks)

        readers = self._readers()
        with closed_on_failure(readers):
            if room is not None or (self.label.dim() and look is not None):
                yield from self._each(readers, f"the labels of {self._all}", take)
            each = "epoch" if self._part == "train" else "evaluation"
            yield Notice(text=f"The {self._part} samples {why}: {words.readers(readers.workers)} them anew in each {each}.")
        return Part(self.first.expand(self.count, *self.first.shape), labels, readers, self._samples.packing, self.side)

    def _readers(self) -> Readers:
        samples = self._samples
        given = self._config, self._part, self.count, self.first, self.label, self._ending
        return Readers(*given, packing=samples.packing, side=samples.side)

    def _each(self, readers: Readers, what: str, keep: Callable[[Tensor, Tensor, Tensor], None]) -> Iterator[Progress]:
        """Have all samples read once."""
        yield self._progress(what, 0)
        readers.wait_until_ready()
        batches = torch.split(torch.arange(self.count), min(self._config.batch_size, self.count))
        for number, index in enumerate(batches):
            self._go_on()
            if self._due():
                yield self._progress(what, int(index[0]))
            keep(index, *readers.read(index, BEFORE_TRAINING, ((other, BEFORE_TRAINING) for other in batches[number + 1 :])))
        yield self._progress(what, self.count)

    def _get(self, index: int) -> tuple[Tensor, Tensor]:
        return self._samples.alike(index, self.first, self.label)

    def _due(self) -> bool:
        """Whether it is time to say how far it is."""
        due = (now := time.monotonic()) >= self._told + _TOLD_SECONDS
        if due:
            self._told = now
        return due

    def _go_on(self) -> None:
        if self._ending():
            raise Interrupted

    def _progress(self, what: str, done: int) -> Progress:
        return Progress(phase=f"reading {what}", done=done, total=self.count, unit="samples")

    def _rooms(self) -> tuple[Tensor, Tensor]:
        inputs = _room_for(self.count, self.first, f"{self._where}: the {self.count:,} {self._part} samples of {list(self.first.shape)}")
        return inputs, self._room_for_labels()

    def _room_for_labels(self) -> Tensor:
        return _room_for(
            self.count, self.label, f"{self._where}: the labels {list(self.label.shape)} of {self.count:,} {self._part} samples"
        )


def _is_same(one: Tensor, other: Tensor) -> bool:
    if torch.equal(one, other):
        return True
    # What is no number is not equal to itself.
    return one.is_floating_point() and torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def _room_for(count: int, first: Tensor, what: str) -> Tensor:
    """An empty tensor for as many inputs like the first.

    Raises:
        ConfigError: there is no memory for them.
    """
    needed, free = count * first.numel() * first.element_size(), free_memory()
    if needed > free:
        raise ConfigError(f"{what} take {words.size(needed)} of memory, and {words.size(free)} are free; they must be smaller, or fewer.")
    layout = torch.channels_last if is_image(first) else torch.contiguous_format
    return torch.empty((count, *first.shape), dtype=first.dtype, memory_format=layout)

"""A torch `Dataset` of a person's own: read once into memory, or, by other processes, while the run trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from tuitrain import words
from tuitrain.allowance import free_memory
from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.readers import BEFORE_TRAINING, Readers
from tuitrain.engine.samples import Interrupted
from tuitrain.engine.torch_samples import Samples
from tuitrain.events import Notice, Progress
from tuitrain.text import clean

_TOLD_SECONDS = 0.1
_READ_TWICE = 16
"""About so many samples are read twice at first: of images that are mirrored by chance, nearly always one is another one then."""
_LABELS = ("targets", "labels")
"""Where a `Dataset` has the class numbers of all its samples, as torchvision's have."""


@dataclass(frozen=True, eq=False)
class Part:
    """What was read: inputs [N, ...] and labels [N] or [N, ...]. Of a part that `readers` read again and again the inputs are all the first
    one, without memory of their own, and labels that may be drawn at random too are as they were drawn once."""

    inputs: Tensor
    labels: Tensor
    readers: Readers | None = None


def is_readable(part: Any) -> bool:
    """Whether it is a `Dataset` whose samples have numbers."""
    return isinstance(part, Dataset) and not isinstance(part, IterableDataset)


def read(
    config: RunConfig, part: str, dataset: Any, ending: Callable[[], bool], check: Callable[[Tensor, Tensor], object]
) -> Generator[Notice | Progress, None, Part]:
    """A part of `config.data` that is a `Dataset` of (input, label).

    An input is a tensor, an array, or one of Pillow's images, which becomes bytes [C, H, W]; a label is a number, a
    tensor, an array, or an image of class numbers. What is drawn at random, and what does not fit in memory, is read anew in each epoch
    where it is trained with.

    Args:
        part: what its samples are for, "train" or "test".
        ending: asked now and then; `True` ends it.
        check: gets inputs and labels of the first sample alone, and raises where they cannot be trained with.

    Raises:
        ConfigError: a sample cannot be read or is not alike the others, or there is no memory for them.
        Interrupted: `ending` said so.
    """
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        return Part(*dataset.tensors)
    where = f"data: {config.data!r}"
    samples = Samples(f"{where}: {part} sample", dataset)
    count = samples.count(f"{where}: the {part} part")
    first, label = samples.get(0)
    check(first[None], label[None])
    looked_at = range(0, count, max(1, count // _READ_TWICE))
    drawn, seen = _looked_at(samples, first, label, looked_at, ending)
    size, free = first.nbytes * count, free_memory()
    if part == "train" and (drawn or size > free):
        why = "are drawn at random" if drawn else f"would take {words.size(size)} of memory, and {words.size(free)} are free"
        known = _known_labels(dataset, seen)
        return (yield from _read_anew(config, first, label, count, known, f"The train samples {why}", ending))
    inputs = _room_for(count, first, f"{where}: the {count:,} {part} samples of {list(first.shape)}")
    labels = _room_for(count, label, f"{where}: the labels {list(label.shape)} of {count:,} {part} samples")
    told = 0.0
    for index in range(count):
        if (now := time.monotonic()) >= told + _TOLD_SECONDS:
            if ending():
                raise Interrupted
            told = now
            yield Progress(phase=f"reading the {part} samples", done=index, total=count, unit="samples")
        inputs[index], labels[index] = samples.alike(index, first, label)
    yield Progress(phase=f"reading the {part} samples", done=count, total=count, unit="samples")
    if drawn:
        yield Notice(level="warning", text=_DRAWN_ONCE.format(part=part))
    return Part(inputs, labels)


_DRAWN_ONCE = "The {part} samples are not the same each time that they are read. Each was read once, and is the same in every evaluation."


def _looked_at(
    samples: Samples, first: Tensor, label: Tensor, indices: Iterable[int], ending: Callable[[], bool]
) -> tuple[bool, dict[int, Tensor]]:
    """Whether one of some samples is another one when it is read a second time, and the labels of those that were looked at.

    Raises:
        ConfigError: one cannot be read, or is not like the first one.
        Interrupted: `ending` said so.
    """
    seen = {}
    for index in indices:
        if ending():
            raise Interrupted
        once, again = samples.alike(index, first, label), samples.alike(index, first, label)
        seen[index] = once[1]
        if not all(map(_is_same, once, again)):
            return True, seen
    return False, seen


def _is_same(one: Tensor, other: Tensor) -> bool:
    if torch.equal(one, other):
        return True
    # What is no number is not equal to itself.
    return one.is_floating_point() and torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(), other.nan_to_num())


def _read_anew(
    config: RunConfig, first: Tensor, label: Tensor, count: int, labels: Tensor | None, beginning: str, ending: Callable[[], bool]
) -> Generator[Notice | Progress, None, Part]:
    """Have other processes read the training samples in each epoch; `beginning` of a sentence says why.

    Args:
        labels: those of all samples, where they are known.
    """
    where = f"data: {config.data!r}"
    readers = Readers(config, where, count, first, label)
    try:
        yield Progress(phase="starting processes that read samples")
        readers.wait_until_ready()
        if labels is None:
            labels = _room_for(count, label, f"{where}: the labels {list(label.shape)} of {count:,} train samples")
            batches = torch.split(torch.arange(count), min(config.batch_size, count))
            for number, index in enumerate(batches):
                if ending():
                    raise Interrupted
                yield Progress(phase="reading the labels of the train samples", done=int(index[0]), total=count, unit="samples")
                ahead = batches[number + 1 : number + 1 + readers.ahead]
                labels[index] = readers.read(index, BEFORE_TRAINING, ((other, BEFORE_TRAINING) for other in ahead))[1]
    except BaseException:
        readers.close()
        raise
    yield Notice(text=f"{beginning}: {words.readers(readers.workers)} them anew in each epoch.")
    return Part(first.expand(count, *first.shape), labels, readers)


def _known_labels(dataset: Any, seen: Mapping[int, Tensor]) -> Tensor | None:
    """The class numbers of all samples where a `Dataset` has them beside its samples, and they are those of the samples `seen`."""
    found = _beside(dataset)
    if found is None or not all(index < len(found) and torch.equal(found[index], label) for index, label in seen.items()):
        return None
    return found


def _beside(dataset: Any) -> Tensor | None:
    if isinstance(dataset, Subset):
        whole = _beside(dataset.dataset)
        return None if whole is None else whole[torch.as_tensor(dataset.indices)]
    for name in _LABELS:
        try:
            found = torch.as_tensor(getattr(dataset, name))
        except Exception:  # there is none, or what a person's own one has is something else
            continue
        if found.shape == (len(dataset),) and not found.is_floating_point():
            return found.to(torch.int64)
    return None


def class_names(part: Any) -> tuple[str, ...]:
    """What a `Dataset` calls its classes, as torchvision's do, in order of their numbers; of a subset, what the whole calls them."""
    while isinstance(part, Subset):
        part = part.dataset
    try:
        names = getattr(part, "classes", None)
    except Exception:  # a property of theirs may do anything
        names = None
    named = isinstance(part, Dataset) and isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    return tuple(map(clean, names or ())) if named else ()


def _room_for(count: int, first: Tensor, what: str) -> Tensor:
    """An empty tensor for as many inputs like the first.

    Raises:
        ConfigError: there is no memory for them.
    """
    needed, free = count * first.numel() * first.element_size(), free_memory()
    if needed > free:
        raise ConfigError(f"{what} take {words.size(needed)} of memory, and {words.size(free)} are free; they must be smaller, or fewer.")
    is_image = first.dim() == 3 and first.dtype == torch.uint8
    layout = torch.channels_last if is_image else torch.contiguous_format
    return torch.empty((count, *first.shape), dtype=first.dtype, memory_format=layout)

"""What a data set is in memory, and how a batch is cut from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from tuitrain.engine.datasets.file_names import FileNames
from tuitrain.engine.datasets.packing import Packing
from tuitrain.engine.datasets.readers import Readers
from tuitrain.engine.datasets.sample import for_model
from tuitrain.events import DataKind, Targets


class Closes(Protocol):
    """What may read samples by processes of its own, and then has to be closed."""

    def close(self) -> None: ...


@contextmanager
def closed_on_failure(opened: Closes) -> Iterator[None]:
    """With an error inside it is closed; without one somebody else will."""
    try:
        yield
    except BaseException:
        opened.close()
        raise


@dataclass(frozen=True, eq=False)
class Split:
    """The samples of one part of a data set; the labels are on the device of the run, as the inputs are unless these would fill it.

    Attributes:
        inputs: [N, 3, H, W] uint8 images in channels_last memory unless `contiguous`, or [N, ...] of another shape, uint8, other whole
            numbers, such as those of tokens, or floats. With `packing` rows [N, K] of bytes.
        packing: how rows hold the inputs of a sample that has several; they stay rows up to the model's forward call.
        side: to how many pixels, in height and in width, images of a person's `Dataset` were brought; `None` where they are as it has them.
        labels: [N] int64 class numbers; [N, ...] of them, one for each position, or `IGNORED`; or [N, ...] floats.
        as_rows: the model gets images as sequences of rows.
        contiguous: the model can be trained with contiguous inputs only, and `inputs` are.
        classes_last: the model gives its scores of positions as [N, ..., C].
        targets: what `labels` are for the model that is trained with them; class numbers that it does not score each are mere numbers.
        files: what the samples' files are called, where each is a file and someone may ask for it.
        readers: read the samples each time anew; `inputs` are all the first one then, and `labels` those of one draw or, where a sample
            has more than one number, all the first one's too.
    """

    inputs: Tensor
    labels: Tensor
    packing: Packing | None = None
    side: int | None = None
    as_rows: bool = False
    contiguous: bool = False
    classes_last: bool = False
    targets: Targets = "classes"
    files: FileNames | None = None
    readers: Readers | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device | str, *, inputs_too: bool = True) -> Split:
        """The same samples on `device`, in the same dtype and memory format; with `inputs_too` false their inputs are where they were, as
        they are where they are read."""
        move = inputs_too and self.readers is None
        labels = self.labels[:1].to(device).expand(self.labels.shape) if self.reads_labels else self.labels.to(device)
        return replace(self, inputs=self.inputs.to(device) if move else self.inputs, labels=labels)

    @property
    def reads_labels(self) -> bool:
        """Whether labels are known of one sample alone: masks, or texts, of all of them would take more memory than there is."""
        return self.readers is not None and self.labels.dim() > 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory that its inputs take."""
        return self.inputs.nbytes if self.readers is None else 0

    def close(self) -> None:
        """End what reads the samples."""
        if self.readers is not None:
            self.readers.close()

    def flaw(self, index: slice | Tensor, dtype: torch.dtype, part: str, draw: int = 0) -> str | None:
        """Names the first of the samples that `index` picks with inputs, or labels, that are no finite numbers in `dtype`; else `None`.

        Args:
            part: what these samples are for, "training" or "test".
            draw: see `rows`.

        Raises:
            Interrupted: the person asked to end while they were read.
        """
        inputs, labels = rows(self, index, draw)
        parts = [inputs] if self.packing is None else self.packing.unpack(inputs)
        for name, values in (*(("inputs", values) for values in parts), ("labels", labels)):
            finite = values.to(dtype).isfinite()
            finite = finite.reshape(len(finite), -1).all(1)
            if not bool(finite.all()):
                place = int(numbers(self, index)[~finite.cpu()][0])
                return f"the {name} of {part} sample {place:,}, counted from 0, hold a nan or an infinity"
        return None

    def in_words(self, count: int | None = None) -> str:
        """The shape of a sample's inputs, or of so many samples'."""
        if self.packing is not None:
            return self.packing.in_words(count)
        shape = [*self.inputs.shape[1:]]
        return str(shape if count is None else [count, *shape])


@dataclass(frozen=True, eq=False)
class Dataset:
    """A whole data set in memory.

    Attributes:
        kind: what the data is, never what was asked for.
        source: the value of `RunConfig.data` that loads the same data again.
        train: samples in training order.
        test: samples to evaluate on, or `None`.
        classes: the name of each class number; empty where the labels are none.
        parts: what a person's data calls its parts, and a file its arrays, inputs and labels of each; "" where it is one data set alone,
            empty where it is a pair.
        of_loaders: which of the two, "train" and "test", a person's code gives as loaders.
    """

    kind: DataKind
    source: str
    train: Split
    test: Split | None
    classes: tuple[str, ...]
    parts: tuple[str, ...] = ()
    of_loaders: tuple[str, ...] = ()

    @property
    def splits(self) -> tuple[Split, ...]:
        """The parts that it has."""
        return (self.train,) if self.test is None else (self.train, self.test)

    def close(self) -> None:
        """End what reads the samples."""
        for split in self.splits:
            split.close()

    @property
    def scores(self) -> int:
        """How many numbers a network gives for a sample, or a position: one for each class, or as many as a sample's labels have."""
        return len(self.classes) or self.train.labels[0].numel()

    @property
    def sample(self) -> tuple[int, ...]:
        """The shape that the inputs of each sample have."""
        return tuple(self.train.inputs.shape[1:])


def rows_of(dataset: Dataset) -> Dataset:
    """`dataset` for a model that reads images row by row; the images stay images in memory."""
    return replace(dataset, train=replace(dataset.train, as_rows=True), test=dataset.test and replace(dataset.test, as_rows=True))


def to_device(dataset: Dataset, device: torch.device | str, *, inputs_too: bool = True) -> Dataset:
    """`dataset` with its samples on `device`, see `Split.to`; images stay uint8 there, a quarter of what floats would take."""
    test = dataset.test and dataset.test.to(device, inputs_too=inputs_too)
    return replace(dataset, train=dataset.train.to(device, inputs_too=inputs_too), test=test)


def sent(value: slice | Tensor, device: torch.device) -> Any:
    """A tensor on `device`; from the host to a GPU through pinned memory, so that nobody waits for the GPU. A slice is what it is."""
    if isinstance(value, slice) or value.device == device:
        return value
    return value.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else value.to(device)


def batch(split: Split, index: slice | Tensor, dtype: torch.dtype, batch_dim: int, then: Iterable[slice] = ()) -> tuple[Tensor, Tensor]:
    """The samples that `index` picks, ready for a model, on the device of the run, where their labels are.

    Args:
        split: where to pick from.
        index: a slice, or int64 positions [B] where the inputs are.
        dtype: a floating type; uint8 inputs are divided by 255 in it, which gives torchvision's `ToTensor` values. Other whole numbers
            stay such.
        batch_dim: 0 or 1, the axis of the inputs that the batch gets; labels keep theirs at 0.
        then: what will be asked for next; where samples are read, the first of them are begun.

    Returns:
        inputs [B, ...] (or [..., B, ...]) and labels [B, ...], each int64 or in `dtype`. As rows, images [B, 3, H, W] are [B, H, 3·W]
        (or [H, B, 3·W]): a sequence of rows, each the red, green and blue of its pixels.
    """
    return ready(split, *rows(split, index, then=then), dtype, batch_dim, shared=isinstance(index, slice))


def rows(split: Split, index: slice | Tensor, draw: int = 0, then: Iterable[slice] = ()) -> tuple[Tensor, Tensor]:
    """Inputs [B, ...] and labels [B, ...] of the samples that `index` picks, as the data set has them, on the device of the run.

    Args:
        draw: of samples that are drawn anew in each epoch, the number of that; 0 before the first, and in evaluations.
        then: see `batch`.
    """
    device = split.labels.device
    if split.readers is None:
        return sent(_rows(split.inputs, index), device), split.labels[sent(index, device)]
    ahead = ((numbers(split, other), draw) for other in then)
    inputs, labels = split.readers.read(numbers(split, index), draw, ahead)
    return sent(inputs, device), sent(labels, device)


def numbers(split: Split, index: slice | Tensor) -> Tensor:
    """Which samples `index` picks, int64."""
    return torch.arange(*index.indices(len(split))) if isinstance(index, slice) else index


def ready(split: Split, inputs: Tensor, labels: Tensor, dtype: torch.dtype, batch_dim: int, *, shared: bool) -> tuple[Tensor, Tensor]:
    """What `rows` gave, ready for a model as `batch` gives it; `shared`: it may be in the memory of the data set."""
    if labels.is_floating_point():
        labels = labels.to(dtype, copy=shared)
    if split.packing is not None:
        return inputs, labels
    if split.contiguous:
        inputs = inputs.contiguous()
    scaled = for_model(inputs, dtype, copy=shared)
    if split.as_rows and scaled.dim() == 4:
        scaled = scaled.permute(0, 2, 3, 1).flatten(2)
    return (scaled.movedim(0, batch_dim) if batch_dim else scaled), labels


def _rows(inputs: Tensor, index: slice | Tensor) -> Tensor:
    """`inputs[index]`. On the CPU samples that lie in one piece are copied whole, which takes a third of the time of indexing, or less."""
    if isinstance(index, slice) or inputs.device.type != "cpu":
        return inputs[index]
    if inputs.dim() == 4 and not inputs.is_contiguous() and inputs.is_contiguous(memory_format=torch.channels_last):
        return inputs.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
    return inputs.index_select(0, index)


def images(pixels: Tensor) -> Tensor:
    """[N, H, W, 3] contiguous pixels as [N, 3, H, W] in channels_last memory, without a copy."""
    return pixels.permute(0, 3, 1, 2)

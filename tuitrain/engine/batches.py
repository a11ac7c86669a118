"""Which samples each training step gets."""

from __future__ import annotations

import torch
from torch import Tensor

from tuitrain.config import RunConfig
from tuitrain.engine.augment import crop_flip, flip_shift, moves
from tuitrain.engine.control import Interrupted
from tuitrain.engine.data import Split, batch
from tuitrain.engine.datasets.samples import numbers, ready, sent
from tuitrain.engine.group import Group
from tuitrain.engine.models import model_dtype

SPREAD = 1_000_003
"""Odd, so that different seeds stay different in the lowest 32 bits, which are all that torch's generator for the CPU takes."""


class Batches:
    """The batches of an epoch, ready for the model: a function of seed, epoch and step alone, so that a run can go on anywhere.

    Args:
        split: the training samples.
        config: batch size, shuffling, augmentation, precision and the input's batch axis.
        group: the ranks, each of which trains with its own part of every batch. What has to be read is read for that part alone, and the
            inputs of the others are zeros.

    Attributes:
        per_epoch: batches in an epoch; the last one may be smaller.
    """

    def __init__(self, split: Split, config: RunConfig, group: Group | None = None) -> None:
        self.per_epoch = -(-len(split) // config.batch_size)
        self._split = split
        self._config = config
        self._dtype = model_dtype(config)
        self._group = group
        self._orders: dict[int, Tensor] = {}
        self._moves: tuple[Tensor, Tensor] | None = None
        self._moves_epoch = 0

    def sizes(self, steps: int) -> list[int]:
        """How many samples the batches of the first `steps` steps have, each number once."""
        count, size = len(self._split), self._config.batch_size
        last = count - (self.per_epoch - 1) * size
        return list(dict.fromkeys([min(size, count), *([last] if steps >= self.per_epoch else [])]))

    def get(self, epoch: int, position: int, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and labels of the batch at `position` (from 0) of `epoch` (from 1), for training step `step` (from 1)."""
        index = self._index(epoch, position)
        if self._split.readers is None:
            inputs, labels = batch(self._split, index, self._dtype, self._config.batch_dim)
        else:
            inputs, labels = ready(self._split, *self._read(epoch, position), self._dtype, self._config.batch_dim, shared=True)
        if self._config.augment == "crop-flip":
            inputs = crop_flip(inputs, self._config.seed * SPREAD + step)
        elif self._config.augment == "flip-shift":
            (mirrored, shifts), moved = self._moved(epoch), sent(index, inputs.device)
            inputs = flip_shift(inputs, mirrored[moved], shifts[moved])
        if self._config.augment != "none" and self._split.contiguous:
            inputs = inputs.contiguous()  # augmented they are in channels_last memory
        return inputs, labels

    def flaw_of(self, step: int) -> str | None:
        """What makes the loss of a step (from 1) no finite number, where a sample of its batch does; `None` where all are finite."""
        epoch, position = divmod(step - 1, self.per_epoch)
        try:
            return self._split.flaw(self._index(epoch + 1, position), self._dtype, "training", draw=epoch + 1)
        except Interrupted:  # nobody waits for an answer any more
            return None

    def _read(self, epoch: int, position: int) -> tuple[Tensor, Tensor]:
        """The batch as the readers give it, on the device; those after it are begun."""
        readers, device = self._split.readers, self._split.labels.device
        assert readers is not None
        ahead = (self._part(epoch, position + later) for later in range(1, readers.ahead + 1))
        index, draw = self._part(epoch, position)
        inputs, labels = (sent(values, device) for values in readers.read(index, draw, ahead))
        if self._group is None:
            return inputs, labels
        whole = len(self._numbers(epoch, position))
        return _among_zeros(inputs, self._rows(whole), whole), _among_zeros(labels, self._rows(whole), whole)

    def _part(self, epoch: int, position: int) -> tuple[Tensor, int]:
        """Which samples this process trains with, and as of which epoch; a position behind the last one is of a later epoch."""
        over, position = divmod(position, self.per_epoch)
        whole = self._numbers(epoch + over, position)
        return whole[self._rows(len(whole))], epoch + over

    def _rows(self, whole: int) -> slice:
        """This process's own rows of a batch, as `torch.chunk` cuts it; one that gets none has those of the first, see `Distributed`."""
        if self._group is None:
            return slice(0, whole)
        each = -(-whole // self._group.size)
        first = self._group.rank * each
        return slice(first, min(first + each, whole)) if first < whole else slice(0, each)

    def _numbers(self, epoch: int, position: int) -> Tensor:
        return numbers(self._split, self._index(epoch, position))

    def _index(self, epoch: int, position: int) -> slice | Tensor:
        first = position * self._config.batch_size
        rows = slice(first, first + self._config.batch_size)
        return self._shuffled(epoch)[rows] if self._config.shuffle else rows

    def _shuffled(self, epoch: int) -> Tensor:
        if epoch not in self._orders:
            order = torch.randperm(len(self._split), generator=torch.Generator().manual_seed(self._config.seed * SPREAD + epoch))
            # With the one before: batches of an epoch are begun before that one is over.
            kept = {other: self._orders[other] for other in self._orders if other == epoch - 1}
            self._orders = kept | {epoch: order.to(self._split.inputs.device, non_blocking=True)}
        return self._orders[epoch]

    def _moved(self, epoch: int) -> tuple[Tensor, Tensor]:
        """How each training image is moved in `epoch`, on the device."""
        if self._moves is None or self._moves_epoch != epoch:
            mirrored, shifts = moves(len(self._split), self._config.seed, epoch)
            device = self._split.labels.device
            self._moves = mirrored.to(device, non_blocking=True), shifts.to(device, non_blocking=True)
            self._moves_epoch = epoch
        return self._moves


def _among_zeros(part: Tensor, rows: slice, whole: int) -> Tensor:
    """A batch of which only these rows are something."""
    wide = part.dim() == 4 and part.is_contiguous(memory_format=torch.channels_last)
    memory = torch.channels_last if wide else torch.contiguous_format
    batch = torch.empty((whole, *part.shape[1:]), dtype=part.dtype, device=part.device, memory_format=memory).zero_()
    batch[rows] = part
    return batch

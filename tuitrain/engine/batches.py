"""Which samples each training step gets."""

from __future__ import annotations

import torch
from torch import Tensor

from tuitrain.config import RunConfig
from tuitrain.engine.augment import crop_flip, flip_shift, moves
from tuitrain.engine.data import Split, batch
from tuitrain.engine.models import model_dtype
from tuitrain.engine.samples import sent

SPREAD = 1_000_003
"""Odd, so that different seeds stay different in the lowest 32 bits, which are all that torch's generator for the CPU takes."""


class Batches:
    """The batches of an epoch, ready for the model: a function of seed, epoch and step alone, so that a run can go on anywhere.

    Args:
        split: the training samples.
        config: batch size, shuffling, augmentation, precision and the input's batch axis.

    Attributes:
        per_epoch: batches in an epoch; the last one may be smaller.
    """

    def __init__(self, split: Split, config: RunConfig) -> None:
        self.per_epoch = -(-len(split) // config.batch_size)
        self._split = split
        self._config = config
        self._dtype = model_dtype(config)
        self._order: Tensor | None = None
        self._order_epoch = 0
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
        inputs, labels = batch(self._split, index, self._dtype, self._config.batch_dim)
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
        return self._split.flaw(self._index(epoch + 1, position), self._dtype, "training")

    def _index(self, epoch: int, position: int) -> slice | Tensor:
        first = position * self._config.batch_size
        rows = slice(first, first + self._config.batch_size)
        return self._shuffled(epoch)[rows] if self._config.shuffle else rows

    def _shuffled(self, epoch: int) -> Tensor:
        if self._order is None or self._order_epoch != epoch:
            order = torch.randperm(len(self._split), generator=torch.Generator().manual_seed(self._config.seed * SPREAD + epoch))
            self._order, self._order_epoch = order.to(self._split.inputs.device, non_blocking=True), epoch
        return self._order

    def _moved(self, epoch: int) -> tuple[Tensor, Tensor]:
        """How each training image is moved in `epoch`, on the device."""
        if self._moves is None or self._moves_epoch != epoch:
            mirrored, shifts = moves(len(self._split), self._config.seed, epoch)
            device = self._split.labels.device
            self._moves = mirrored.to(device, non_blocking=True), shifts.to(device, non_blocking=True)
            self._moves_epoch = epoch
        return self._moves

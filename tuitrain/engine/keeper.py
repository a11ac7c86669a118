"""When a run's checkpoints are saved, and which of them are kept."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from tuitrain.config import RunConfig
from tuitrain.engine import checkpoint
from tuitrain.engine.failures import first_line
from tuitrain.events import Checkpoint, CheckpointKind, Notice


class Keeper:
    """Saves one run's checkpoints. A save that fails is a notice: training is worth more than one checkpoint.

    Args:
        parent: the folder for checkpoints.
        config: how often to save and how many to keep.
        devices: those of the run.
    """

    def __init__(
        self, parent: Path, config: RunConfig, model: nn.Module, optimizer: torch.optim.Optimizer, devices: Sequence[torch.device]
    ) -> None:
        self._parent = parent
        self._config = config
        self._model = model
        self._optimizer = optimizer
        self._devices = devices
        self._saved_at = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether the configuration asks for a checkpoint after `step`."""
        every = self._config.checkpoint_every_steps
        if every is not None and step % every == 0:
            return True
        return time.monotonic() - self._saved_at >= self._config.checkpoint_every_minutes * 60

    def save(self, kind: CheckpointKind, position: checkpoint.Position, *, best: bool = False) -> Iterator[Checkpoint | Notice]:
        """Save, tell so, and delete what is no longer kept. A step that is saved already is only told again.

        Args:
            kind: why it is saved.
            position: where the run is.
            best: its test accuracy is the highest so far.
        """
        self._saved_at = time.monotonic()
        folder = self._parent / checkpoint.folder_name(position.step)
        try:
            if not folder.exists():
                checkpoint.write(self._parent, kind, position, self._model, self._optimizer, self._devices)
            yield Checkpoint(step=position.step, path=str(folder), kind=kind)
            if best:
                checkpoint.write_text(self._parent / checkpoint.BEST, f"{folder.name}\n")
                yield Checkpoint(step=position.step, path=str(folder), kind="best")
            self._delete_old()
        except Exception as error:  # a full disk, but also a model whose state is no tensors
            reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
            yield Notice(level="warning", text=f"The checkpoint at step {position.step} could not be saved: {reason}. Training goes on.")

    def _delete_old(self) -> None:
        best = checkpoint.best(self._parent)
        for folder in checkpoint.checkpoints(self._parent)[: -self._config.keep_checkpoints]:
            if folder == best:
                continue
            # Renamed first: nobody may find a half-deleted checkpoint under a good name.
            doomed = folder.with_name(f".old-{folder.name}")
            with suppress(OSError):
                folder.rename(doomed)
                shutil.rmtree(doomed, ignore_errors=True)

"""A checkpoint, made: what a run is at this moment is copied in the training thread, and written wherever there is time."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tuitrain.engine.averaging import Lookahead
from tuitrain.engine.checkpoint import AVERAGING, FORMAT, STATE, Position, folder_name
from tuitrain.engine.placement import cuda_devices
from tuitrain.engine.tensor_file import pieces
from tuitrain.events import CheckpointKind
from tuitrain.files import sweep, sync_folder, write_durably
from tuitrain.paths import BEST, MANIFEST, MODEL_TENSORS

REPLACED = ".replaced-"
"""Before the name of a checkpoint that another one of the same step takes the place of, for a moment."""


@dataclass(frozen=True)
class Snapshot:
    """Copies, on the CPU: training goes on and changes nothing here."""

    position: Position
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    generators: dict[str, Tensor]
    optimizer_numbers: dict[str, Any]
    python: tuple[Any, ...]
    numpy: tuple[Any, ...]
    origin: dict[str, Any]
    averaging: dict[str, Tensor]

    def files(self) -> dict[str, Iterable[bytes | memoryview]]:
        """The content of each file but the manifest, in parts."""
        kind, keys, *rest = self.numpy
        state = {
            "position": asdict(self.position),
            "optimizer": self.optimizer_numbers,
            "random": {"python": self.python, "numpy": [kind, np.asarray(keys).tolist(), *rest]},
            "origin": self.origin,
        }
        return {
            MODEL_TENSORS: pieces(self.model),
            "optimizer.safetensors": pieces(self.optimizer),
            "random.safetensors": pieces(self.generators),
            **({AVERAGING: pieces(self.averaging)} if self.averaging else {}),
            STATE: [_json(state)],
        }


def take(
    position: Position,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    devices: Sequence[torch.device],
    origin: Mapping[str, Any],
    averaging: Lookahead | None = None,
    spent: Snapshot | None = None,
) -> Snapshot:
    """Copy all that an exact continuation needs.

    Args:
        devices: those of the run, whose random generators belong to it.
        origin: what the run trains on, as JSON values: what the losses depend on beside the configuration that a run keeps.
        averaging: of the model's weights, where the run has one.
        spent: one that nobody needs any more. Its memory is used again, and holds something else then: to copy into fresh pages takes
            several times as long.
    """
    optimizer_tensors, numbers = _split_optimizer(optimizer)
    generators = {"cpu": torch.get_rng_state()}
    if cuda := cuda_devices(devices):
        generators["cuda"] = torch.stack([torch.cuda.get_rng_state(device) for device in cuda])
    return Snapshot(
        position,
        _copies(model.state_dict(), spent.model if spent else {}),
        _copies(optimizer_tensors, spent.optimizer if spent else {}),
        generators,
        numbers,
        random.getstate(),
        tuple(np.random.get_state()),
        dict(origin),
        _copies(averaging.slow if averaging is not None else {}, spent.averaging if spent else {}),
    )


def write(parent: Path, kind: CheckpointKind, snapshot: Snapshot) -> Path:
    """Save under `parent`, in the run's folder; the checkpoint's gets its final name when all of it is on disk. An older one of the same
    step is replaced.

    Raises:
        OSError: it could not be written; nothing is left of it.
    """
    try:
        parent.mkdir(exist_ok=True)
    except FileNotFoundError as error:
        # One that was moved or deleted is not made anew: without its configuration nobody could go on from there.
        raise FileNotFoundError(error.errno, "the run's folder is not there any more") from None
    final = parent / folder_name(snapshot.position.step)
    temporary = parent / f".{final.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        hashes = {name: _write_hashed(temporary / name, parts) for name, parts in snapshot.files().items()}
        manifest = {"format": FORMAT, "kind": kind, "step": snapshot.position.step, "files": hashes}
        write_durably(temporary / MANIFEST, _json(manifest))
        sync_folder(temporary)
        _put_in_place(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    sync_folder(parent)
    return final


def _write_hashed(path: Path, parts: Iterable[bytes | memoryview]) -> str:
    """The SHA-256 of what was written."""
    found = hashlib.sha256()

    def passing() -> Iterator[bytes | memoryview]:
        for part in parts:
            found.update(part)
            yield part

    write_durably(path, passing())
    return found.hexdigest()


def tidy(parent: Path) -> None:
    """Take away what a process that was killed left half done."""
    sweep(parent, (BEST,))
    for replaced in parent.glob(f"{REPLACED}*"):
        with suppress(OSError):
            # Where the new one has its name already, this fails, and the old one goes.
            replaced.rename(parent / replaced.name.removeprefix(REPLACED))
    for pattern in (".step-*", ".old-*", f"{REPLACED}*"):
        for left in parent.glob(pattern):
            shutil.rmtree(left, ignore_errors=True)


def _put_in_place(temporary: Path, final: Path) -> None:
    replaced = final.with_name(f"{REPLACED}{final.name}")
    shutil.rmtree(replaced, ignore_errors=True)
    with suppress(FileNotFoundError):
        final.rename(replaced)
    try:
        temporary.rename(final)
    except OSError:
        with suppress(OSError):
            replaced.rename(final)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def _split_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizer's state as tensors, named `0.momentum_buffer`, and everything else."""
    document = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    others: dict[str, dict[str, Any]] = {}
    for index, values in document["state"].items():
        tensors |= {f"{index}.{name}": value for name, value in values.items() if isinstance(value, Tensor)}
        others[str(index)] = {name: value for name, value in values.items() if not isinstance(value, Tensor)}
    return tensors, {"groups": document["param_groups"], "state": others}


def _copies(named: Mapping[str, Any], spent: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: _copy(value.detach(), spent.get(name)) for name, value in named.items()}


def _copy(value: Tensor, spent: Tensor | None) -> Tensor:
    if spent is not None and _may_take(spent, value):
        return spent.copy_(value)
    # In the order in which it is written: else the writing thread would put it in order, with threads of OpenMP's of its own. Of more of
    # them than there are processors none spins any more, see `spinning`, and training slows down.
    return value.to("cpu", copy=True, memory_format=torch.contiguous_format)


def _may_take(spent: Tensor, value: Tensor) -> bool:
    """Whether both are plain arrays of the same kind."""
    plain = all(type(each) is Tensor and each.layout == torch.strided for each in (spent, value))
    return plain and (spent.dtype, spent.shape) == (value.dtype, value.shape)


def _json(document: Mapping[str, Any]) -> bytes:
    # Without an indent: only so Python's own encoder is fast.
    return json.dumps(document, allow_nan=False).encode()

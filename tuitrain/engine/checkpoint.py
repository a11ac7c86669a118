"""A checkpoint on disk, read: a folder that is whole or not there, and holds all that an exact continuation needs.

    step-00000500/
      model.safetensors, optimizer.safetensors, random.safetensors    tensors
      averaging.safetensors    slow weights, where the run has some
      state.json       position in the run, optimizer's numbers, Python's and NumPy's generators, what the run trained on
      manifest.json    format, kind, step, SHA-256 of each file above

Nothing here is ever unpickled. `tuitrain.engine.snapshot` writes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tuitrain.engine.failures import first_line
from tuitrain.engine.placement import cuda_devices
from tuitrain.engine.tensor_file import tensors_in
from tuitrain.paths import MANIFEST, best_name, saved_folders

FORMAT = 1
STATE = "state.json"
TENSORS = ("model", "optimizer", "random")
AVERAGING = "averaging.safetensors"
_PIECE = 1 << 20
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""What opening a file says where something else, or nothing, is in its place."""


class BadCheckpoint(Exception):
    """A checkpoint that cannot be used: one sentence that names the folder and the file."""


class OtherFormat(BadCheckpoint):
    """A checkpoint that may be good, but not for this version of tuitrain."""


class Unreadable(BadCheckpoint):
    """A checkpoint that may be good, but cannot be read now: no permission, a disk or a server that does not answer."""


@dataclass(frozen=True)
class Position:
    """Where in the run a checkpoint is.

    Attributes:
        step: steps done.
        epoch: the epoch of the last step, from 1.
        batches: batches of that epoch that are done.
        evaluated: whether that epoch is over and its evaluation done.
        best_accuracy: the highest test accuracy of those positions that were saved up to here, 0 to 1.
        best_loss: the lowest test loss of them, where there is no accuracy.
        seconds, crossed_epoch, crossed_seconds: of the clock, in a run that has a target accuracy; see `target.TargetClock`.
    """

    step: int
    epoch: int
    batches: int
    evaluated: bool
    best_accuracy: float | None = None
    best_loss: float | None = None
    seconds: float = 0.0
    crossed_epoch: int | None = None
    crossed_seconds: float | None = None

    @property
    def merit(self) -> float | None:
        """How good the best of those positions is, the more the better; `None` where none was evaluated."""
        return merit(self.best_accuracy, self.best_loss)


def merit(accuracy: float | None, loss: float | None) -> float | None:
    """How good a model of this test accuracy is, or, where there is none, of this test loss; the more the better."""
    return accuracy if loss is None else -loss


@dataclass(frozen=True)
class Contents:
    """A checkpoint in memory, its hashes checked; `restore` puts it back."""

    position: Position
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]
    averaging: dict[str, Tensor]
    state: dict[str, Any]

    @property
    def origin(self) -> dict[str, Any]:
        """What the run trained on when it was saved: see `snapshot.take`."""
        return dict(self.state.get("origin", {}))


def folder_name(step: int) -> str:
    """The name of the checkpoint after `step` steps."""
    return f"step-{step:08d}"


def load(folder: Path) -> Contents:
    """Read a checkpoint, on the CPU.

    Raises:
        OtherFormat: another version of tuitrain wrote it.
        Unreadable: the system does not let its files be read.
        BadCheckpoint: a file is missing or not as it was written.
    """
    expected = _expected(folder)
    files = {name: bytearray() for name in expected}
    for name, content in files.items():
        _check(folder, name, expected[name], content)
    try:
        state = json.loads(files[STATE])
        model, optimizer, generators = (tensors_in(files[f"{name}.safetensors"]) for name in TENSORS)
        slow = tensors_in(files[AVERAGING]) if AVERAGING in files else {}
        return Contents(Position(**state["position"]), model, optimizer, generators, slow, state)
    except (KeyError, TypeError, ValueError) as error:
        # Its files are as they were written, so it is no damage.
        reason = f"it holds other things than this tuitrain's checkpoints ({type(error).__name__}: {error})"
        raise OtherFormat(f"{folder.name}: {reason}; use the tuitrain that wrote it.") from error


def verify(folder: Path) -> None:
    """Read a checkpoint's files again, piece by piece.

    Raises:
        BadCheckpoint: as `load` does.
    """
    for name, expected in _expected(folder).items():
        _check(folder, name, expected)


def restore(contents: Contents, model: nn.Module, optimizer: torch.optim.Optimizer, *devices: torch.device) -> None:
    """Put a checkpoint's weights, optimizer and random generators back.

    `model` is on the first of the run's `devices`, and `optimizer` is over its parameters. The generators of other devices than those that
    the checkpoint was saved on stay as they are.

    Raises:
        BadCheckpoint: it belongs to another model or optimizer.
    """
    try:
        model.load_state_dict(contents.model)
        saved = _optimizer_state(contents, optimizer)
        optimizer.load_state_dict(saved)
    except (RuntimeError, ValueError) as error:
        raise BadCheckpoint(f"the checkpoint does not fit this model: {first_line(error)}.") from error
    _as_saved(optimizer, saved["state"])
    version, words, gauss = contents.state["random"]["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = contents.state["random"]["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(contents.random["cpu"])
    if "cuda" in contents.random:
        # A row for each CUDA device, in the run's order.
        for device, state in zip(cuda_devices(devices), contents.random["cuda"], strict=False):
            torch.cuda.set_rng_state(state, device)


def checkpoints(parent: Path) -> list[Path]:
    """The folders of complete checkpoints, oldest first; whether their content is good `load` says."""
    return [path for path in saved_folders(parent) if os.path.isfile(path / MANIFEST)]


def best(parent: Path) -> Path | None:
    """The checkpoint with the best test result, where one is noted and still there."""
    name = best_name(parent)
    return next((path for path in checkpoints(parent) if path.name == name), None)


def set_aside(folder: Path, prefix: str) -> Path | None:
    """Give a checkpoint a name under which nobody looks for one; `None` where it keeps its own."""
    for number in range(100):
        aside = folder.with_name(f"{prefix}{folder.name}" + (f"-{number}" if number else ""))
        if aside.exists():
            continue
        with suppress(OSError):
            return folder.rename(aside)
        break
    return None


def _optimizer_state(contents: Contents, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """As `optimizer` loads it: how it computes its updates is of this device, and no part of the run."""
    numbers = contents.state["optimizer"]
    state: dict[int, dict[str, Any]] = {int(index): dict(values) for index, values in numbers["state"].items()}
    for key, tensor in contents.optimizer.items():
        index, _, name = key.partition(".")
        state[int(index)][name] = tensor
    groups = [dict(group) for group in numbers["groups"]]
    for group, own in zip(groups, optimizer.param_groups, strict=False):  # of another number of groups the optimizer itself complains
        group.update({name: own[name] for name in ("foreach", "fused") if name in own})
    return {"state": state, "param_groups": groups}


def _as_saved(optimizer: torch.optim.Optimizer, saved: Mapping[int, Mapping[str, Any]]) -> None:
    """Bring the state that was loaded into the memory and of the type that it had.

    Files hold contiguous tensors, and in training an optimizer's state has the memory format of its parameter. torch loads what is no
    count of steps as of the parameter's type, whatever it was, and no text. What is right is copied all the same: a tensor of a checkpoint
    keeps the whole file in memory.

    Args:
        saved: the state as the file has it, by the places of the parameters.
    """
    for index, parameter in enumerate(parameter for group in optimizer.param_groups for parameter in group["params"]):
        values = optimizer.state.get(parameter, {})
        for name in values.keys() & saved.get(index, {}).keys():
            value, was = values[name], saved[index][name]
            if not isinstance(value, Tensor):
                values[name] = was
                continue
            value = value if name == "step" or value.dtype == was.dtype else was.to(value.device)
            alike = value.dim() and value.shape == parameter.shape
            values[name] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value) if alike else value.clone()


def _expected(folder: Path) -> dict[str, str]:
    """The hash of each file, by its name, as the manifest has them."""
    content = _read(folder, MANIFEST)
    try:
        manifest = json.loads(content)
        found, files = manifest["format"], manifest["files"]
        expected = {Path(name).name: str(value) for name, value in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadCheckpoint(f"{folder.name}: its {MANIFEST} is damaged.") from error
    if found != FORMAT and isinstance(found, int):
        age = "a newer" if found > FORMAT else "an older"
        raise OtherFormat(f"{folder.name}: {age} tuitrain wrote it (format {found}, and this one reads {FORMAT}); use that tuitrain.")
    if found != FORMAT or not {STATE, *(f"{name}.safetensors" for name in TENSORS)} <= set(expected):
        raise BadCheckpoint(f"{folder.name}: its {MANIFEST} is damaged.")
    return expected


def _check(folder: Path, name: str, expected: str, content: bytearray | None = None) -> None:
    """Read a file piece by piece, into `content` where that is given: at once, it would be in memory twice."""
    found = hashlib.sha256()
    try:
        with (folder / name).open("rb") as file:
            while piece := file.read(_PIECE):
                found.update(piece)
                if content is not None:
                    content += piece
    except OSError as error:
        raise _unreadable(folder, name, error) from None
    if found.hexdigest() != expected:
        raise _not_as_written(folder, name)


def _read(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise _unreadable(folder, name, error) from None


def _unreadable(folder: Path, name: str, error: OSError) -> BadCheckpoint:
    kind = BadCheckpoint if isinstance(error, _MISSING) else Unreadable
    return kind(f"{folder.name}: {name} cannot be read: {error.strerror or error}.")


def _not_as_written(folder: Path, name: str) -> BadCheckpoint:
    return BadCheckpoint(f"{folder.name}: {name} is not as it was written (SHA-256 differs).")

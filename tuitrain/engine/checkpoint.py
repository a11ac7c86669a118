"""A checkpoint on disk: a folder that is whole or not there, and holds all that an exact continuation needs.

    step-00000500/
      model.safetensors, optimizer.safetensors, random.safetensors    tensors
      state.json       position in the run, optimizer's numbers, Python's and NumPy's generators, number of torch threads
      manifest.json    format, kind, step, SHA-256 of each file above

Nothing here is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from tuitrain.events import CheckpointKind

FORMAT = 1
MANIFEST = "manifest.json"
BEST = "best"


class BadCheckpoint(Exception):
    """A checkpoint that cannot be used: one sentence that names the folder and the file."""


@dataclass(frozen=True)
class Position:
    """Where in the run a checkpoint is.

    Attributes:
        step: steps done.
        epoch: the epoch of the last step, from 1.
        batches: batches of that epoch that are done.
        evaluated: whether that epoch is over and its evaluation done.
        best_accuracy: the highest test accuracy so far, 0 to 1.
    """

    step: int
    epoch: int
    batches: int
    evaluated: bool
    best_accuracy: float | None


@dataclass(frozen=True)
class Contents:
    """A checkpoint in memory, its hashes checked; `restore` puts it back."""

    position: Position
    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]
    state: dict[str, Any]


def folder_name(step: int) -> str:
    """The name of the checkpoint after `step` steps; names sort by step."""
    return f"step-{step:08d}"


def write(
    parent: Path,
    kind: CheckpointKind,
    position: Position,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    devices: Sequence[torch.device],
) -> Path:
    """Save everything under `parent`; the folder gets its final name when all of it is on disk.

    Args:
        devices: those of the run, whose random generators belong to it.

    Raises:
        OSError: it could not be written; nothing is left of it.
    """
    parent.mkdir(parents=True, exist_ok=True)
    final = parent / folder_name(position.step)
    temporary = parent / f".{final.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir()
        files = _files(position, model, optimizer, devices)
        hashes = {name: _write_file(temporary / name, content) for name, content in files.items()}
        manifest = {"format": FORMAT, "kind": kind, "step": position.step, "files": hashes}
        _write_file(temporary / MANIFEST, _json(manifest))
        _sync_folder(temporary)
        temporary.rename(final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(parent)
    return final


def write_text(path: Path, text: str) -> None:
    """Replace a small text file in one go.

    Raises:
        OSError: it could not be written; the old one is still there.
    """
    temporary = path.with_name(f".{path.name}")
    _write_file(temporary, text.encode())
    os.replace(temporary, path)
    _sync_folder(path.parent)


def load(folder: Path) -> Contents:
    """Read a checkpoint, on the CPU.

    Raises:
        BadCheckpoint: a file is missing or not as it was written, or the format is another one.
    """
    files = _checked_files(folder)
    try:
        state = json.loads(files["state.json"])
        model, optimizer, generators = (safetensors.torch.load(files[f"{name}.safetensors"]) for name in ("model", "optimizer", "random"))
        return Contents(Position(**state["position"]), model, optimizer, generators, state)
    except (KeyError, TypeError, ValueError) as error:
        raise BadCheckpoint(f"{folder.name}: it lacks what a checkpoint holds ({type(error).__name__}: {error}).") from error


def restore(contents: Contents, model: nn.Module, optimizer: torch.optim.Optimizer, *devices: torch.device) -> None:
    """Put a checkpoint's weights, optimizer and random generators back.

    `model` is on the first of the run's `devices`, and `optimizer` is over its parameters. The generators of other devices than those that
    the checkpoint was saved on stay as they are.

    Raises:
        BadCheckpoint: it belongs to another model or optimizer.
    """
    try:
        model.load_state_dict(contents.model)
        optimizer.load_state_dict(_optimizer_state(contents))
    except (RuntimeError, ValueError) as error:
        raise BadCheckpoint(f"the checkpoint does not fit this model: {str(error).splitlines()[0]}") from error
    _match_layout(optimizer)
    version, words, gauss = contents.state["random"]["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, *rest = contents.state["random"]["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(contents.random["cpu"])
    if "cuda" in contents.random:
        # A row for each CUDA device, in the run's order.
        for device, state in zip(_cuda(devices), contents.random["cuda"], strict=False):
            torch.cuda.set_rng_state(state, device)


def checkpoints(parent: Path) -> list[Path]:
    """The folders of complete checkpoints, oldest first; whether their content is good `load` says."""
    if not parent.is_dir():
        return []
    return sorted(path for path in parent.glob("step-*") if (path / MANIFEST).is_file())


def newest(parent: Path) -> Contents | None:
    """The newest checkpoint that is as it was written, where there is one."""
    for folder in reversed(checkpoints(parent)):
        try:
            return load(folder)
        except BadCheckpoint:
            continue
    return None


def forget_after(parent: Path, step: int) -> None:
    """Delete what was saved after `step`: a run that goes on from there saves these steps again."""
    for folder in checkpoints(parent):
        if folder.name > folder_name(step):
            shutil.rmtree(folder, ignore_errors=True)


def best(parent: Path) -> Path | None:
    """The checkpoint with the highest test accuracy, where one is noted and still there."""
    try:
        name = (parent / BEST).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return next((path for path in checkpoints(parent) if path.name == name), None)


# -- what is in the files ---------------------------------------------------------------------------------------------


def _files(position: Position, model: nn.Module, optimizer: torch.optim.Optimizer, devices: Sequence[torch.device]) -> dict[str, bytes]:
    optimizer_tensors, optimizer_numbers = _split_optimizer(optimizer)
    generators = {"cpu": torch.get_rng_state()}
    if cuda := _cuda(devices):
        generators["cuda"] = torch.stack([torch.cuda.get_rng_state(device) for device in cuda])
    kind, keys, *rest = np.random.get_state()
    state = {
        "position": asdict(position),
        "optimizer": optimizer_numbers,
        "random": {"python": random.getstate(), "numpy": [kind, np.asarray(keys).tolist(), *rest]},
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    return {
        "model.safetensors": _tensors(model.state_dict()),
        "optimizer.safetensors": _tensors(optimizer_tensors),
        "random.safetensors": _tensors(generators),
        "state.json": _json(state),
    }


def _cuda(devices: Sequence[torch.device]) -> list[torch.device]:
    return [device for device in dict.fromkeys(devices) if device.type == "cuda"]


def _split_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizer's state as tensors, named `0.momentum_buffer`, and everything else."""
    document = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    others: dict[str, dict[str, Any]] = {}
    for index, values in document["state"].items():
        tensors |= {f"{index}.{name}": value for name, value in values.items() if isinstance(value, Tensor)}
        others[str(index)] = {name: value for name, value in values.items() if not isinstance(value, Tensor)}
    return tensors, {"groups": document["param_groups"], "state": others}


def _optimizer_state(contents: Contents) -> dict[str, Any]:
    numbers = contents.state["optimizer"]
    state: dict[int, dict[str, Any]] = {int(index): dict(values) for index, values in numbers["state"].items()}
    for key, tensor in contents.optimizer.items():
        index, _, name = key.partition(".")
        state[int(index)][name] = tensor
    return {"state": state, "param_groups": numbers["groups"]}


def _match_layout(optimizer: torch.optim.Optimizer) -> None:
    """Files hold contiguous tensors; in training an optimizer's state has the memory format of its parameter."""
    for parameter, values in optimizer.state.items():
        for name, value in values.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                values[name] = torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


def _tensors(named: Mapping[str, Any]) -> bytes:
    # Cloned, because safetensors refuses tensors that share memory, as tied weights do.
    return safetensors.torch.save({name: value.detach().to("cpu", copy=True).contiguous() for name, value in named.items()})


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1, allow_nan=False).encode()


# -- files ------------------------------------------------------------------------------------------------------------


def _checked_files(folder: Path) -> dict[str, bytes]:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise BadCheckpoint(f"{folder.name}: its format is {manifest['format']}, and this version reads {FORMAT}.")
        expected = {str(name): str(value) for name, value in manifest["files"].items()}
        files = {name: (folder / Path(name).name).read_bytes() for name in expected}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its manifest is damaged"
        raise BadCheckpoint(f"{folder.name}: it cannot be read: {reason}.") from error
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != expected[name]:
            raise BadCheckpoint(f"{folder.name}: {name} is not as it was written (SHA-256 differs).")
    return files


def _write_file(path: Path, content: bytes) -> str:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(content).hexdigest()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The cache of decoded image folders: one safetensors file a folder, found by a fingerprint of its files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tuitrain.events import Notice
from tuitrain.paths import cache_dir

_LEFTOVER_SECONDS = 86_400.0
_NAMES = ("train_pixels", "train_labels", "test_pixels", "test_labels", "test_files")


@dataclass(frozen=True, eq=False)
class Decoded:
    """What decoding a folder gave: pixels [N, H, W, 3] uint8, labels [N] int64, the names of the test images
    as `FileNames` packs them, and what there is to say about it."""

    train_pixels: Tensor
    train_labels: Tensor
    test_pixels: Tensor
    test_labels: Tensor
    test_files: Tensor
    notices: tuple[Notice, ...]


def load(folder: Path, side: int, fingerprint: str) -> Decoded | None:
    """What was decoded from `folder` when its files had this `fingerprint`, `side` pixels high and wide; `None` when that is not there or
    damaged."""
    try:
        path = _cache_file(folder, side, fingerprint)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in _NAMES}
        if metadata.get("checksums") != _checksums(tensors):
            return None
        return Decoded(**tensors, notices=msgspec.json.decode(metadata["notices"], type=tuple[Notice, ...]))
    except (OSError, SafetensorError, KeyError, msgspec.MsgspecError):
        return None


def save(folder: Path, side: int, fingerprint: str, decoded: Decoded) -> None:
    """Keeps `decoded` for the next start and removes what was kept of the folder's earlier states.

    Raises:
        OSError: the cache cannot be written; nothing half-written is left.
    """
    path = _cache_file(folder, side, fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, ".*.tmp")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    tensors = {name: getattr(decoded, name) for name in _NAMES}
    metadata = {"checksums": _checksums(tensors), "notices": msgspec.json.encode(decoded.notices).decode()}
    try:
        save_file(tensors, temporary, metadata)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)
    for old in path.parent.glob(f"{_key(folder, side)}-*.safetensors"):
        if old != path:
            old.unlink(missing_ok=True)


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Removes what a killed process left in `folder`: entries like `pattern` that nobody wrote to for a day."""
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _cache_file(folder: Path, side: int, fingerprint: str) -> Path:
    return cache_dir() / "decoded" / f"{_key(folder, side)}-{fingerprint}.safetensors"


def _key(folder: Path, side: int) -> str:
    """What the files of a folder's images of one size begin with. No path holds a zero byte."""
    return hashlib.blake2b(os.fsencode(folder) + f"\0{side}".encode(), digest_size=8).hexdigest()


def _checksums(tensors: dict[str, Tensor]) -> str:
    """CRC-32 of each tensor: a flipped bit on disk must not become a pixel, and a cryptographic hash takes six times as long."""
    return " ".join(f"{zlib.crc32(tensors[name].view(torch.uint8).numpy().data):08x}" for name in _NAMES)

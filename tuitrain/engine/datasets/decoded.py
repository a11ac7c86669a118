"""The cache of image folders, decoded or checked: one safetensors file each, found by a fingerprint of the folder's files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from tuitrain.engine.checksum import checksum
from tuitrain.events import Notice
from tuitrain.paths import cache_dir

_LEFTOVER_SECONDS = 86_400.0
_WITH_PIXELS = ("train_pixels", "train_labels", "test_pixels", "test_labels", "test_files")
_WITHOUT = ("train_labels", "train_files", "test_labels", "test_files")


@dataclass(frozen=True, eq=False)
class Decoded:
    """What decoding a folder gave: labels [N] int64 of the images that can be read, the names of those to test with as `FileNames` packs
    them, and what there is to say about it. With pixels [N, H, W, 3] uint8; or without, and with the names of all images."""

    train_labels: Tensor
    test_labels: Tensor
    test_files: Tensor
    notices: tuple[Notice, ...]
    train_pixels: Tensor | None = None
    test_pixels: Tensor | None = None
    train_files: Tensor | None = None


def load(folder: Path, side: int, fingerprint: str, *, pixels: bool) -> Decoded | None:
    """What decoding `folder` gave when its files had this `fingerprint`, `side` pixels high and wide, with pixels or without; `None` when
    that is not there or damaged."""
    try:
        path = _cache_file(folder, side, fingerprint, pixels=pixels)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in _names(pixels=pixels)}
        if metadata.get("checksums") != _checksums(tensors):
            return None
        return Decoded(**tensors, notices=msgspec.json.decode(metadata["notices"], type=tuple[Notice, ...]))
    except (OSError, SafetensorError, KeyError, msgspec.MsgspecError):
        return None


def save(folder: Path, side: int, fingerprint: str, found: Decoded) -> None:
    """Keeps what was `found` for the next start and removes what was kept of the folder's earlier states.

    Raises:
        OSError: the cache cannot be written; nothing half-written is left.
    """
    pixels = found.train_pixels is not None
    path = _cache_file(folder, side, fingerprint, pixels=pixels)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, ".*.tmp")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    tensors = {name: getattr(found, name) for name in _names(pixels=pixels)}
    metadata = {"checksums": _checksums(tensors), "notices": msgspec.json.encode(found.notices).decode()}
    try:
        save_file(tensors, temporary, metadata)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    finally:
        temporary.unlink(missing_ok=True)
    for old in path.parent.glob(f"{_key(folder, side, pixels=pixels)}-*.safetensors"):
        if old != path:
            old.unlink(missing_ok=True)


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Removes what a killed process left in `folder`: entries like `pattern` that nobody wrote to for a day."""
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _names(*, pixels: bool) -> tuple[str, ...]:
    return _WITH_PIXELS if pixels else _WITHOUT


def _cache_file(folder: Path, side: int, fingerprint: str, *, pixels: bool) -> Path:
    return cache_dir() / "decoded" / f"{_key(folder, side, pixels=pixels)}-{fingerprint}.safetensors"


def _key(folder: Path, side: int, *, pixels: bool) -> str:
    """What the files of a folder's images of one size begin with. No path holds a zero byte."""
    which = f"\0{side}" if pixels else f"\0{side} checked"
    return hashlib.blake2b(os.fsencode(folder) + which.encode(), digest_size=8).hexdigest()


def _checksums(tensors: dict[str, Tensor]) -> str:
    """CRC-32 of each tensor: a flipped bit on disk must not become a pixel, and a cryptographic hash takes six times as long."""
    return " ".join(f"{checksum(tensor):08x}" for tensor in tensors.values())

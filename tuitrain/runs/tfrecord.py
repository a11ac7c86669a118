"""Records as TensorBoard reads them: each one's length, a checksum of that, its content, a checksum of that.

The format is TensorFlow's TFRecord (tensorflow/core/lib/io/record_writer.h); the checksums are CRC-32C, masked. tensorboard's own writer
takes 16 µs for the checksums of a short record, in Python, which a run of a thousand steps a second and more would wait for.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from google_crc32c import value as crc32c

_HEADER, _FOOTER = 12, 4
_BEFORE, _AFTER = 128, 4096
_PIECE = 1 << 20


def framed(content: bytes) -> bytes:
    """The record with this content."""
    return _header(len(content)) + content + _checksum(content)


def contents_with(path: Path, mark: bytes) -> Iterator[bytes]:
    """The contents of the whole records in a file that have `mark` near their beginning; what is damaged or torn is passed over.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for place in _places(file, mark):
            start = max(place - _BEFORE, 0)
            content = _content_around(os.pread(file.fileno(), _BEFORE + _AFTER, start), place - start)
            if content is not None:
                yield content


@lru_cache(maxsize=256)
def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + _checksum(size)


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _places(file: BinaryIO, mark: bytes) -> Iterator[int]:
    """Where in a file `mark` is."""
    start, rest = 0, b""
    while piece := file.read(_PIECE):
        text = rest + piece
        found = text.find(mark)
        while found >= 0:
            yield start + found
            found = text.find(mark, found + 1)
        rest = text[1 - len(mark) :]
        start += len(text) - len(rest)


def _content_around(text: bytes, place: int) -> bytes | None:
    """The content of the record in `text` that has `place` in it: where one begins, its header tells."""
    for begin in range(_HEADER, place + 1):
        header = text[begin - _HEADER : begin]
        length = int.from_bytes(header[:8], "little")
        end = begin + length
        if place < end <= len(text) - _FOOTER and header == _header(length):
            content = text[begin:end]
            return content if text[end : end + _FOOTER] == _checksum(content) else None
    return None

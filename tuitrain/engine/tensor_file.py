"""Tensors as a file in the format of safetensors (github.com/huggingface/safetensors, "Format"), piece by piece.

The library's own `save` copies all of it twice and holds Python's lock meanwhile, about a second for each GB, in which no key is answered,
no work is queued for a GPU and no rank gives a sign of life; its `save_file` holds the lock too before version 0.8, and lets nobody but the
owner read the file. Its `load` copies each tensor, and its `load_file` maps a file that may end, or not be readable any more, under the
process. What is made here the library reads, and what it makes is read here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

PIECE = 1 << 20
_NAMES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.complex64: "C64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}


def pieces(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The content of the file, in parts of at most `PIECE` bytes after its header.

    Args:
        tensors: on the CPU, by their names; nobody changes them meanwhile.

    Raises:
        ValueError: one is of a type for which the format has no name.
    """
    # The largest elements first, so that each tensor begins at a multiple of its own.
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    header, end = {}, 0
    for name, tensor in ordered:
        if tensor.dtype not in _NAMES:
            raise ValueError(f"{name!r} is of {tensor.dtype}, which a checkpoint cannot hold")
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in ordered:
        content = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
        for first in range(0, len(content), PIECE):
            yield content[first : first + PIECE]


def tensors_in(content: bytearray) -> dict[str, Tensor]:
    """The tensors of a file's whole content, by their names, on the CPU. Each is a part of `content`, which nobody else changes.

    Raises:
        KeyError, TypeError, ValueError: it is not of the format, or has a type that `pieces` does not write.
    """
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    header.pop("__metadata__", None)
    return {name: _tensor_in(content, begin, **entry) for name, entry in header.items()}


def _tensor_in(content: bytearray, begin: int, dtype: str, shape: list[int], data_offsets: list[int]) -> Tensor:
    first, end = data_offsets
    if first == end:  # of no bytes `frombuffer` makes nothing
        return torch.empty(shape, dtype=_TYPES[dtype])
    return torch.frombuffer(content, dtype=torch.uint8, count=end - first, offset=begin + first).view(_TYPES[dtype]).reshape(shape)

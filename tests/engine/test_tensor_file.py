"""Files of tensors: the library reads what is written, which comes in small pieces, from tensors of every type and shape."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import safetensors.torch
import torch
from torch import Tensor

from tuitrain.engine.tensor_file import _NAMES, PIECE, pieces, tensors_in

TYPES = list(_NAMES)


def written(tensors: dict[str, Tensor]) -> bytes:
    return b"".join(pieces(tensors))


def random(dtype: torch.dtype, *shape: int) -> Tensor:
    """Any bits of that type; of a boolean those that it has."""
    generator = torch.Generator().manual_seed(len(shape))
    if dtype == torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    size = torch.empty((), dtype=dtype).element_size()
    content = torch.randint(256, (*shape[:-1], shape[-1] * size), generator=generator, dtype=torch.uint8)
    return content.view(dtype)


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def own(content: bytes) -> dict[str, Tensor]:
    return tensors_in(bytearray(content))


@pytest.mark.parametrize("reading", [own, safetensors.torch.load], ids=["own", "the library"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_comes_back(dtype: torch.dtype, reading: Callable[[bytes], dict[str, Tensor]]) -> None:
    tensors = {"matrix": random(dtype, 3, 5), "scalar": random(dtype, 1)[0], "empty": torch.empty(0, 4, dtype=dtype)}
    read = reading(written(tensors))
    assert set(read) == set(tensors)
    for name, tensor in tensors.items():
        assert (read[name].dtype, read[name].shape, bits(read[name])) == (dtype, tensor.shape, bits(tensor))


def test_a_file_is_byte_for_byte_the_librarys_own() -> None:
    model = {f"layers.{layer}.weight": torch.randn(7, layer + 1) for layer in range(12)} | {"läyer": torch.ones(3)}
    assert written(model) == safetensors.torch.save(model)
    assert safetensors.torch.load(written({})) == own(written({})) == {}


def test_what_the_library_writes_is_read_without_a_copy() -> None:
    model = {"weight": torch.randn(7, 3), "bias": torch.randn(7), "steps": torch.tensor(5)}
    content = bytearray(safetensors.torch.save(model, metadata={"format": "pt"}))
    read = tensors_in(content)
    assert {name: tensor.tolist() for name, tensor in read.items()} == {name: tensor.tolist() for name, tensor in model.items()}
    # Each has its own part of the file alone: pickled for another rank, or saved, it would take the others along.
    assert [tensor.untyped_storage().nbytes() for tensor in read.values()] == [tensor.nbytes for tensor in read.values()]
    place = content.index(bits(model["bias"]))
    content[place : place + 4] = b"\0\0\0\0"
    assert read["bias"][0] == 0


@pytest.mark.parametrize(
    "content", [b"", b"\7\0\0\0\0\0\0\0not json", written({"a": torch.ones(9)})[:-1], written({"a": torch.ones(9)}).replace(b"F32", b"F31")]
)
def test_what_is_no_such_file_is_refused(content: bytes) -> None:
    with pytest.raises((KeyError, ValueError)):
        own(content)


def test_each_tensor_begins_at_a_multiple_of_its_elements() -> None:
    content = written({str(dtype): random(dtype, 3) for dtype in TYPES})
    size = int.from_bytes(content[:8], "little")
    assert size % 8 == 0
    for name, entry in json.loads(content[8 : 8 + size]).items():
        assert entry["data_offsets"][0] % random(getattr(torch, name.removeprefix("torch.")), 1).element_size() == 0


def test_a_tensor_that_lies_otherwise_in_memory_is_written_in_order() -> None:
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    read = safetensors.torch.load(written({"image": image, "turned": image.transpose(0, 1)}))
    assert torch.equal(read["image"], image)
    assert torch.equal(read["turned"], image.transpose(0, 1))


def test_a_large_one_comes_in_small_pieces() -> None:
    large = torch.arange(3 * PIECE // 4 + 5, dtype=torch.float32)
    header, *parts = pieces({"large": large})
    assert [len(part) for part in parts] == [PIECE, PIECE, PIECE, 20]
    assert torch.equal(safetensors.torch.load(b"".join([header, *parts]))["large"], large)


def test_a_type_without_a_name_is_said() -> None:
    with pytest.raises(ValueError, match=r"'wave' is of torch.complex128, which a checkpoint cannot hold"):
        list(pieces({"wave": torch.zeros(2, dtype=torch.complex128)}))

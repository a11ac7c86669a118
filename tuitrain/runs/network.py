"""What a run's folder keeps of its network: the parameters, and what it says of the test samples since the newest evaluation."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tuitrain.events import Parameters, Prediction, Predictions
from tuitrain.files import write_atomically
from tuitrain.text import clean

PARAMETERS = "parameters.json"
PREDICTIONS = "predictions.msgpack"

_IMAGE_BYTES = 32 * 32 * 3

# What a map of at most 15 pairs, and an array, begin with: https://github.com/msgpack/msgpack/blob/master/spec.md.
_FIXMAP, _ARRAY32 = struct.Struct("B"), struct.Struct(">BI")


def write_network(folder: Path, event: Parameters | Predictions) -> None:
    """Replace the file of `event`'s kind in a run folder.

    Raises:
        OSError: it cannot be written; the old one is as it was.
    """
    if isinstance(event, Parameters):
        write_atomically(folder / PARAMETERS, msgspec.json.encode(event))
    else:
        write_atomically(folder / PREDICTIONS, _parts(event))


def read_parameters(folder: Path) -> Parameters | None:
    """The parameters that a run folder keeps; `None` where the file is missing or damaged."""
    try:
        found = msgspec.json.decode((folder / PARAMETERS).read_bytes(), type=Parameters)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    rows = tuple(msgspec.structs.replace(row, name=clean(row.name), device=clean(row.device)) for row in found.rows)
    return Parameters(rows=rows, warnings=tuple(map(clean, found.warnings)))


def read_predictions(folder: Path) -> Predictions | None:
    """The newest predictions that a run folder keeps; `None` where the file is missing or damaged."""
    try:
        found = msgspec.msgpack.decode((folder / PREDICTIONS).read_bytes(), type=Predictions)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if not _is_whole(found):
        return None
    return msgspec.structs.replace(
        found,
        classes=tuple(map(clean, found.classes)),
        samples=tuple(map(_cleaned, found.samples)),
        of_cells=tuple(map(_cleaned, found.of_cells)),
    )


def _parts(event: Predictions) -> Iterator[bytes]:
    """`event` in msgpack, one sample at a time: in one piece it is a megabyte, which stays with the process after each evaluation."""
    encode = msgspec.msgpack.encode
    config, fields = event.__struct_config__, event.__struct_fields__
    yield _FIXMAP.pack(0x80 | 1 + len(fields)) + encode(config.tag_field) + encode(config.tag)
    for field in fields:
        value = getattr(event, field)
        yield encode(field)
        if isinstance(value, tuple):
            yield _ARRAY32.pack(0xDD, len(value))
            yield from map(encode, value)
        else:
            yield encode(value)


def _cleaned(sample: Prediction) -> Prediction:
    return sample if sample.file is None else msgspec.structs.replace(sample, file=clean(sample.file))


def _is_whole(found: Predictions) -> bool:
    """Whether every number and image is what a screen may rely on."""
    count = len(found.classes)
    matrix = not found.confusion or [len(row) for row in found.confusion] == [count] * count
    listed = all(0 <= one.truth < count and 0 <= one.predicted < count and 0 < one.count <= one.samples for one in found.largest)
    samples = all(
        0 <= sample.truth < count and 0 <= sample.predicted < count and (sample.image is None or len(sample.image) == _IMAGE_BYTES)
        for sample in (*found.samples, *found.of_cells)
    )
    return matrix and listed and samples

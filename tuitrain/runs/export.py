"""A run's metrics as text for other programs: one JSON document, or CSV with a row for each event, written while they are read."""

from __future__ import annotations

import contextlib
import csv
import functools
import heapq
import io
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec

from tuitrain.config import ConfigError
from tuitrain.events import Event, encode
from tuitrain.files import check_place, written_where_asked
from tuitrain.paths import METRICS
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.utc import utc
from tuitrain.text import clean

_FIELDS = ("step", "epoch", "loss", "lr", "samples_per_second", "loss_sum", "accuracy", "kind", "path", "state", "level", "text")
COLUMNS = ("event", "time", *_FIELDS)

# A cell that starts like this is a formula for a spreadsheet, and what is in it came from outside.
_FORMULA = ("=", "+", "-", "@")


def check_output(output: str | None) -> None:
    """Check that the file `output` can be written, before seconds are spent on what is to be in it.

    Raises:
        ConfigError: it cannot.
    """
    if output is not None and output != "-":
        with _reasons(output):
            check_place(Path(output))


def export_metrics(folder: Path, kind: Literal["csv", "json"], output: str | None) -> None:
    """Write the metrics of the run in `folder` to the file `output`, or to stdout when that is `None` or `-`.

    Raises:
        RunError: the metrics cannot be read.
        ConfigError: the file cannot be written; a regular one that was there before is as it was.
    """
    with MetricsReader(folder / METRICS) as reader, _opened(output) as file:
        file.writelines(json_lines(folder.name, reader) if kind == "json" else csv_lines(reader))


def write_text(text: str, output: str | None) -> None:
    """Write `text` to the file `output`, or to stdout when that is `None` or `-`.

    Raises:
        ConfigError: the file cannot be written; a regular one that was there before is as it was.
    """
    with _opened(output) as file:
        file.write(text)


def json_lines(run: str, reader: MetricsReader) -> Iterator[str]:
    """`{"run":…,"steps":[step events],"evals":[evaluation events]}`, piece by piece."""
    yield '{"run":' + msgspec.json.encode(run).decode() + ',"steps":['
    yield from _joined(event for _, event in reader.step_events())
    yield '],"evals":['
    yield from _joined(event for _, event in reader.evals())
    yield "]}\n"


def csv_lines(reader: MetricsReader) -> Iterator[str]:
    """A header and a row for each step, evaluation, checkpoint, state and notice, in the order of their times."""
    line = _Line()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(COLUMNS)
    yield line.text
    sources: list[Iterable[tuple[float, Event]]] = [
        reader.step_events(),
        reader.evals(),
        reader.checkpoints(),
        reader.states(),
        reader.notices(),
    ]
    for moment, event in heapq.merge(*sources, key=lambda timed: timed[0]):
        cells: list[Any] = [None] * len(_FIELDS)
        for place, field in _cells_of(type(event)):
            cells[place] = _cell(getattr(event, field))
        writer.writerow([event.__struct_config__.tag, utc(moment), *cells])
        yield line.text


class _Line:
    """A file for `csv.writer` that keeps the newest row only."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def _joined(items: Iterable[Event]) -> Iterator[str]:
    between = "\n"
    for event in items:
        yield between + encode(event)
        between = ",\n"


@functools.cache
def _cells_of(kind: type[Event]) -> Sequence[tuple[int, str]]:
    """The columns that an event of this kind has something in, each with its place after the first two."""
    return [(place, field) for place, field in enumerate(_FIELDS) if field in kind.__struct_fields__]


def _cell(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        text = clean(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return value


@contextlib.contextmanager
def _opened(output: str | None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its name only when all is written."""
    if output is None or output == "-":
        yield sys.stdout
        return
    with _reasons(output), written_where_asked(Path(output)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        # It flushes, and leaves the closing to the one who opened it.
        text.detach()


@contextlib.contextmanager
def _reasons(output: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"-o: {clean(output)} cannot be written: {error.strerror or error}.") from None

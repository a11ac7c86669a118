"""`tuitrain runs` and `tuitrain show` as text: a table and a page for people, JSON for scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tuitrain.device_names import in_words
from tuitrain.runs import catalogue, queue
from tuitrain.runs.checkpoints import checkpoints
from tuitrain.runs.errors import RunError
from tuitrain.runs.summary import RunSummary
from tuitrain.text import clean, columns_of, cut, whole_parts

_NAME, _CHANGED = "NAME", "CHANGED"
_HEADER = ("RUN", "STATE", "DEVICE", "DATA", "STEP", "EPOCH", "LOSS", "ACCURACY", "TOOK", "STARTED (UTC)", _NAME, _CHANGED)
_NUMBERS = ("STEP", "EPOCH", "LOSS", "TRAIN LOSS", "TEST LOSS", "ACCURACY", "TOOK")
_GAP = "  "
_SPARED = ("STARTED (UTC)", "TOOK", "EPOCH", "DATA", "DEVICE", "STEP", _CHANGED)
"""What a narrow terminal does without, the first before the next; when a run began is in its id too."""
_EPOCHS = ("EPOCH", "TRAIN LOSS", "TEST LOSS", "ACCURACY")
_SHOWN_EPOCHS = 20
_LEAST = {_NAME: 20, _CHANGED: 12}
"""The columns of long ones for which a narrow terminal does without others."""


def runs(runs_dir: Path, *, as_json: bool, width: int | None = None) -> str:
    """The runs in `runs_dir`, newest first.

    Args:
        width: the columns of the terminal; `None` where it is not for one, and every column is there.

    Raises:
        RunError: the folder cannot be read.
    """
    found = catalogue.list_runs(runs_dir)
    if as_json:
        return _json([run.to_json() for run in found])
    if not found:
        return f"no runs in {clean(str(runs_dir))} yet; `tuitrain run seed-cnn` makes one"
    problems = [run.broken for run in found if run.broken]
    places = queue.places(found)
    rows = [_HEADER, *(_row(run, places.get(run.path)) for run in found)]
    return "\n".join([*_table(_fitting(rows, width)), *problems])


def show(runs_dir: Path, ref: str, *, as_json: bool) -> str:
    """One run: where it is, what it reached, its checkpoints and its configuration.

    Raises:
        RunError: there is no such run, or there are several.
        ConfigError: its configuration cannot be read, and JSON promises it; the page says so in its place.
    """
    # The list does without recipes, and TOML.
    from tuitrain.config import ConfigError
    from tuitrain.recipes import to_toml
    from tuitrain.runs.made_with import config_of

    run = catalogue.find(runs_dir, ref)
    if as_json:
        config = config_of(run.path)
        return _json({**run.to_json(), "config": msgspec.to_builtins(config), "checkpoints": checkpoints(run.path)})
    epochs: list[str] = []
    try:
        config = config_of(run.path)
        epochs, configuration = _epochs(run, config.batch_size), _indented(to_toml(config))
    except ConfigError as error:
        configuration = [f"  {error}"]
    facts = {
        "run": run.run,
        "name": run.name,
        "changed": _changed(run.path),
        "state": f"{run.state}: {run.error}" if run.error else run.state_words,
        "queue": run.queue.words if run.queue and run.live else "",
        "device": in_words(run.device),
        "strategy": run.strategy,
        "data": run.data,
        "step": f"{run.step:,} (epoch {run.epoch})",
        "loss": _number(run.loss, ".4f"),
        "accuracy": _number(run.accuracy, ".1%"),
        "queued" if run.queue else "started": run.started,
        "took": _took(run),
        "process": f"pid {run.pid} on {run.host}" if run.live else "",
        "folder": clean(str(run.path)),
    }
    lines = [f"{fact:<10} {value}" for fact, value in facts.items() if value]
    saved = [f"  step {one['step']:,}  {one['kind']}  {clean(one['path'])}" for one in checkpoints(run.path)]
    sections = {"epochs": epochs, "checkpoints": saved, "configuration": configuration}
    return "\n".join([*lines, *(line for title, section in sections.items() if section for line in (title, *section))])


def _epochs(run: RunSummary, batch_size: int) -> list[str]:
    """What the newest epochs came to: training loss, test loss and accuracy as columns, where they can be read."""
    from tuitrain.runs.epochs import train_loss
    from tuitrain.runs.status import read_status
    from tuitrain.runs.stored import stored_run

    try:
        started, stored = read_status(run.path).as_started(), stored_run(run.path)
        # A run that was cut within an epoch and went on has two evaluations of it; the last one is of the whole.
        evaluated = list({event.epoch: event for _, event in stored.metrics.ask(lambda reader: reader.evals())}.values())
    except RunError:  # the list says what is wrong with a run, and the rest is worth showing
        return []
    if started is None or not evaluated:
        return []
    rows = [
        (
            str(event.epoch),
            _number(train_loss(stored.loss, event.step, started, batch_size), ".4f"),
            f"{event.loss:.4f}",
            "" if math.isnan(event.accuracy) else f"{event.accuracy:.1%}",
        )
        for event in evaluated[-_SHOWN_EPOCHS:]
    ]
    earlier = len(evaluated) - len(rows)
    more = [f"{earlier:,} earlier: tuitrain export {run.run} --format csv"] if earlier else []
    shown = len(_EPOCHS) if any(row[-1] for row in rows) else len(_EPOCHS) - 1
    return [f"  {line}" for line in [*_table([row[:shown] for row in (_EPOCHS, *rows)]), *more]]


def _took(run: RunSummary) -> str:
    """How long a run that has ended was running, in hours, minutes and seconds."""
    if run.live or not run.running_seconds:
        return ""
    seconds = int(run.running_seconds)  # as the screens count them
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _row(run: RunSummary, place: int | None) -> tuple[str, ...]:
    step, epoch = (f"{run.step:,}", str(run.epoch)) if run.step else ("", "")
    started = run.started[:16].replace("T", " ")
    numbers = (step, epoch, _number(run.loss, ".4f"), _number(run.accuracy, ".1%"), _took(run))
    state = run.state_words if place is None else queue.place_in_words(run, place)
    return (run.run, state, in_words(run.device, shortest_range=2), run.data, *numbers, started, run.name, _changed(run.path))


def _changed(folder: Path) -> str:
    """In what a run differs from its recipe, as `--set` takes it: "lr=0.03 epochs=2"."""
    # JSON does without recipes, and TOML.
    from tuitrain.runs.settings import changes, read_settings

    return " ".join(f"{field}={value}" for field, value in changes(read_settings(folder)).items())


def _fitting(rows: Sequence[Sequence[str]], width: int | None) -> Sequence[Sequence[str]]:
    """The rows with a name, and with what was changed, where any run has that; without the columns for which a terminal of `width` has no
    room, and with as much of these two as it has room for."""
    columns = {column[0]: column for column in zip(*rows, strict=True) if column[0] not in (_NAME, _CHANGED) or any(column[1:])}
    if width is not None:
        widths = {title: _widest(column) for title, column in columns.items()}
        long = {title: widths.pop(title) for title in (_NAME, _CHANGED) if title in widths}
        least = {title: min(wanted, _LEAST[title]) for title, wanted in long.items()}

        def room() -> int:
            return width - sum(widths.values()) - len(_GAP) * (len(columns) - 1)

        for title in _SPARED:
            if room() >= sum(least.values()):
                break
            for each in (columns, widths, least):
                each.pop(title, None)
        spare = max(room() - sum(least.values()), 0)
        for title, cells in least.items():
            given = min(long[title], cells + spare)
            spare -= given - cells
            columns[title] = tuple(_shortened(cell, given, by_words=title == _CHANGED) for cell in columns[title])
    return list(zip(*columns.values(), strict=True))


def _shortened(cell: str, width: int, *, by_words: bool) -> str:
    # Half a number is another one.
    return cut(whole_parts(cell.split(" "), " ", width) if by_words else cell, width)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines; numbers stand to the right."""
    widths = [_widest(column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for title, width, cell in zip(rows[0], widths, row, strict=True):
            space = " " * (width - columns_of(cell))
            cells.append(space + cell if title in _NUMBERS else cell + space)
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _widest(column: Sequence[str]) -> int:
    return max(map(columns_of, column))


def _number(value: float | None, format_: str) -> str:
    return "" if value is None else format(value, format_)


def _indented(text: str) -> list[str]:
    return [f"  {clean(line)}" for line in text.splitlines()]


def _json(document: Any) -> str:
    return msgspec.json.encode(document).decode()

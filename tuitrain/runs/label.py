"""The name and the note that a person gives a run afterwards.

They have a file of their own, because `state.json` and `run.toml` of a live run belong to the process that trains it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tuitrain.config import RunConfig
from tuitrain.files import read_in, write_atomically
from tuitrain.runs.errors import RunError
from tuitrain.text import clean

LABEL = "label.json"


class Label(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of `label.json`; `None` leaves what the run was started with."""

    name: str | None = None
    note: str | None = None

    def name_or(self, recorded: str) -> str:
        """The name to show for a run that was started with the name `recorded`."""
        return self.name or recorded

    def note_or(self, recorded: str) -> str:
        """The note to show for a run that was started with the note `recorded`."""
        return recorded if self.note is None else self.note

    def over(self, config: RunConfig) -> RunConfig:
        """`config` with this name and note."""
        return msgspec.structs.replace(config, name=self.name_or(config.name), note=self.note_or(config.note))


def read_label(folder: Path) -> Label:
    """The label in a run folder; an empty one where there is none, or a damaged one."""
    try:
        label = msgspec.json.decode(read_in(folder, LABEL), type=Label)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return Label()
    return Label(*(None if text is None else clean(text) for text in (label.name, label.note)))


def rename(folder: Path, name: str) -> None:
    """Give the run in `folder` another name; an empty one gives it back the name that it was started with.

    Raises:
        RunError: the run is not there any more, or it cannot be written.
    """
    _write(folder, msgspec.structs.replace(read_label(folder), name=clean(name.strip()) or None))


def annotate(folder: Path, note: str) -> None:
    """Give the run in `folder` another note, or an empty one.

    Raises:
        RunError: the run is not there any more, or it cannot be written.
    """
    _write(folder, msgspec.structs.replace(read_label(folder), note=clean(note.strip())))


def _write(folder: Path, label: Label) -> None:
    try:
        write_atomically(folder / LABEL, msgspec.json.encode(label))
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise RunError(f"RUN: {clean(folder.name)} is not there any more.") from None
        raise RunError(f"{clean(folder.name)}: {LABEL} cannot be written: {error.strerror}.") from None

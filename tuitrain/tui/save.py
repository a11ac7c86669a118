"""Saving a log, or another text, where the person wants it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tuitrain.files import write_atomically
from tuitrain.paths import LOG
from tuitrain.runs.logtail import LogTail
from tuitrain.runs.utc import utc


class SaveError(Exception):
    """Why nothing was saved, in one sentence. `exists`: because there is such a file, which `overwrite` replaces."""

    def __init__(self, sentence: str, *, exists: bool = False) -> None:
        super().__init__(sentence)
        self.exists = exists


def save_log(name: str, run_folder: Path | None, log: LogTail, *, overwrite: bool) -> Path:
    """Write the whole log of a run, or what is kept in memory where it has no file of its own.

    Args:
        name: where to; relative to the working directory, `~` is the home folder.
        run_folder: holds the run's `log.txt`, `None` where there is no run.
        log: the lines in memory.
        overwrite: whether a file of that name may be replaced.

    Returns:
        The file's absolute path.

    Raises:
        SaveError: it exists, or it cannot be written.
    """
    return _save(name, lambda: _content(run_folder, log), overwrite=overwrite)


def save_text(name: str, text: str, *, overwrite: bool) -> Path:
    """Write `text`; arguments, result and errors as of `save_log`."""
    return _save(name, lambda: text.encode(errors="replace"), overwrite=overwrite)


def _save(name: str, content: Callable[[], bytes], *, overwrite: bool) -> Path:
    path = Path(os.path.abspath(os.path.expanduser(name)))
    try:
        if path.is_dir():
            raise SaveError("this is a folder: add a file's name")
        if path.exists() and not path.is_file():
            # Nothing takes the place of a device, and a FIFO would let the screen wait for its reader.
            raise SaveError("this is no regular file: choose another name")
        if path.exists() and not overwrite:
            raise SaveError("it exists: Enter again overwrites it", exists=True)
        write_atomically(Path(os.path.realpath(path)), content())
    except OSError as error:
        raise SaveError(f"not saved: {error.strerror or type(error).__name__}") from None
    except ValueError:
        raise SaveError("not saved: this cannot be a file's name") from None
    return path


def _content(run_folder: Path | None, log: LogTail) -> bytes:
    if run_folder is not None:
        try:
            return (run_folder / LOG).read_bytes()
        except OSError:
            pass
    lines = log.tail(log.total)
    return "".join(f"{utc(line.time)} {line.level} {line.text}\n" for line in lines).encode()

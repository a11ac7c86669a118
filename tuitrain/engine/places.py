"""Where in the person's own code an error came from: torch's files, in which most of them are raised, tell nobody what to change."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

import torch

from tuitrain.python import PACKAGES
from tuitrain.text import clean

_OTHERS = [Path(folder) for folder in (sysconfig.get_path("stdlib"), torch.__path__[0], f"{PACKAGES}/tuitrain")]
_INSTALLED = {"site-packages", "dist-packages"}
# What comes from another thread or process is told by torch in the message, its whole traceback too.
_TOLD = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+)', re.MULTILINE)


def own_place(error: BaseException) -> str:
    """`nets.py, line 14`: the innermost line of a file that is neither installed nor Python's, torch's or ours; empty without one."""
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    told = [(found["file"], int(found["line"])) for found in _TOLD.finditer(str(error))]
    return next((_words(file, line) for file, line in reversed(frames + told) if _is_own(Path(file))), "")


def place(error: BaseException) -> str:
    """The innermost line of all, whosever it is; empty without one."""
    frames = traceback.extract_tb(error.__traceback__)
    return _words(frames[-1].filename, frames[-1].lineno or 0) if frames else ""


def one_line(error: BaseException) -> str:
    """What went wrong in code that is not ours, as `ValueError: text (nets.py, line 3)` on one line, without a full stop at its end."""
    first = str(error).strip().partition("\n")[0].rstrip(".")
    # A SyntaxError says it by itself.
    where = "" if isinstance(error, SyntaxError) else own_place(error)
    return clean(f"{type(error).__name__}{f': {first}' if first else ''}{f' ({where})' if where else ''}")


def is_not_installed(file: Path) -> bool:
    """Whether a file is Python's source and lies where no installer puts any."""
    return file.suffix == ".py" and _INSTALLED.isdisjoint(file.parts)


def _words(file: str, line: int) -> str:
    return f"{clean(Path(file).name)}, line {line}"


def _is_own(file: Path) -> bool:
    return is_not_installed(file) and not any(file.is_relative_to(folder) for folder in _OTHERS)

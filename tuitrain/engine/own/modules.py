"""A person's own modules in a process that trains one run after another: the next run has them as they are on disk by then."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tuitrain.engine.places import is_not_installed
from tuitrain.events import Notice
from tuitrain.files import Stamp, stamp
from tuitrain.text import clean

# A copy: another thread may import something meanwhile.
_OTHERS = {name.partition(".")[0] for name in list(sys.modules)} | sys.stdlib_module_names
"""Packages that are nobody's own, such as torch: what came with the engine must not come twice."""

_imported: dict[str, tuple[str, Stamp | None]] = {}
"""Of each module of one's own its file, and which version of it was imported."""
_trained: set[str] = set()
"""Import strings of networks that a run trains as they stand in their modules."""


def take_up_edits() -> Iterator[Notice]:
    """Have all of the person's own modules imported anew where one was edited, as they may hold what they took of each other; says so."""
    let_go()
    edited = sorted(name for name, (file, version) in _imported.items() if stamp(file) != version)
    if not edited:
        return
    forget()
    more = f" and {len(edited) - 1} more" if len(edited) > 1 else ""
    yield Notice(text=f"{clean(edited[0])}{more} changed since the run before: your own modules are imported anew.")


def forget() -> None:
    """Have all of them imported anew by the next run."""
    for name in _imported:
        sys.modules.pop(name, None)
    _imported.clear()
    _trained.clear()


def holds_what_is_trained(import_string: str) -> None:
    """Say that a network is not made for each run, but when its module is imported."""
    _trained.add(import_string)


def let_go() -> None:
    """Forget them where one holds what a run has trained: in a GPU's memory, or for the next run to train on."""
    if _trained:
        forget()


def note() -> None:
    """Note which versions of their files those of the person's own modules are that were imported since the last call."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name not in _imported and isinstance(file, str) and _is_own(name, file):
            _imported[name] = file, stamp(file)


def _is_own(name: str, file: str) -> bool:
    # What is compiled cannot be imported twice.
    return name.partition(".")[0] not in _OTHERS and is_not_installed(Path(file))

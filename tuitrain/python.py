"""How Python is started for a process of ours, how it imports what stays and whether it would find a module, where it says how it crashed,
and how it ends at once.

It is started as the one that runs now, but without the folder that it is started in: with `-m`, or with `-c` alone, a file there such as
`random.py` would be imported in the place of Python's own.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, NoReturn

from tuitrain.text import clean

PACKAGES = str(Path(__file__).parents[1])
"""Where tuitrain is; the first argument of a program that begins with `ELSEWHERE`."""
ELSEWHERE = "import sys; sys.path[:] = [path for path in sys.path if path] + [sys.argv.pop(1)]; "
"""The beginning of a program for `python -c`."""
COMMAND = ELSEWHERE + "from tuitrain.cli import main; main()"
"""The whole of the program for `python -c` that is the `tuitrain` command; after `PACKAGES` come the command's own arguments."""
_MODULE = ELSEWHERE + "from runpy import run_module; run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def module_arguments(module: str, *arguments: str) -> tuple[str, ...]:
    """What Python is given to run a module, as with `-m`."""
    return "-c", _MODULE, PACKAGES, module, *arguments


@contextmanager
def lasting_imports() -> Iterator[None]:
    """For imports that stay: what they make, and all else that lives then, is never looked through for garbage.

    Not while a run is alive: the cycles in its model and its recorded steps would keep their memory, on the GPU too, for as long as this
    process lives.

    A full collection walks over every object, and torch alone brings 150,000 of them: a tenth of a second in which Python's lock is held
    and no key is answered. While torch is imported there are several, and one more at the interpreter's end. Where nothing is imported,
    what is garbage stays garbage.
    """
    known = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > known:
            gc.freeze()
        gc.enable()


def may_import(package: str) -> bool:
    """Whether a package or module of that name, without dots, is in the working directory or installed. Nothing is imported."""
    from importlib.util import find_spec

    # One that was written a moment ago is not in the finder's cached folder listing.
    importlib.invalidate_caches()
    try:
        return package in sys.modules or find_spec(package) is not None or is_in(package, Path.cwd())
    except Exception:  # a finder of somebody's own: importing it will say more
        return True


def is_in(package: str, folder: Path) -> bool:
    """Whether a package or module of that name is in `folder`."""
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(package, [str(folder)]) is not None


_PERSONS = faulthandler.is_enabled()
"""Whether the person has chosen where Python says it, as by `python -X faulthandler`."""
_crashes: dict[str, IO[Any]] = {}


def crashes_to(whose: Literal["run", "process"], file: IO[Any] | None) -> None:
    """Where Python writes the stacks of all threads should this process crash: the file of the run that it trains, else the process's own.

    Args:
        file: it has a descriptor, and stays open; `None`: there is none any more.
    """
    if file is None:
        _crashes.pop(whose, None)
    else:
        _crashes[whose] = file
    if _PERSONS:
        return
    chosen = _crashes.get("run") or _crashes.get("process")
    if chosen is None:
        faulthandler.disable()
    else:
        with suppress(OSError, ValueError):  # such as a stream that is closed
            faulthandler.enable(chosen)


def leave_at_once(code: int) -> NoReturn:
    """End this process without the interpreter's own end, which waits for threads; from any thread.

    A process that a person's own code has started for as long as this one lives, such as one that loads data, ends with it all the same.
    """
    if multiprocessing := sys.modules.get("multiprocessing"):
        for child in multiprocessing.active_children():
            if child.daemon:
                child.terminate()
    os._exit(code)


def no_module(name: str) -> str:
    """That neither the working directory nor the installed packages have module `name`."""
    return f"there is no module {clean(name)} in {clean(str(Path.cwd()))} or in the installed packages"

"""How Python is started for a process of ours, and how it imports what stays.

It is started as the one that runs now, but without the folder that it is started in: with `-m`, or with `-c` alone, a file there such as
`random.py` would be imported in the place of Python's own.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = str(Path(__file__).parents[1])
"""Where tuitrain is; the first argument of a program that begins with `ELSEWHERE`."""
ELSEWHERE = "import sys; sys.path[:] = [path for path in sys.path if path] + [sys.argv.pop(1)]; "
"""The beginning of a program for `python -c`."""
_MODULE = ELSEWHERE + "from runpy import run_module; run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def module_arguments(module: str, *arguments: str) -> tuple[str, ...]:
    """What Python is given to run a module, as with `-m`."""
    return "-c", _MODULE, PACKAGES, module, *arguments


@contextmanager
def lasting_imports() -> Iterator[None]:
    """For imports that stay: what they make is never looked through for garbage.

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

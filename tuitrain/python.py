"""How Python is started for a process of ours: as the one that runs now, but without the folder that it is started in.

With `-m`, or with `-c` alone, a file there such as `random.py` would be imported in the place of Python's own.
"""

from __future__ import annotations

from pathlib import Path

PACKAGES = str(Path(__file__).parents[1])
"""Where tuitrain is; the first argument of a program that begins with `ELSEWHERE`."""
ELSEWHERE = "import sys; sys.path[:] = [path for path in sys.path if path] + [sys.argv.pop(1)]; "
"""The beginning of a program for `python -c`."""
_MODULE = ELSEWHERE + "from runpy import run_module; run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"


def module_arguments(module: str, *arguments: str) -> tuple[str, ...]:
    """What Python is given to run a module, as with `-m`."""
    return "-c", _MODULE, PACKAGES, module, *arguments

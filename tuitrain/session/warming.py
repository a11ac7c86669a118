"""A slow import made quick: another process does it first, so that its files are in memory when this one needs them."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress

from tuitrain.python import ELSEWHERE, PACKAGES

# The import goes on only while the process that wants it lives: that one holds the other end of stdin. Looking for garbage among what it
# makes would be a tenth of the work.
_PROGRAM = (
    ELSEWHERE
    + """
import gc, os, threading
gc.disable()
threading.Thread(target=lambda: (os.read(0, 1), os._exit(0)), daemon=True).start()
if hasattr(os, "nice"):
    os.nice(19)
__import__(sys.argv[1])
os._exit(0)
"""
)
_GONE_SECONDS = 1.0


class Warming:
    """Imports a module in a process of the lowest priority, once, and only for the sake of the files.

    In a thread of this process an import would hold Python's lock for up to 0.3 s at a time, and no key would be answered meanwhile; and
    what it loads would stay in memory, also for a person who only looks at the GPUs.

    Args:
        module: its name; where it cannot be imported, nothing is said here.
    """

    def __init__(self, module: str) -> None:
        self._command = [sys.executable, "-c", _PROGRAM, PACKAGES, module]
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: threading.Thread | None = None
        self._stopped = False

    def __enter__(self) -> Warming:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        if self._waiting is not None:
            self._waiting.join(_GONE_SECONDS)  # longer only where a disk holds it up

    def start(self) -> None:
        """Begin, unless it was stopped."""
        with self._lock:
            if self._stopped or self._child is not None:
                return
            with suppress(OSError):  # without it the import takes a little longer
                nothing = subprocess.DEVNULL
                self._child = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing)
                # So that no dead process stays when it is done.
                self._waiting = threading.Thread(target=self._child.wait, name="tuitrain-warming", daemon=True)
                self._waiting.start()

    def stop(self) -> None:
        """End it for good; from any thread, which does not wait."""
        with self._lock:
            self._stopped = True
            child, self._child = self._child, None
        if child is not None:
            child.kill()
            assert child.stdin is not None
            child.stdin.close()

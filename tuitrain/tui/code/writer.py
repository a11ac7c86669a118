"""Scripts are written in threads: the first one waits until torch is imported."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from tuitrain.config import ConfigError
from tuitrain.text import first_line
from tuitrain.tui.code.script import Code, Name, Subject, WriteScript, code_of

Written = Callable[[Code | str], None]
"""Gets the script, or the sentence that says why there is none; it is called from the thread, and must not block."""


class Writer:
    """Writes scripts, each in a thread of its own.

    Args:
        write: writes one; `None` where the app can write none.
    """

    def __init__(self, write: WriteScript | None) -> None:
        self._write = write
        self._threads: list[threading.Thread] = []

    @property
    def possible(self) -> bool:
        """Whether there is something to write with."""
        return self._write is not None

    @property
    def waits_for_torch(self) -> bool:
        """Whether torch is yet to be imported."""
        return "torch" not in sys.modules

    def start(self, subject: Subject, name_devices: Name, written: Written) -> None:
        """Write the script of `subject`."""
        if self._write is None:
            return
        # No daemon: it may be inside an import of torch, and a daemon there aborts the interpreter's exit.
        thread = threading.Thread(target=_run, args=(subject, name_devices, self._write, written), name="tuitrain-script")
        self._threads = [*(one for one in self._threads if one.is_alive()), thread]
        thread.start()

    def join(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for the threads to end; whether all have."""
        end = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(end - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)


def _run(subject: Subject, name_devices: Name, write: WriteScript, written: Written) -> None:
    try:
        written(code_of(subject, name_devices, write))
    except ConfigError as error:
        written(error.reason)
    except Exception as error:  # the app lives on
        written(f"The script cannot be written: {first_line(error)}.")

"""The composition root: commands to a front end. It wires the rooms together and holds no logic of theirs.

Here is only how the program begins, so that Ctrl+C is heard before the commands are read.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from tuitrain.exit_codes import DONE, FAILED, INTERRUPTED
from tuitrain.signals import Terminated, leave_to_parent


def main() -> None:
    """The `tuitrain` command, with which the process ends. Ctrl+C ends it without a traceback, at whatever moment it comes."""
    status = FAILED
    # The first to be registered, and so the last to be called.
    atexit.register(lambda: _leave(status))
    sys.unraisablehook = _obey_or_tell
    os.register_at_fork(after_in_child=leave_to_parent)
    # Under `nohup`, or in a shell's background, Ctrl+C is not heard.
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heard:
        signal.signal(signal.SIGINT, _end)
    from tuitrain.python import lasting_imports

    # What is imported here stays, and is looked through for garbage neither now nor later.
    with lasting_imports():
        from tuitrain.cli.program import run_command
    try:
        if heard:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run_command()
    except KeyboardInterrupt:
        status = INTERRUPTED
        sys.exit(status)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise
    else:
        status = DONE


def _leave(status: int) -> None:
    """End the process when every thread has been joined and everything else that wants to hear of the end has been called.

    Else Python would take its modules apart one by one, torch's too: half a second in which a shell shows no prompt.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _end(number: int, frame: FrameType | None) -> None:
    """Where nothing has been begun yet: an exception would have to pass through all the modules that are being imported."""
    os._exit(INTERRUPTED)


def _obey_or_tell(lost: sys.UnraisableHookArgs) -> None:
    """Python's way with an exception that came where it cannot be raised, such as in a finalizer; a signal is obeyed all the same."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        os._exit(INTERRUPTED)
    if isinstance(lost.exc_value, Terminated):
        os._exit(lost.exc_value.code)
    sys.__unraisablehook__(lost)

"""Copying to the clipboard of the person's own terminal: by the escape OSC 52, which also goes through SSH, and through tmux's own door."""

from __future__ import annotations

import contextlib
import os
import subprocess

_SECONDS = 2.0


def hand_to_tmux(text: str) -> None:
    """Inside tmux, have it copy `text` too; elsewhere nothing happens. It waits for tmux, so call it from a thread.

    As it comes (`set-clipboard external`), tmux ignores the escape of a program inside of it, and passes on what its own command gave it.
    """
    if not os.environ.get("TMUX"):
        return
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )

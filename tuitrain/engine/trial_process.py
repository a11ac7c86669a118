"""The process of a trial: it is asked on stdin and answers on stdout, one JSON object each; whatever the model prints goes to stderr.

It ends when its stdin is closed, so that it does not outlive the one that asked, also while torch is being imported.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from typing import TYPE_CHECKING

import msgspec

from tuitrain.config import ConfigError
from tuitrain.engine.torch_first import torch_first
from tuitrain.paths import check_working_directory
from tuitrain.python import leave_at_once
from tuitrain.wire import Measured, Trial

if TYPE_CHECKING:
    from tuitrain.engine.train import Spread


def main(spread: Spread | None = None) -> None:
    """Read the request, measure, answer; `spread` as for `trial.measure`."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            sys.exit("no request came on stdin")
        line += piece
    ask = msgspec.json.decode(line, type=Trial)
    threading.Thread(target=_end_with_the_one_that_asked, args=(ask.folder,), daemon=True).start()
    answers.write(msgspec.json.encode(_measured(ask, spread)))
    answers.flush()


def _measured(ask: Trial, spread: Spread | None) -> Measured:
    try:
        check_working_directory()
        with torch_first():
            from tuitrain.engine.trial import measure
    except ConfigError as error:
        return Measured(error=str(error), refused=True)
    return measure(ask, spread)


def _end_with_the_one_that_asked(folder: str) -> None:
    while os.read(0, 4096):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    leave_at_once(1)

"""The process of a run in the background, with a small engine in the place of torch's: `python small_host.py`, asked on stdin.

What the engine does is in TUITRAIN_SMALL: "train", "short", "refuse", "no", "crash" or "wait". "short" ends by itself. With "unheard" it
trains, and the one that asked is gone at the moment when it would be told so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from small_sessions import started

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event, Losses, Notice, Progress, RunEnded, State
from tuitrain.session import turn
from tuitrain.session.control import Control
from tuitrain.session.hosted import Asker, HostedRun, answer_check
from tuitrain.session.worker import WorkerSession
from tuitrain.wire import Hosting


def train(config: RunConfig, control: Control) -> Iterator[Event]:
    """Three steps, of a run that goes on the next three."""
    what = os.environ["TUITRAIN_SMALL"]
    yield Progress(phase="reading images", done=3, total=9)
    yield Notice(text="nothing to see")
    if what == "refuse":
        raise ConfigError("data: not here.")
    if what == "crash":
        os.abort()
    if what == "wait" and control.take(wait=True) is not None:
        yield RunEnded(state="interrupted", step=0)
        return
    before = 3 if control.folder.is_absolute() else 0
    control.resolved = config
    device = tuple(config.device.split(",")) if "cuda" in config.device else ("cpu",)
    yield msgspec.structs.replace(started(6), resumed_from=before or None, device=device)
    yield State(state="running")
    yield Losses(first_step=before + 1, epoch=1, losses=(1.0, 0.5, 0.25), times=(1.0, 2.0, 3.0))
    print("a word of the engine's", flush=True)
    if what == "short":
        yield RunEnded(state="finished", step=before + 3)
        return
    while True:
        request = control.take(wait=True)
        if request in ("stop", "interrupt", "leave"):
            yield RunEnded(state="interrupted" if request == "interrupt" else "stopped", step=before + 3)
            return
        if request in ("pause", "resume"):
            yield State(state="paused" if request == "pause" else "running")


def check(config: RunConfig) -> None:
    """Nothing speaks against a configuration, but for "no"."""
    if os.environ["TUITRAIN_SMALL"] == "no":
        raise ConfigError("model: not here.")


def main() -> None:
    """As `tuitrain _host` and `_check` do it, but for the engine and the sampler."""
    from tuitrain.capture import Capture

    asker = Asker()
    if sys.argv[1:] == ["_check"]:
        sys.exit(answer_check(asker, check))
    if os.environ["TUITRAIN_SMALL"] == "unheard":
        asker.say = lambda message: not isinstance(message, Hosting) and Asker.say(asker, message)  # type: ignore[method-assign]
    request = asker.request()
    if request is None:
        sys.exit(2)
    turn.LOOK_SECONDS = 0.05
    with Capture() as capture:
        session = WorkerSession(lambda: train, Path(os.fsdecode(request.runs_dir)), lambda: [])
        sys.exit(HostedRun(session, request, asker, capture.send_to).run())


if __name__ == "__main__":
    main()

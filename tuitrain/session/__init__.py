"""How a run is hosted. `Session` is what the screens and the console know of it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tuitrain.config import RunConfig
from tuitrain.runs.record import RunRecord
from tuitrain.session.recorder import Listener
from tuitrain.session.worker import SessionState


class Session(Protocol):
    """One run at a time; see `WorkerSession` for what each name promises."""

    record: RunRecord | None
    refusal: str | None
    screen_attached: bool
    prints_errors: bool

    @property
    def state(self) -> SessionState: ...

    def start(self, config: RunConfig, *, resume: Path | None = None) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...

    def interrupt(self) -> None: ...

    def checkpoint(self) -> None: ...

    def let_go(self, timeout: float) -> bool: ...

    def stop_after_all(self) -> None: ...

    def subscribe(self, listener: Listener) -> None: ...

    def join(self, timeout: float) -> bool: ...

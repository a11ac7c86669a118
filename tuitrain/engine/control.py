"""What the host of a run must offer to the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tuitrain.config import RunConfig
from tuitrain.events import Request


class Interrupted(Exception):
    """The run was asked to end in a long phase; nothing was kept half-done."""


class Control(Protocol):
    """The host's side of a run.

    Attributes:
        folder: the run folder; valid once the event after `RunStarted` is asked for.
        resolved: set by the engine before `RunStarted`: the configuration with device, data and strategy as they were taken.
        environment: filled by the engine before `RunStarted`: versions and the number of torch threads.
        free_cuda_devices: CUDA ordinals, most free memory first; `None` when nobody knows. It must not make a CUDA context.
    """

    folder: Path
    resolved: RunConfig | None
    environment: dict[str, Any]
    free_cuda_devices: Callable[[], Sequence[int] | None]

    def placed(self, devices: Sequence[str]) -> None:
        """The run will train on these devices. Called in the training thread, before anything is made on them."""
        ...

    def take(self, *, wait: bool) -> Request | None:
        """The next request, or `None`; with `wait` it blocks until there is one."""
        ...

    def recorded(self) -> object:
        """Wait, for some seconds at most, until the events that were yielded are on disk. Called in the thread that writes checkpoints."""
        ...

    def raised(self, error: BaseException) -> None:
        """What ends the run, where it may come from the person's own code: they want to see where. Called in the training thread."""
        ...

    def stay(self) -> None:
        """The run was asked to leave, and does not."""
        ...

    @property
    def ending(self) -> bool:
        """Whether the run has been asked to stop, to be interrupted or to leave, and that is not yet taken; long phases look at it."""
        ...

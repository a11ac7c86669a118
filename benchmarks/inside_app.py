"""`tuitrain` in this process, with something of the benchmarks' in its event loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


def run_with(inside: Callable[[], AbstractContextManager[object]]) -> None:
    """Run `tuitrain` with the arguments in `sys.argv`; what `inside` gives is entered on the event loop around the app."""
    from tuitrain.cli import main as tuitrain
    from tuitrain.python import lasting_imports

    with lasting_imports():
        from textual.app import App
    run_async: Any = App.run_async

    async def watched(self: App[None], **options: Any) -> Any:
        with inside():
            return await run_async(self, **options)

    App.run_async = watched  # type: ignore[method-assign, assignment]
    tuitrain()

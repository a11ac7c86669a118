"""Awaiting what blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, done in a daemon thread: unlike with an executor's, the end of the app does not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # whoever awaits gets it
            error = raised
        with suppress(RuntimeError):  # the loop has ended: nobody awaits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="tuitrain-outside", daemon=True).start()
    return await future

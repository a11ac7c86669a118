"""`tuitrain` with a clock in its event loop: python benchmarks/lag_app.py FILE ARGUMENT...

A task sleeps for 10 ms, over and over; when the app ends, FILE gets [moment, seconds too late] for each of these sleeps as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

SLEEP = 0.01


async def tick(lags: list[tuple[float, float]]) -> None:
    """Note how much later than asked each sleep ends."""
    while True:
        begin = time.perf_counter()
        await asyncio.sleep(SLEEP)
        now = time.perf_counter()
        lags.append((now, now - begin - SLEEP))


def main() -> None:
    """Run the app."""
    file = Path(sys.argv.pop(1))
    from tuitrain.cli import main as tuitrain
    from tuitrain.session.threads import lasting_imports

    with lasting_imports():
        from textual.app import App
    run_async: Any = App.run_async

    async def watched(self: App[None], **options: Any) -> Any:
        lags: list[tuple[float, float]] = []
        clock = asyncio.get_running_loop().create_task(tick(lags))
        try:
            return await run_async(self, **options)
        finally:
            clock.cancel()
            file.write_text(json.dumps(lags))

    App.run_async = watched  # type: ignore[method-assign, assignment]
    tuitrain()


if __name__ == "__main__":
    main()

"""`tuitrain` that says what it costs: python benchmarks/metered_app.py FILE ARGUMENT...

At each SIGUSR2 the event loop adds a line to FILE: the processor seconds that its thread and the whole process have used, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the app."""
    file = Path(sys.argv.pop(1))
    from tuitrain.cli import main as tuitrain
    from tuitrain.session.threads import lasting_imports

    with lasting_imports():
        from textual.app import App
    run_async: Any = App.run_async

    def note() -> None:
        used = (time.thread_time(), time.process_time())
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{json.dumps(used)}\n")

    async def metered(self: App[None], **options: Any) -> Any:
        # Not from a signal handler of Python's own: that runs in the main thread too, but in the middle of whatever it does.
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, note)
        return await run_async(self, **options)

    App.run_async = metered  # type: ignore[method-assign, assignment]
    tuitrain()


if __name__ == "__main__":
    main()

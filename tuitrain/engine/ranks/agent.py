"""The launcher of a group, a process of its own. The end of its stdin says that its host has gone.

Torch is imported only when that is watched: it takes seconds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import sys
import threading
from pathlib import Path

from tuitrain.python import lasting_imports
from tuitrain.wire import ADDRESS


def _watch_host(folder: Path) -> None:
    """End everything as soon as the host has gone, however it went."""
    while os.read(0, 1024):
        pass
    import psutil

    # A stopped process obeys nothing but this signal.
    for child in psutil.Process().children(recursive=True):
        child.kill()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main() -> int:
    """Start the ranks, and again when one dies; 0 when all ended well."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--max-restarts", type=int, required=True)
    parser.add_argument("--rank-module", required=True)
    parser.add_argument("--nnodes", required=True)
    parser.add_argument("--endpoint", required=True)
    options = parser.parse_args()
    address = Path(os.environ[ADDRESS])
    threading.Thread(target=_watch_host, args=(address.parent,), daemon=True).start()
    host = socket.socket(socket.AF_UNIX)
    host.connect(str(address))
    with lasting_imports():
        from tuitrain.engine.ranks.launcher import launch

    return launch(options, host, address.parent)


if __name__ == "__main__":
    sys.exit(main())

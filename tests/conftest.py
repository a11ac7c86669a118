from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings

# Several test processes share the cores: OpenMP threads that spin while they wait would take them from each other.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

# Control sockets of the tests' runs, in a folder whose name is short enough for a socket.
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="t-")
atexit.register(shutil.rmtree, os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)

# On shared cores an example may take long without being wrong.
settings.register_profile("shared-cores", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-cores")


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and never among what is loaded by now: else a third of the time of the screens' tests goes there."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)

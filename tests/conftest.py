from __future__ import annotations

import atexit
import gc
import os
import pwd
import random
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Several test processes share the cores: OpenMP threads that spin while they wait would take them from each other.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

# Control sockets of the tests' runs, in a folder whose name is short enough for a socket.
os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="t-")
atexit.register(shutil.rmtree, os.environ["XDG_RUNTIME_DIR"], ignore_errors=True)

# Images that the tests decode are kept beside nobody's own.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="t-cache-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# A shell without job control ignores them for what it starts in the background, and so would all that the tests start.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)

# On shared cores an example may take long without being wrong.
settings.register_profile("shared-cores", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-cores")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the ones that take long because they wait: at the end nothing would be left to do meanwhile."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while torch and the tests are loaded, which each worker does for itself; almost all of it stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Look for garbage seldom, and never among what is loaded by now: else a third of the time of the screens' tests goes there."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Gives a port that stays free until it is used: the system gives those from 32768 on to whoever connects anywhere meanwhile."""

    def find() -> int:
        while True:
            port = random.SystemRandom().randrange(10_000, 29_000)
            with socket.socket() as probe, suppress(OSError):
                probe.bind(("", port))
                return port

    return find


@pytest.fixture
def as_another_user() -> Callable[[Callable[[], object]], None]:
    """Calls what may not read everything: root is a user who owns nothing meanwhile. A fork would hang on a lock of another thread."""

    def call(look: Callable[[], object]) -> None:
        if os.getuid():
            look()
            return
        os.setresgid(65534, 65534, 0)
        os.setresuid(65534, 65534, 0)
        try:
            look()
        finally:
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)

    return call


@pytest.fixture
def out_of_sight() -> Iterator[Path]:
    """A folder in one that `as_another_user` may not enter."""
    # pytest's own folders are closed to other users, so that everything in them would be.
    closed = Path(tempfile.mkdtemp())
    folder = closed / "folder"
    folder.mkdir()
    closed.chmod(0)
    yield folder
    closed.chmod(0o700)
    shutil.rmtree(closed)


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of whom neither the environment nor the system knows a home, as in a container under any number."""

    def unknown(number: int) -> pwd.struct_passwd:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "TUITRAIN_RUNS", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)

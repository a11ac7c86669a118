"""Fetches CIFAR-10 into the cache, through torchvision."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import tempfile
import threading
import time
import urllib.error
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

from tuitrain.config import ConfigError
from tuitrain.engine.control import Interrupted
from tuitrain.engine.datasets.decoded import remove_leftovers
from tuitrain.engine.places import one_line
from tuitrain.engine.vision import import_torchvision
from tuitrain.events import BYTES, Progress
from tuitrain.paths import CIFAR10_FOLDER, cached_cifar10, find_cifar10
from tuitrain.text import clean

ARCHIVE_BYTES = 170_498_071
ROOM_BYTES = 360_000_000
"""The archive, and beside it what is unpacked from it."""
STALLED_SECONDS = 60.0
JOIN_SECONDS = 2.0
_WAY_OUT = "set data to synthetic, or to a folder of images"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def fetch_cifar10(ending: Callable[[], bool]) -> Generator[Progress, None, Path]:
    """Downloads CIFAR-10 into the cache where it is not on disk yet; its MD5 sums are checked.

    Returns:
        The `cifar-10-batches-py` folder.

    Raises:
        ConfigError: torchvision is missing, there is no network, the server does not answer or ends too early, or the disk is full.
        Interrupted: `ending` said so; what was fetched so far is removed.
    """
    found = find_cifar10()
    if found is not None:
        return found
    torchvision = import_torchvision("data: the CIFAR-10 download")
    target = _target()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent, ".download-*")
        temporary = Path(tempfile.mkdtemp(prefix=".download-", dir=target.parent))
    except OSError as error:
        raise ConfigError(f"data: the folder {clean(str(target.parent))} for CIFAR-10 cannot be written: {error.strerror}.") from None
    download = _Download(torchvision, temporary)
    try:
        yield from _follow(download, ending)
        return _publish(temporary / CIFAR10_FOLDER, target)
    finally:
        download.cancel()
        shutil.rmtree(temporary, ignore_errors=True)


def _target() -> Path:
    try:
        return cached_cifar10()
    except OSError as error:
        raise ConfigError(f"data: there is no place for CIFAR-10: {error.strerror}, or {_WAY_OUT}.") from None


def _follow(download: _Download, ending: Callable[[], bool]) -> Generator[Progress, None, None]:
    """Runs the download to its end and says how far it is, at most ten times a second."""
    yield Progress(phase="downloading CIFAR-10", done=0, total=ARCHIVE_BYTES, unit=BYTES)
    download.start()
    size, changed = 0, time.monotonic()
    while download.is_alive():
        download.join(0.1)
        if ending():
            raise Interrupted
        before, size = size, download.archive_bytes()
        if download.is_unpacking():
            yield Progress(phase="unpacking CIFAR-10")
        elif size != before:
            changed = time.monotonic()
            yield Progress(phase="downloading CIFAR-10", done=size, total=max(size, ARCHIVE_BYTES), unit=BYTES)
        elif size < ARCHIVE_BYTES and time.monotonic() - changed > STALLED_SECONDS:
            raise ConfigError(f"data: the CIFAR-10 download stalled: no byte came for {STALLED_SECONDS:.0f} s; try again, {_WAY_OUT}.")
    if download.error is not None:
        raise _explained(download.error, download.root.parent) from None


class _Download(threading.Thread):
    """torchvision's own download, silent and with an end.

    It is a daemon because a read from a dead server cannot be ended; it holds nothing but that socket then.
    """

    def __init__(self, torchvision: Any, root: Path) -> None:
        super().__init__(name="cifar10-download", daemon=True)
        self.error: BaseException | None = None
        self._torchvision = torchvision
        self.root = root
        self._cancelled = threading.Event()

    def run(self) -> None:
        try:
            with _silent(self._torchvision.datasets.utils, self._cancelled):
                # The test part is enough: all is fetched and checked for either, and what it loads is thrown away.
                self._torchvision.datasets.CIFAR10(self.root, train=False, download=True)
        except Exception as error:
            self.error = error.__cause__ or error if isinstance(error, _Ended) else error

    def cancel(self) -> None:
        """Ends it at the next piece of the archive and waits a little for that."""
        self._cancelled.set()
        if self.ident is not None:
            self.join(JOIN_SECONDS)

    def archive_bytes(self) -> int:
        """How much has come so far."""
        try:
            return (self.root / str(self._torchvision.datasets.CIFAR10.filename)).stat().st_size
        except OSError:
            return 0

    def is_unpacking(self) -> bool:
        """Whether the archive is complete and being unpacked."""
        return (self.root / CIFAR10_FOLDER).is_dir()


class _Ended(Exception):
    """A download that was cancelled, broke off or filled the disk. Not an OSError, because torchvision answers one with a second try."""


class _Meter:
    """What torchvision takes for its progress bar: prints nothing, and sees why a download is to end.

    Args:
        cancelled: whether it was asked to.
        total: how many bytes the server announced, where it did.
    """

    def __init__(self, cancelled: threading.Event, total: int | None = None, **_: object) -> None:
        self._cancelled = cancelled
        self._total = total
        self._done = 0

    def __enter__(self) -> _Meter:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError) and error.errno in _FULL:
            raise _Ended from error
        # urllib takes a connection that ends too early for the end of the file.
        if error is None and self._total is not None and self._done < self._total:
            raise _Ended(f"the connection ended after {self._done / 1e6:.0f} of {self._total / 1e6:.0f} MB")

    def update(self, count: int) -> None:
        self._done += count
        if self._cancelled.is_set():
            raise _Ended


@contextlib.contextmanager
def _silent(utils: Any, cancelled: threading.Event) -> Iterator[None]:
    """Nothing that torchvision's download code says reaches the screen, and no other thread's output is touched."""
    before = utils.tqdm
    utils.tqdm = functools.partial(_Meter, cancelled)
    utils.print = lambda *_args, **_kwargs: None
    try:
        yield
    finally:
        utils.tqdm = before
        vars(utils).pop("print", None)


def _publish(unpacked: Path, target: Path) -> Path:
    """Gives the unpacked folder its final name; where another process was faster its folder is the one, which somebody may read already."""
    try:
        for file in unpacked.iterdir():
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
        if (found := find_cifar10()) is not None:
            return found
        # What stands there is not complete.
        shutil.rmtree(target, ignore_errors=True)
        unpacked.rename(target)
    except OSError as error:
        found = find_cifar10()
        if found is None:
            raise _explained(error, target.parent) from None
        return found
    return target


def _explained(error: BaseException, folder: Path) -> ConfigError:
    """The sentence for a download into `folder` that failed."""
    failed, again = "data: CIFAR-10 could not be downloaded", "try again with a network"
    if isinstance(error, urllib.error.HTTPError):
        reason = f"the server answered {error.code} {clean(str(error.reason))}"
    elif isinstance(error, urllib.error.URLError):
        cause = error.reason
        reason = clean(cause.strerror or str(cause)) if isinstance(cause, OSError) else clean(str(cause))
    elif isinstance(error, RuntimeError):
        reason, again = "what came is damaged (its MD5 sum is not the known one)", "try again"
    elif isinstance(error, OSError) and error.errno in _FULL:
        reason, again = f"no space is left in {clean(str(folder))}", f"make room for {ROOM_BYTES / 1e6:.0f} MB and try again"
    elif isinstance(error, OSError) and error.strerror:
        reason = clean(error.strerror)
    elif isinstance(error, _Ended):
        reason = str(error)
    else:
        reason = one_line(error)
    return ConfigError(f"{failed}: {reason}; {again}, {_WAY_OUT}.")

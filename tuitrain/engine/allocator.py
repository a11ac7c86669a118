"""How the C library keeps the memory of tensors on the CPU between two steps."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

# From glibc's malloc.h, with glibc's own defaults.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_DEFAULT_BYTES = 128 * 1024
_LOOKS_BYTES = 64 * 1024
_KEPT_BYTES = 512 * 1024**2
_LARGEST_MMAP_THRESHOLD = 32 * 1024**2

_CHOICES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")

HOLES_SECONDS = 10.0
HOLES_SECONDS_AT_EPOCH = 1.0

_keeping: ctypes.CDLL | None = None
"""The C library, while it keeps what is freed."""
_gave_back_at = 0.0


@contextmanager
def kept_memory() -> Iterator[None]:
    """Memory that is freed inside stays with the process, up to 512 MiB, and goes back to the system at the end.

    By default glibc returns each activation of a few megabytes to the system as soon as it is freed, and the next step pays for
    fresh pages: a thousand page faults a step and a fifth of the time with the seed network. Where the C library is another one,
    or the person has chosen, nothing happens.
    """
    global _keeping, _gave_back_at
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim") or any(name in os.environ for name in _CHOICES):
        yield
        return
    assert libc is not None
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    _keeping, _gave_back_at = libc, time.monotonic()
    try:
        yield
    finally:
        _keeping = None
        libc.mallopt(_MMAP_THRESHOLD, _DEFAULT_BYTES)
        _give_back(libc)


def give_back_holes(seconds: float = HOLES_SECONDS) -> None:
    """Give free pages, between others and after them, back to the system, where that was `seconds` ago; for when little is in use.

    Blocks of many sizes leave more and more holes, most of all where an evaluation comes between steps, so that a process with
    `kept_memory` gains some tens of megabytes. TensorBoard's protobuf gives them back about once a minute, whenever that comes. Given
    back more often, there are never many; between steps it costs some milliseconds.
    """
    global _gave_back_at
    if _keeping is not None and time.monotonic() - _gave_back_at >= seconds:
        _give_back(_keeping)
        _keeping.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        _gave_back_at = time.monotonic()


def _give_back(libc: ctypes.CDLL) -> None:
    """All pages that are free, by glibc's own threshold, which stays.

    Of what lies at the end of a thread's memory `malloc_trim` gives nothing back but the main thread's: `heap_trim` in glibc's
    malloc/arena.c does, which looks whenever a block of `_LOOKS_BYTES` is freed in that thread.
    """
    libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_BYTES)
    libc.malloc_trim(0)
    libc.free(ctypes.c_void_p(libc.malloc(_LOOKS_BYTES)))

"""How the C library keeps the memory of tensors on the CPU between two steps."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# From glibc's malloc.h, with glibc's own defaults.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_DEFAULT_BYTES = 128 * 1024
_KEPT_BYTES = 512 * 1024**2
_LARGEST_MMAP_THRESHOLD = 32 * 1024**2

_CHOICES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


@contextmanager
def kept_memory() -> Iterator[None]:
    """Memory that is freed inside stays with the process, up to 512 MiB, and goes back to the system at the end.

    By default glibc returns each activation of a few megabytes to the system as soon as it is freed, and the next step pays for
    fresh pages: a thousand page faults a step and a fifth of the time with the seed network. Where the C library is another one,
    or the person has chosen, nothing happens.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if not hasattr(libc, "mallopt") or not hasattr(libc, "malloc_trim") or any(name in os.environ for name in _CHOICES):
        yield
        return
    assert libc is not None
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_THRESHOLD, _DEFAULT_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_BYTES)
        libc.malloc_trim(0)

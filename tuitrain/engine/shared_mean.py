"""Means over ranks that train on one machine's processors, taken through memory that they share.

gloo sends each gradient through sockets and wakes threads for it, which the processors that train have to run: of a step of seed-cnn with
two ranks that is a tenth. Here each rank writes its numbers where the others read them, piece by piece, so that little memory is needed.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import secrets
import time
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import Tensor

from tuitrain.engine.group import Group, LostPeer

_PIECE_BYTES = 4 << 20
"""The ranks wait for each other at each piece: with 1 MB a step of resnet18 took 7 % longer, and 8 % beside a busy process."""
_LINE = 64
"""Bytes of a processor's cache line: two ranks that count in one take it from each other."""
_LOOKS = 100
_AWAKE_SECONDS = 0.0002
"""Ranks that compute alike are that close. Where processors are busy, one that waits awake keeps the other from its own."""
_SHORT_NAP, _LONG_NAP = 0.00005, 0.005


class SharedMean:
    """Takes means between the ranks of one machine. Every rank asks for the same ones in the same order.

    Args:
        file: the same one for all ranks, `bytes_for(size)` long and zero; this process opens it nowhere else, and never closes it.
        rank: this process's number.
        size: how many ranks there are.

    Raises:
        OSError: the file cannot be shared.
    """

    def __init__(self, file: int, rank: int, size: int) -> None:
        self._file, self._rank, self._size = file, rank, size
        memory = mmap.mmap(file, bytes_for(size))
        self._counts = memoryview(memory)[: _LINE * size].cast("q")[:: _LINE // 8]
        pieces = torch.frombuffer(memory, dtype=torch.uint8, offset=_LINE * size)
        # Two for each rank: one may write its next piece while others still read the last.
        self._pieces = pieces.view(2, size, _PIECE_BYTES)
        self._count = 0
        # Whoever gets this lock knows that the process has gone: the system takes it back with its end.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)

    def take(self, numbers: Tensor) -> None:
        """Put the mean over the ranks in the place of `numbers`, which have one dimension and no gaps, and are as many on every rank.

        With two ranks each bit is as gloo's sum of their halves has it; more are added up in the order of the ranks.

        Raises:
            LostPeer: a rank's process has ended.
        """
        for piece in torch.split(numbers, _PIECE_BYTES // numbers.element_size()):
            self._count += 1
            shares = self._pieces[self._count % 2].view(numbers.dtype)[:, : len(piece)]
            torch.mul(piece, 1 / self._size, out=shares[self._rank])
            self._counts[self._rank] = self._count
            for rank in range(self._size):
                self._wait_for(rank)
            torch.add(shares[0], shares[1], out=piece)
            for share in shares[2:]:
                piece += share

    def _wait_for(self, rank: int) -> None:
        """Until it has written its share; the ranks compute alike, so that it is soon, unless one has to wait for a processor."""
        counts, count = self._counts, self._count
        for _ in range(_LOOKS):
            if counts[rank] >= count:
                return
        asleep, nap = time.monotonic() + _AWAKE_SECONDS, _SHORT_NAP
        while counts[rank] < count:
            if time.monotonic() < asleep:
                os.sched_yield()
                continue
            self._must_live(rank)
            time.sleep(nap)
            nap = min(1.25 * nap, _LONG_NAP)

    def _must_live(self, rank: int) -> None:
        with suppress(BlockingIOError):
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, rank)
            raise LostPeer(f"the process of rank {rank} has ended")


def bytes_for(size: int) -> int:
    """How much memory `size` ranks share."""
    return size * (_LINE + 2 * _PIECE_BYTES)


def mean_in_memory(group: Group) -> Callable[[Tensor], None] | None:
    """What `SharedMean.take` is to the ranks of `group`, whose devices are processors; `None`, on all ranks, where they share no memory."""
    if group.size == 1:
        return lambda numbers: None
    name = f"tuitrain-{secrets.token_hex(8)}"
    file = _create(name, bytes_for(group.size)) if group.leads and _can_share(group) else None
    path, name = group.share((f"/proc/{os.getpid()}/fd/{file}", name))
    mean = None
    with suppress(OSError):  # there is no such file, as in a container of a rank's own
        # What stands there may be of another process that has the same number in such a container.
        if name in os.readlink(path):
            mean = SharedMean(os.open(path, os.O_RDWR) if file is None else file, group.rank, group.size)
    found = group.gather(mean is not None)
    return mean.take if mean is not None and all(found) else None


def _can_share(group: Group) -> bool:
    # On other processors than these a rank may see another's count before the numbers that were written before it.
    return group.on_one_machine and platform.machine() == "x86_64"


def _create(name: str, size: int) -> int | None:
    """A file of zeros in memory, or `None` where the system gives none."""
    with suppress(OSError):
        file = os.memfd_create(name)
        os.ftruncate(file, size)
        return file
    return None

"""The processes of one run: each rank's place among them, and what they agree on."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tuitrain.engine.control import Request

# Waiting for another rank is not bounded here: a pause or an evaluation may take hours. The host sees a rank that hangs.
_PATIENCE = timedelta(days=7)
_REQUESTS: tuple[Request, ...] = ("pause", "resume", "stop", "interrupt", "checkpoint")


class Group:
    """The ranks of a run. Every method but `ask` is called by all ranks, in the same order; torch's process group is open.

    Attributes:
        rank: this process's number; rank 0 leads: it saves, evaluates, and hears what is asked for.
        size: how many ranks there are.
        agreed: requests that all ranks obey next.
    """

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.agreed: deque[Request] = deque()
        self._asked: queue.SimpleQueue[Request] = queue.SimpleQueue()
        # Beside NCCL too: what is agreed on must not wait for the GPUs.
        self._talk = dist.new_group(backend="gloo", timeout=_PATIENCE)

    @property
    def leads(self) -> bool:
        """This is rank 0."""
        return self.rank == 0

    def ask(self, request: Request) -> None:
        """Let the ranks agree on a request; on rank 0, from any thread."""
        self._asked.put(request)

    def sum(self, loss: Tensor, *, flag: bool) -> tuple[Tensor, bool]:
        """Add up what each rank has, and agree on the next request.

        Args:
            loss: 0-dim; each rank's share in the loss of the whole batch.
            flag: whether this rank wants something.

        Returns:
            The sum, and whether any rank wants something.
        """
        code = float(self._next_code())
        if loss.is_cuda:
            dist.all_reduce(loss)
            word = torch.tensor([code, float(flag)], dtype=torch.float64)
            dist.all_reduce(word, group=self._talk)
        else:
            word = torch.stack([torch.tensor(code, dtype=torch.float64), torch.tensor(float(flag), dtype=torch.float64), loss.double()])
            dist.all_reduce(word, group=self._talk)
            loss = word[2]
        request, flags = word[:2].tolist()
        self._agree(int(request))
        return loss, flags > 0

    def share(self, value: Any) -> Any:
        """What rank 0 gives, on every rank; a request that waits goes with it."""
        box = [(value, self._next_code())]
        dist.broadcast_object_list(box, src=0, group=self._talk)
        shared, code = box[0]
        self._agree(code)
        return shared

    def gather(self, value: Any) -> list[Any]:
        """What each rank gives, by rank."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self._talk)
        return found

    def wait_for_request(self) -> Request:
        """The next request, as rank 0 hears it."""
        box: list[Request] = [self._asked.get() if self.leads else "resume"]
        dist.broadcast_object_list(box, src=0, group=self._talk)
        return box[0]

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """The others do what is inside after rank 0 has: it leaves them a download or a cache."""
        if not self.leads:
            dist.barrier(group=self._talk)
        yield
        if self.leads:
            dist.barrier(group=self._talk)

    def _next_code(self) -> int:
        if not self.leads:
            return 0
        try:
            return 1 + _REQUESTS.index(self._asked.get_nowait())
        except queue.Empty:
            return 0

    def _agree(self, code: int) -> None:
        if code:
            self.agreed.append(_REQUESTS[code - 1])


def is_lost_peer(error: BaseException) -> bool:
    """Whether `error` says that another rank has gone, as gloo and NCCL put it."""
    if isinstance(error, (dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("gloo" in text or "Connection closed by peer" in text or "Connection reset by peer" in text)

"""The processes of one run: each rank's place among them, and what they agree on."""

from __future__ import annotations

import os
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tuitrain.config import ConfigError
from tuitrain.engine.failures import nccl_error
from tuitrain.events import REQUESTS, Request
from tuitrain.text import clean

# Waiting for another rank is not bounded here: a pause or an evaluation may take hours. The host sees a rank that hangs.
_PATIENCE = timedelta(days=7)
_PAUSED_SECONDS = 0.1
# These are of this rank's machine, as a container with too little shared memory: all ranks find them anew, however often they start.
# For a connection that has ended NCCL has a kind of error, and takes those of the system and of its own checks too (NVIDIA/nccl#795).
_ALSO_OF_A_PEER = ("ncclSystemError", "ncclInternalError")
_NCCLS_OWN = (*_ALSO_OF_A_PEER, "ncclUnhandledCudaError", "ncclInvalidUsage", "ncclInvalidArgument")
_OF_A_CONNECTION = re.compile(r"connect|recv|send|peer", re.IGNORECASE)


class LostPeer(RuntimeError):
    """Another rank has gone."""


class Group:
    """The ranks of a run. Every method is called by all ranks, in the same order; torch's process group is open.

    Args:
        device: this rank's own.
        asked: the next thing that this rank's host asks for, or `None`; it does not wait.

    Attributes:
        rank: this process's number; rank 0 leads: it saves, evaluates and tells.
        local_rank: its number on its machine.
        size: how many ranks there are.
        devices: those of all ranks; one of another machine than rank 0's has the machine's name before it.
        hosts: the names of all ranks' machines.
        on_one_machine: all ranks are of the same one.
    """

    def __init__(self, device: torch.device, asked: Callable[[], Request | None]) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.local_rank = int(os.environ.get("LOCAL_RANK", self.rank))
        self._agreed: deque[Request] = deque()
        self._asked = asked
        # Beside NCCL too: what is agreed on must not wait for the GPUs.
        self._talk = dist.new_group(backend="gloo", timeout=_PATIENCE)
        places = self.gather((int(os.environ.get("GROUP_RANK", 0)), clean(socket.gethostname()), str(device)))
        self.hosts: tuple[str, ...] = tuple(host for _, host, _ in places)
        self.on_one_machine = len({(machine, host) for machine, host, _ in places}) == 1
        self.devices: tuple[str, ...] = tuple(f"{host}/{name}" if machine != places[0][0] else name for machine, host, name in places)

    @property
    def leads(self) -> bool:
        """This is rank 0."""
        return self.rank == 0

    def own(self, devices: Sequence[torch.device]) -> torch.device:
        """This rank's own of its machine's `devices`; the only one where the launcher lets the process see no other."""
        return devices[self.local_rank % len(devices)]

    def start_sum(self, loss: Tensor, *, flag: bool) -> Callable[[], tuple[Tensor, bool]]:
        """Begin to add up what each rank has, and to agree on the next request; it goes on while this rank computes.

        Args:
            loss: 0-dim; each rank's share in the loss of the whole batch.
            flag: whether this rank wants something.

        Returns:
            Waits, and gives the sum and whether any rank wants something.
        """
        wishes = self._wishes()
        if self.size == 1:
            return lambda: self._alone(loss, wishes, flag=flag)
        numbers = [float(flag), *wishes]
        # In double the sum of the ranks' shares is as exact as one process's own mean.
        shares = [] if loss.is_cuda else [loss.double().reshape(1)]
        word = torch.cat([*shares, torch.tensor(numbers, dtype=torch.float64)])
        on_device = dist.all_reduce(loss, async_op=True) if loss.is_cuda else None
        talk = dist.all_reduce(word, group=self._talk, async_op=True)

        def result() -> tuple[Tensor, bool]:
            talk.wait()
            if on_device is not None:
                on_device.wait()
            total = loss if loss.is_cuda else word[0]
            flags, *wanted = word[len(shares) :].tolist()
            self._agree(wanted)
            return total, flags > 0

        return result

    def share(self, value: Any) -> Any:
        """What rank 0 gives, on every rank; what is asked of rank 0 goes with it."""
        box = [(value, self._wishes())] if self.leads else [None]
        dist.broadcast_object_list(box, src=0, group=self._talk)
        assert box[0] is not None
        shared, wishes = box[0]
        self._agree(wishes)
        return shared

    def gather(self, value: Any) -> list[Any]:
        """What each rank gives, by rank."""
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self._talk)
        return found

    def must_agree(self, facts: Mapping[str, str]) -> None:
        """Check that all ranks know the same; each fact has the name of a field.

        Raises:
            ConfigError: two do not, on every rank.
        """
        found = self.gather(dict(facts))
        for rank, theirs in enumerate(found):
            for field, value in found[0].items():
                if theirs[field] != value:
                    here, there = f"{value} on {self.hosts[0]} (rank 0)", f"{theirs[field]} on {self.hosts[rank]} (rank {rank})"
                    raise ConfigError(f"{field}: it is {here} and {there}; all must train with the same.")

    def take(self, *, wait: bool) -> Request | None:
        """The next request that all ranks know of, whichever of them heard it; `wait` blocks until there is one."""
        while wait and not self._agreed:
            time.sleep(_PAUSED_SECONDS)
            word = torch.tensor(self._wishes(), dtype=torch.float64)
            dist.all_reduce(word, group=self._talk)
            self._agree(word.tolist())
        return self._agreed.popleft() if self._agreed else None

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """What is inside rank 0 does first, then the first rank of each other machine, then all others: it leaves a download or a cache."""
        turn = 0 if self.leads else 1 if self.local_rank == 0 else 2
        for _ in range(turn):
            dist.barrier(group=self._talk)
        yield
        for _ in range(turn, 2):
            dist.barrier(group=self._talk)

    def _alone(self, loss: Tensor, wishes: list[float], *, flag: bool) -> tuple[Tensor, bool]:
        """What the only rank agrees on with itself."""
        self._agree(wishes)
        return loss if loss.is_cuda else loss.double(), flag

    def _wishes(self) -> list[float]:
        """A 1 in the place of what this rank is asked for: one request at a time, so that they stay in order."""
        request = self._asked()
        return [float(request == each) for each in REQUESTS]

    def _agree(self, wishes: list[float]) -> None:
        self._agreed += [request for request, count in zip(REQUESTS, wishes, strict=True) if count]


def is_lost_peer(error: BaseException) -> bool:
    """Whether `error` says that another rank has gone, as a `LostPeer`, gloo and NCCL put it."""
    nccl = nccl_error(error)
    if nccl is not None and nccl.kind in _NCCLS_OWN:
        return nccl.kind in _ALSO_OF_A_PEER and (nccl.reason is None or _OF_A_CONNECTION.search(nccl.reason) is not None)
    if isinstance(error, (LostPeer, dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("gloo" in text or "Connection closed by peer" in text or "Connection reset by peer" in text)

"""Means through memory that ranks share: every number of them, and what happens where a rank has gone or shares no memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from tuitrain.engine import shared_mean
from tuitrain.engine.group import Group, LostPeer, is_lost_peer
from tuitrain.engine.shared_mean import SharedMean, bytes_for, mean_in_memory

one_order = pytest.mark.skipif(platform.machine() != "x86_64", reason="processors that write in another order share no memory")


def memory_for(size: int) -> int:
    file = os.memfd_create("test")
    os.ftruncate(file, bytes_for(size))
    return file


RANK = """
import sys, torch
from tuitrain.engine.shared_mean import SharedMean
file, rank, size = map(int, sys.argv[1:])
torch.set_num_threads(1)
mean, draws = SharedMean(file, rank, size), torch.Generator().manual_seed(size)
print("there", flush=True)
sys.stdin.readline()
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    for count in (1, 1000, (9 << 20) // 4, 7):
        shares = [torch.randn(count, generator=draws).to(dtype) for _ in range(size)]
        taken = shares[rank].clone()
        mean.take(taken)
        assert torch.equal(taken, sum(share * (1 / size) for share in shares)), (dtype, count)
"""


@one_order
@pytest.mark.parametrize("size", [2, 3])
def test_each_rank_gets_the_mean_bit_for_bit_again_and_again(size: int) -> None:
    file = memory_for(size)
    with ExitStack() as stack:
        commands = [[sys.executable, "-c", RANK, str(file), str(rank), str(size)] for rank in range(size)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "pass_fds": [file]}
        ranks = [stack.enter_context(subprocess.Popen(command, **pipes)) for command in commands]
        for rank in ranks:
            assert rank.stdout.readline() == "there\n"
        for rank in ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
        assert [rank.wait() for rank in ranks] == [0] * size
    os.close(file)


PEER = """
import sys
from tuitrain.engine.shared_mean import SharedMean
mean = SharedMean(int(sys.argv[1]), 1, 2)
print("there", flush=True)
sys.stdin.read()
"""


def test_a_rank_that_waits_for_one_that_has_gone_says_so() -> None:
    file = memory_for(2)
    mean = SharedMean(file, 0, 2)
    command = [sys.executable, "-c", PEER, str(file)]
    with subprocess.Popen(command, pass_fds=[file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdout is not None
        assert peer.stdout.readline() == "there\n"
        with ThreadPoolExecutor(1) as waiting:
            took = waiting.submit(mean.take, torch.ones(5))
            assert not wait([took], timeout=0.1).done, "as long as it lives it is waited for"
            peer.kill()
            with pytest.raises(LostPeer, match=r"^the process of rank 1 has ended$") as raised:
                took.result()
        # Nobody has waited for it yet: it is a zombie, which a process number alone does not tell from a rank that lives.
        assert peer.returncode is None
    assert is_lost_peer(raised.value)


# -- where ranks share memory ---------------------------------------------------------------------------------------------


class Ranks:
    """What threads of this process say to each other in the place of ranks."""

    def __init__(self, size: int) -> None:
        self.size, self.on_one_machine = size, True
        self.meeting = threading.Barrier(size)
        self.said: list[Any] = [None] * size

    def among(self, of_rank: Callable[[Group], Any]) -> list[Any]:
        with ThreadPoolExecutor(self.size) as threads:
            return list(threads.map(lambda rank: of_rank(cast(Group, Rank(self, rank))), range(self.size)))


class Rank:
    def __init__(self, ranks: Ranks, rank: int) -> None:
        self.ranks, self.rank, self.size, self.leads = ranks, rank, ranks.size, rank == 0
        self.on_one_machine = ranks.on_one_machine

    def gather(self, value: Any) -> list[Any]:
        self.ranks.said[self.rank] = value
        self.ranks.meeting.wait()
        said = list(self.ranks.said)
        self.ranks.meeting.wait()
        return said

    def share(self, value: Any) -> Any:
        return self.gather(value)[0]


def mean_of_ranks(group: Group) -> Tensor | None:
    mean, numbers = mean_in_memory(group), torch.full((3,), float(group.rank))
    if mean is None:
        return None
    mean(numbers)
    return numbers


@one_order
def test_ranks_of_one_machine_share_memory_that_nobody_else_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    # Threads of one process have each other's locks.
    monkeypatch.setattr(SharedMean, "_must_live", lambda self, rank: None)
    before = set(os.listdir("/dev/shm"))
    assert [one.tolist() for one in Ranks(3).among(mean_of_ranks)] == [[1, 1, 1]] * 3
    assert set(os.listdir("/dev/shm")) == before


def test_a_rank_alone_has_its_mean_already() -> None:
    (taken,) = Ranks(1).among(mean_of_ranks)
    assert taken.tolist() == [0, 0, 0]


def test_ranks_of_several_machines_share_none() -> None:
    ranks = Ranks(2)
    ranks.on_one_machine = False
    assert ranks.among(mean_of_ranks) == [None, None]


def test_processors_that_write_in_another_order_share_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert Ranks(2).among(mean_of_ranks) == [None, None]


@pytest.mark.parametrize("name", ["memfd_create", "open"])
def test_where_one_rank_cannot_reach_the_memory_none_takes_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def refuse(*args: object) -> int:
        raise PermissionError

    monkeypatch.setattr(shared_mean.os, name, refuse)
    assert Ranks(2).among(mean_of_ranks) == [None, None]


def test_another_file_with_that_number_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in containers, where the numbers of processes are others'.
    other = memory_for(2)
    monkeypatch.setattr(Rank, "share", lambda self, value: (f"/proc/self/fd/{other}", self.gather(value)[0][1]))
    assert Ranks(2).among(mean_of_ranks) == [None, None]
    os.close(other)

"""The recorder for GPUs, with torch's functions for them made believe: in which order it calls them, also when a recording fails."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from tuitrain.engine.graphs import CudaRecorder

END, EARLIER_END = "_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool"
"""What ends the allocator's recording; the second is the name in earlier releases of torch, as in 2.6."""


class Cuda:
    """What `CudaRecorder` calls of torch.cuda, and in which order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, end: str = END) -> None:
        self.calls: list[str] = []
        self.default_generators = (self,)
        for name in ("Stream", "CUDAGraph", "graph_pool_handle", "current_stream", "set_stream", "stream", "graph"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "default_generators", self.default_generators)
        self.open = False
        """The allocator takes it that something is being recorded."""
        for name in (END, EARLIER_END):
            monkeypatch.delattr(torch._C, name, raising=False)
        monkeypatch.setattr(torch._C, end, self.end_pool, raising=False)
        monkeypatch.setattr(torch._C, "_cuda_releasePool", lambda ordinal, pool: self.calls.append(f"the {pool} of {ordinal} released"))
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", lambda mode: self.calls.append(f"mode {mode}"))

    def Stream(self, device: Any) -> Any:
        return FakeStream("side", self.calls)

    def current_stream(self, device: Any) -> Any:
        return FakeStream("usual", self.calls)

    def CUDAGraph(self) -> Any:
        return self

    def graph_pool_handle(self) -> str:
        return "pool"

    def replay(self) -> None:
        self.calls.append("replay")

    def set_stream(self, stream: Any) -> None:
        self.calls.append(f"set {stream.name}")

    @contextmanager
    def stream(self, stream: Any) -> Iterator[None]:
        self.calls.append(f"on {stream.name}")
        yield

    @contextmanager
    def graph(self, graph: Any, *, pool: str, stream: Any, capture_error_mode: str) -> Iterator[None]:
        self.calls.append(f"record on {stream.name} in the {pool}")
        try:
            yield
        except ValueError as error:
            self.open = True
            raise RuntimeError("operation failed due to a previous error during capture") from error

    def end_pool(self, ordinal: int, pool: str) -> None:
        if not self.open:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        self.open = False
        self.calls.append(f"the {pool} of {ordinal} ended")

    def clone_state(self) -> str:
        return "its state"

    def graphsafe_set_state(self, state: str) -> None:
        self.calls.append(f"generator gets {state}")


class FakeStream:
    device_index = 0

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self.calls = name, calls

    def wait_stream(self, other: FakeStream) -> None:
        self.calls.append(f"{self.name} waits for {other.name}")


def test_work_aside_is_in_order_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    with CudaRecorder(torch.device("cuda:0")).aside():
        cuda.calls.append("work")
    assert cuda.calls == ["side waits for usual", "on side", "work", "usual waits for side"]


@pytest.mark.parametrize("end", [END, EARLIER_END])
def test_a_recording_that_fails_leaves_stream_generator_and_allocator_as_they_were(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    cuda = Cuda(monkeypatch, end)
    recorder = CudaRecorder(torch.device("cuda:0"))
    recorder.record(lambda: cuda.calls.append("work"))()
    assert cuda.calls == ["record on side in the pool", "work", "replay"]
    cuda.calls.clear()

    def fail() -> None:
        raise ValueError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="previous error"):
        recorder.record(fail)
    ended = ["the pool of 0 ended", "the pool of 0 released"]
    assert cuda.calls == ["record on side in the pool", "set usual", "generator gets its state", *ended]


def test_a_recording_that_fails_and_is_ended_by_torch_is_not_ended_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)

    def fail() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with pytest.raises(torch.OutOfMemoryError):
        CudaRecorder(torch.device("cuda:0")).record(fail)
    assert cuda.calls == ["record on side in the pool", "set usual", "generator gets its state"]


def test_only_waiting_for_the_gpu_counts_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Cuda(monkeypatch)
    recorder = CudaRecorder(torch.device("cuda:0"))
    with recorder.watching() as waits:
        warnings.warn("something else", stacklevel=1)
    assert waits == []
    with recorder.watching() as waits:
        for _ in range(2):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
    assert len(waits) == 2
    assert cuda.calls == ["mode warn", "mode 0"] * 2

"""What Python sees of GPUs that are made believe: where a tensor is, and the functions of torch.cuda."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from fake_cuda import THE_HOST, Cards, Recording, card_of
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

_plain_to, _plain_deepcopy, _plain_tolist, _plain_numpy = Tensor.to, Tensor.__deepcopy__, Tensor.tolist, Tensor.numpy
_plain_tensor, _plain_as_tensor, _plain_autocast = torch.tensor, torch.as_tensor, torch.autocast
_plain_grad = torch._C.TensorBase.grad


@contextmanager
def fake_cuda(count: int = 1) -> Iterator[Cards]:
    """Inside there are `count` cards, in this thread and those that nn.DataParallel starts."""
    cards = Cards(count)
    with pytest.MonkeyPatch.context() as patch:
        _patch_tensors(patch, cards)
        _patch_functions(patch, cards)
        _patch_cuda(patch, cards)
        _patch_data_parallel(patch, cards)
        _patch_distributed(patch, cards)
        with cards.operators:
            yield cards


def _device(tensor: Tensor) -> torch.device:
    card = card_of(tensor)
    return torch.device("cpu") if card is None else torch.device("cuda", card)


class _Moved(torch.autograd.Function):
    """A copy on another device; its gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, options: dict[str, Any]) -> Tensor:
        ctx.back = _device(tensor), tensor.dtype
        made: Tensor = torch.ops.aten._to_copy.default(tensor, **options)
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient.to(*ctx.back), None


def _patch_tensors(patch: pytest.MonkeyPatch, cards: Cards) -> None:
    def to(self: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        if len(flags := [one for one in args if isinstance(one, bool)]) > 1:
            copy = flags[1]
        device, dtype, later, memory_format = torch._C._nn._parse_to(*args, **kwargs)
        if device is not None and device.type == "cuda":
            device = torch.device("cuda", cards.touch(device))
        options: dict[str, Any] = {"dtype": dtype or self.dtype, "non_blocking": later}
        if memory_format is not None:
            options["memory_format"] = memory_format
        if device is None or device == _device(self):
            return _plain_to(self, copy=copy, **options)
        options["device"] = THE_HOST if device.type == "cpu" else device
        if self.requires_grad and torch.is_grad_enabled():
            return _Moved.apply(self, options)
        return torch.ops.aten._to_copy.default(self.detach(), **options)

    def pinned(self: Tensor) -> Tensor:
        cards.pin()
        made = self.clone()
        made.untyped_storage().pinned = True
        return made

    def to_list(self: Tensor) -> Any:
        if card_of(self) is not None:
            cards.wait("tolist")
        return _plain_tolist(self)

    def numpy(self: Tensor, **kwargs: Any) -> Any:
        if card_of(self) is not None:
            raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first.")
        return _plain_numpy(self, **kwargs)

    def deepcopy(self: Tensor, memo: Any) -> Tensor:
        made = _plain_deepcopy(self, memo)
        made.untyped_storage().card = card_of(self)
        return made

    def set_grad(self: Tensor, gradient: Tensor | None) -> None:
        if gradient is not None and card_of(gradient) != card_of(self):
            raise RuntimeError("assigned grad has data located on a different device")
        _plain_grad.__set__(self, gradient)

    put = {
        "device": property(_device),
        "is_cuda": property(lambda self: card_of(self) is not None),
        "is_cpu": property(lambda self: card_of(self) is None),
        "grad": property(_plain_grad.__get__, set_grad, _plain_grad.__delete__),
        "get_device": lambda self: -1 if card_of(self) is None else card_of(self),
        "to": to,
        "cpu": lambda self, **kwargs: self.to("cpu", **kwargs),
        "cuda": lambda self, device=None, non_blocking=False: self.to(
            torch.device("cuda", cards.ordinal(device)), non_blocking=non_blocking
        ),
        "pin_memory": pinned,
        "is_pinned": lambda self, device=None: getattr(self.untyped_storage(), "pinned", False),
        "tolist": to_list,
        "numpy": numpy,
        "__deepcopy__": deepcopy,
        "new_tensor": lambda self, data, **kwargs: torch.tensor(data, **{"dtype": self.dtype, "device": self.device, **kwargs}),
    }
    for name, value in put.items():
        patch.setattr(Tensor, name, value, raising=False)


def _patch_functions(patch: pytest.MonkeyPatch, cards: Cards) -> None:
    def tensor(data: Any, *, device: Any = None, **kwargs: Any) -> Tensor:
        made = _plain_tensor(data, **kwargs)
        return made if device is None else made.to(device)

    def as_tensor(data: Any, *, device: Any = None, **kwargs: Any) -> Tensor:
        made = _plain_as_tensor(data, **kwargs)
        return made if device is None else made.to(device)

    def autocast(device_type: str, *args: Any, **kwargs: Any) -> Any:
        return _plain_autocast("cpu", *args, **kwargs)

    patch.setattr(torch, "tensor", tensor)
    patch.setattr(torch, "as_tensor", as_tensor)
    patch.setattr(torch, "autocast", autocast)


def _patch_cuda(patch: pytest.MonkeyPatch, cards: Cards) -> None:
    class Stream:
        def __init__(self, device: Any = None) -> None:
            self.device_index = cards.touch(device)
            self.device = torch.device("cuda", self.device_index)

        def wait_stream(self, other: Any) -> None: ...

        def wait_event(self, event: Any) -> None: ...

        def synchronize(self) -> None:
            cards.wait("Stream.synchronize")

        def is_capturing(self) -> bool:
            return cards.operators.recording is not None

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    class Event:
        """It has happened when it is asked for a second time, or when the host has waited for what came after it."""

        def __init__(self, enable_timing: bool = False, **kwargs: Any) -> None:
            self.timed, self.asked, self.number = enable_timing, 0, 0

        def record(self, stream: Any = None) -> None:
            cards.ask()
            self.card = cards.touch() if stream is None else stream.device_index
            cards.queued += 1
            self.number, self.time, self.asked = cards.queued, time.perf_counter(), 0

        def query(self) -> bool:
            cards.ask()
            self.asked += 1
            if self.asked > 1:
                cards.finish(self.number)
            return self.number <= cards.done

        def synchronize(self) -> None:
            cards.ask()
            if self.number > cards.done:
                cards.wait("Event.synchronize", self.number)

        def elapsed_time(self, end: Any) -> float:
            if not (self.timed and end.timed and self.number and end.number and self.card == end.card):
                raise ValueError("both events must be recorded, on one device, with enable_timing")
            if max(self.number, end.number) > cards.done:
                raise RuntimeError("CUDA error: device not ready")
            return 1000 * (end.time - self.time)

    class Graph:
        def __init__(self) -> None:
            self.recording = Recording()

        def replay(self) -> None:
            self.recording.replay()

    @contextmanager
    def graph(cuda_graph: Graph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global") -> Iterator[None]:
        cards.operators.recording = cuda_graph.recording
        drawn = [one.get_state() for one in cards.generators]
        try:
            yield
        finally:
            cards.operators.recording = None
            cuda_graph.recording.undo()
            for generator, state in zip(cards.generators, drawn, strict=True):
                generator.set_state(state)

    def exchange(device: int) -> int:
        cards.ask()
        before = cards.current
        if device >= 0:
            cards.current = device
        return before

    def set_device(device: Any) -> None:
        cards.current = cards.touch(device)

    class Generator:
        """As one of a card: a recording that failed gives it a state of its own again."""

        def __init__(self, card: int) -> None:
            self.card = card

        def clone_state(self) -> Tensor:
            return cards.generators[self.card].get_state()

        def graphsafe_set_state(self, state: Tensor) -> None:
            cards.generators[self.card].set_state(state)

    def seed(number: int) -> None:
        cards.generators[cards.current].manual_seed(number)

    def seed_all(number: int) -> None:
        for generator in cards.generators:
            generator.manual_seed(number)

    def properties(device: Any = None) -> Any:
        cards.ordinal(device)
        return SimpleNamespace(name="Fake", major=9, minor=0, total_memory=2**34, multi_processor_count=132, uuid="0" * 8)

    def synchronize(device: Any = None) -> None:
        cards.touch(device)
        cards.wait("torch.cuda.synchronize")

    stand_ins = {
        "_lazy_init": lambda: None,
        "init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: cards.count,
        "current_device": lambda: cards.current,
        "set_device": set_device,
        "_exchange_device": exchange,
        "_maybe_exchange_device": exchange,
        "get_device_properties": properties,
        "get_device_name": lambda device=None: "Fake",
        "get_device_capability": lambda device=None: (9, 0),
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": Graph,
        "graph": graph,
        "graph_pool_handle": lambda: (0, 1),
        "current_stream": Stream,
        "default_stream": Stream,
        "stream": lambda stream: stream,
        "set_stream": lambda stream: None,
        "synchronize": synchronize,
        "empty_cache": lambda: None,
        "memory_allocated": lambda device=None: cards.touch(device) + 2**20,
        "max_memory_allocated": lambda device=None: cards.touch(device) + 2**21,
        "memory_reserved": lambda device=None: cards.touch(device) + 2**22,
        "reset_peak_memory_stats": lambda device=None: cards.ordinal(device),
        "mem_get_info": lambda device=None: (2**33 + cards.touch(device), 2**34),
        "get_rng_state": lambda device="cuda": cards.generators[cards.ordinal(device)].get_state(),
        "set_rng_state": lambda state, device="cuda": cards.generators[cards.ordinal(device)].set_state(state.clone()),
        "default_generators": tuple(map(Generator, range(cards.count))),
        "manual_seed": seed,
        "manual_seed_all": seed_all,
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: None,
        "is_current_stream_capturing": lambda: cards.operators.recording is not None,
        "is_bf16_supported": lambda *args: True,
    }
    for name, value in stand_ins.items():
        patch.setattr(torch.cuda, name, value)


def _patch_data_parallel(patch: pytest.MonkeyPatch, cards: Cards) -> None:
    """What of nn.DataParallel is not written in Python."""

    def device(index: int) -> torch.device:
        return torch.device("cpu") if index < 0 else torch.device("cuda", index)

    def broadcast(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
        return [[one if one.get_device() == index else one.to(device(index)) for one in tensors] for index in devices]

    def scatter(tensor: Tensor, devices: Sequence[int], sizes: Sequence[int] | None, dim: int, streams: Any) -> list[Tensor]:
        parts = tensor.chunk(len(devices), dim) if sizes is None else tensor.split(sizes, dim)
        return [part.to(device(index), non_blocking=True) for part, index in zip(parts, devices, strict=False)]

    def gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
        there = device(-1 if destination is None else destination)
        return torch.cat([one.to(there) for one in tensors], dim)

    class Thread(threading.Thread):
        """One after the other, because they share the generators of the host."""

        def run(self) -> None:
            before = cards.current
            with cards.operators:
                super().run()
            cards.current = before

        def start(self) -> None:
            super().start()
            self.join()

    made_up = SimpleNamespace(Lock=threading.Lock, Thread=Thread)
    patch.setattr(sys.modules["torch.nn.parallel.parallel_apply"], "threading", made_up)
    for name, function in (("_broadcast_coalesced", broadcast), ("_scatter", scatter), ("_gather", gather)):
        patch.setattr(torch._C, name, function, raising=False)
    stand_ins = {
        "is_available": lambda: True,
        "current_accelerator": lambda *args, **kwargs: torch.device("cuda"),
        "current_stream": torch.cuda.current_stream,
        "device_index": torch.cuda.device,
    }
    for name, value in stand_ins.items():
        patch.setattr(torch.accelerator, name, value, raising=False)


def _patch_distributed(patch: pytest.MonkeyPatch, cards: Cards) -> None:
    """The memory in which torch's DistributedDataParallel adds up gradients is made in C++. A group takes gloo in the place of NCCL."""

    def around(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            cards.operators.within_c = True
            try:
                return function(*args, **kwargs)
            finally:
                cards.operators.within_c = False

        return call

    for name in ("__init__", "_pre_forward"):
        patch.setattr(DistributedDataParallel, name, around(getattr(DistributedDataParallel, name)))
    begin = dist.init_process_group
    patch.setattr(dist, "init_process_group", lambda backend, **kwargs: begin("gloo", **kwargs))

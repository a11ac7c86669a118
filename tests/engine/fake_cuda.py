"""GPUs made believe on a build of torch for the CPU: each tensor has the device that it would have, and is computed on the CPU.

Each memory knows which card it would be on. An operator whose tensors are on several devices raises, as it does on GPUs; what would make
the host wait for a card is noted; what is copied to the host without waiting is there no earlier than it would be; random numbers come
from a generator of each card; what goes into a CUDA graph is done again at each replay, in the same memory. It is evidence from the CPU:
it says nothing about what a GPU computes, or how fast. `fake_cuda_api` has what Python sees of it.

torch's own `FakeTensorMode` cannot do this: on a build for the CPU it ends the process at the first backward on a fake GPU.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

import tuitrain

CPU = torch.device("cpu")
THE_HOST = torch.device("cpu", 0)
"""Asked for by Python; C++ asks for plain `CPU` where it means a tensor's own device."""

_ANYWHERE = -1
_PACKAGE = str(Path(tuitrain.__file__).parent)
_aten = torch.ops.aten
_COPIES = (_aten.copy_.default, _aten._to_copy.default)
_PICKS = (_aten.index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_)
_READS = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


def card_of(tensor: Tensor) -> int | None:
    """The ordinal of the card that `tensor` would be on; `None` for the CPU."""
    card: int | None = getattr(tensor.untyped_storage(), "card", None)
    return None if card == _ANYWHERE else card


class Cards:
    """The cards of a machine, and what was done with them.

    Attributes:
        current: torch's current one.
        generators: of random numbers, one for each.
        waits: a line for each time that the host would have waited for a card: for what, and the line of the package that asked.
        touched: those on which something was made or asked for: a real one has a context then.
        queued: how many copies to the host and events the host has asked for, on all cards.
        done: how many of these have happened.
        broken: what CUDA answers to everything from now on.
        aborted: how often the process would have ended, because a destructor of torch's asked CUDA for something then.
        without_kernels: those for which torch has no kernels.
    """

    def __init__(self, count: int) -> None:
        self.count, self.current = count, 0
        self.generators = [torch.Generator() for _ in range(count)]
        self.operators = Operators(self)
        self.waits: list[str] = []
        self.touched: set[int] = set()
        self.queued = self.done = 0
        self.broken: str | None = None
        self.aborted = 0
        self.without_kernels: set[int] = set()
        self._flying: list[tuple[int, Tensor, Tensor]] = []

    def ordinal(self, device: Any = None) -> int:
        """Of whatever torch's functions take for a device."""
        index = device if isinstance(device, int) else None if device is None else torch.device(device).index
        return self.current if index is None or index < 0 else index

    def touch(self, device: Any = None) -> int:
        """Something is made or asked for there."""
        ordinal = self.ordinal(device)
        if ordinal >= self.count:
            raise RuntimeError("CUDA error: invalid device ordinal")
        self.touched.add(ordinal)
        return ordinal

    @property
    def sending(self) -> bool:
        """Something is on its way to the host."""
        return bool(self._flying)

    def fail(self, answer: str) -> None:
        """What a card computes fails; nothing that is queued will happen any more."""
        self.broken = answer
        self._flying.clear()

    def ask(self) -> None:
        """CUDA is asked for something."""
        if self.broken is not None:
            raise RuntimeError(self.broken)

    def pin(self) -> None:
        """Memory of the host is pinned: on the current card, unless there is a context already."""
        if not self.touched:
            self.touch()

    def wait(self, what: str, number: int | None = None) -> None:
        """The host waits for all that it asked of the cards, or up to there."""
        self.ask()
        if self.operators.recording is not None:
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({what})")
        self.waits.append(f"{what} in {_asking()}")
        self.finish(self.queued if number is None else number)

    def finish(self, number: int) -> None:
        """All that was asked for up to there has happened."""
        self.done = max(self.done, number)
        with _disable_current_modes():
            while self._flying and self._flying[0][0] <= self.done:
                _, host, value = self._flying.pop(0)
                host.copy_(value)

    def send(self, host: Tensor) -> None:
        """What is in `host` is still on its way there: until then there is nothing of use."""
        self.queued += 1
        self._flying.append((self.queued, host, host.clone()))
        host.fill_(float("nan") if host.is_floating_point() else 111)
        weakref.finalize(host.untyped_storage(), self._free).atexit = False

    def _free(self) -> None:
        """Pinned memory to which something was copied: CUDA is asked first, and an exception is none that anybody could catch."""
        self.aborted += self.broken is not None

    @contextmanager
    def drawing(self, card: int) -> Iterator[None]:
        """Random numbers come from that card's generator."""
        host = torch.get_rng_state()
        torch.set_rng_state(self.generators[card].get_state())
        try:
            yield
        finally:
            self.generators[card].set_state(torch.get_rng_state())
            torch.set_rng_state(host)


class Operators(TorchDispatchMode):
    """Sees each operator: whether it can be done where its tensors are, what waits for it, and where its results are.

    Attributes:
        recording: what goes into a CUDA graph, while one is recorded.
        within_c: C++ asks for memory on the CPU, and means the device of what it uses the memory with.
    """

    def __init__(self, cards: Cards) -> None:
        super().__init__()
        self.recording: Recording | None = None
        self.within_c = False
        self._cards = cards

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # that would import torch's compiler

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        asked, pinned = kwargs.get("device"), bool(kwargs.pop("pin_memory", False))
        if pinned:
            self._cards.pin()
        if asked is not None:
            kwargs["device"] = CPU
        given = _tensors((args, kwargs))
        self._settle(given)
        if func in _COPIES:
            return self._copy(func, args, kwargs, asked)
        of_c = asked == CPU and (self.within_c or torch._C._current_graph_task_id() >= 0)  # the latter: in backward
        card = self._where(func, given) if asked is None or (of_c and given) else self._card(asked)
        if card is None:
            made = func(*args, **kwargs)
        else:
            self._check(func, args, kwargs)
            made = self._do(func, args, kwargs, given, card)
        _keep(made, given, _ANYWHERE if of_c and card is None else card, pinned=pinned)
        return made

    def _settle(self, given: list[Tensor]) -> None:
        """Memory that may be anywhere is where it is used first."""
        card = next((card for one in given if (card := card_of(one)) is not None), None)
        for one in given:
            memory: Any = one.untyped_storage()
            if card is not None and getattr(memory, "card", None) == _ANYWHERE:
                memory.card = card

    def _card(self, device: Any) -> int | None:
        return self._cards.touch(device) if torch.device(device).type == "cuda" else None

    def _where(self, func: Any, given: list[Tensor]) -> int | None:
        """The card on which an operator is done; `None` for the CPU.

        Raises:
            RuntimeError: its tensors are on several devices.
        """
        cards = {card for one in given if (card := card_of(one)) is not None}
        strangers = [one for one in given if card_of(one) is None and (one.dim() or not _takes_numbers(func))]
        if len(cards) > 1 or (cards and strangers and func.overloadpacket not in _PICKS):
            names = " and ".join(sorted({str(one.device) for one in given}))
            raise RuntimeError(f"Expected all tensors to be on the same device, but {func} got {names}")
        if cards and strangers:
            self._cards.wait(f"{func} with an index of the host")
        return next(iter(cards), None)

    def _check(self, func: Any, args: Any, kwargs: Any) -> None:
        if isinstance(kwargs.get("generator"), torch.Generator):
            raise RuntimeError(f"Expected a 'cuda' device type for generator but found 'cpu' in {func}")
        if func.overloadpacket in _PICKS:
            reads = any(isinstance(one, Tensor) and one.dtype in (torch.bool, torch.uint8) for one in args[1])
        else:
            reads = any(tag in _READS for tag in func.tags)
        if reads:
            self._cards.wait(str(func))

    def _do(self, func: Any, args: Any, kwargs: Any, given: list[Tensor], card: int) -> Any:
        if card in self._cards.without_kernels and not (func in _COPIES or func.is_view or "empty" in func._schema.name):
            raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nSearch for it in the documentation")

        def run(args: Any, kwargs: Any) -> Any:
            if torch.Tag.nondeterministic_seeded not in func.tags:
                return func(*args, **kwargs)
            with self._cards.drawing(card):
                return func(*args, **kwargs)

        return run(args, kwargs) if self.recording is None else self.recording.add(run, func, args, kwargs, given)

    def _copy(self, func: Any, args: Any, kwargs: Any, asked: Any) -> Any:
        """Of one tensor into another or a new one, which may be on another device."""
        into = func is _aten.copy_.default
        source = args[1] if into else args[0]
        here = card_of(source)
        there = card_of(args[0]) if into else here if asked in (None, CPU) else self._card(asked)
        later = bool(kwargs.pop("non_blocking", len(args) > 2 and args[2]))
        up, down = here is None and there is not None, here is not None and there is None
        if up and self.recording is not None and not source.is_pinned():
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing (a copy of memory that is not pinned)")
        if (up and not later) or (down and not (later and (not into or args[0].is_pinned()))):
            self._cards.wait(f"{func} {'to' if up else 'from'} a card")
        args, given = args[:2], _tensors(args[:2])
        made = func(*args, **kwargs) if there is None else self._do(func, args, kwargs, given, there)
        _keep(made, given, there, pinned=down and later)
        if down and later:
            self._cards.send(made)
        return made


class Recording:
    """What a CUDA graph records: operators on a card, with the memory that they work in. Recording them leaves no trace."""

    def __init__(self) -> None:
        self._work: list[tuple[Callable[[Any, Any], Any], Any, list[Tensor | None]]] = []
        self._own: set[int] = set()
        self._before: dict[int, tuple[Any, Any]] = {}

    def add(self, run: Callable[[Any, Any], Any], func: Any, args: Any, kwargs: Any, given: list[Tensor]) -> Any:
        """Do an operator, to see what it makes, and remember how it was before."""
        theirs = {one.untyped_storage()._cdata for one in given}
        # Of batch_norm the schema does not say that it changes the running averages.
        if func._schema.is_mutable or "batch_norm" in func._schema.name:
            for one in given:
                memory = one.untyped_storage()
                if memory._cdata not in self._own and memory._cdata not in self._before:
                    self._before[memory._cdata] = memory, memory.clone()
        inputs = _same((args, kwargs))  # operators such as transpose_ change a tensor's axes
        made = run(args, kwargs)
        outs = [leaf.detach() if leaf.untyped_storage()._cdata not in theirs else None for leaf in _tensors(made)]
        self._own |= {one.untyped_storage()._cdata for one in outs if one is not None}
        self._work.append((run, inputs, outs))
        return made

    def undo(self) -> None:
        """All memory from before the recording is as it was."""
        with _disable_current_modes():
            for memory, before in self._before.values():
                memory.copy_(before)
        self._before.clear()

    @torch.no_grad()
    def replay(self) -> None:
        """Do all of it, in the memory in which it was recorded."""
        with _disable_current_modes():
            for run, inputs, outs in self._work:
                for out, value in zip(outs, _tensors(run(*_same(inputs))), strict=True):
                    if out is not None:
                        out.copy_(value)


def _tensors(values: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def _same(values: Any) -> Any:
    """Other tensors in the same memory."""
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf, values)


@cache
def _takes_numbers(func: Any) -> bool:
    """It takes tensors of the host that have no axis, as numbers."""
    packet = func.overloadpacket
    elementwise = any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())
    return elementwise or func._schema.name.startswith("aten::_foreach_") or packet in _PICKS


def _keep(made: Any, given: list[Tensor], card: int | None, *, pinned: bool) -> None:
    """Note where new memory is."""
    known = {one.untyped_storage()._cdata for one in given}
    for one in _tensors(made):
        if one.layout == torch.strided and one.untyped_storage()._cdata not in known:
            memory: Any = one.untyped_storage()
            memory.card, memory.pinned = card, pinned


def _asking() -> str:
    """The innermost line of the package that is at work."""
    frame = sys._getframe()
    while frame.f_back is not None and not frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"

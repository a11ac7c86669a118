"""CUDA graphs: a step on one GPU is recorded once and then replayed, so that the GPU does not wait for Python to launch its kernels.

Forward, backward and update are three graphs in one memory pool, so that the time of each can still be told. The first steps are done
as they are: they load kernels and fill the optimizer's state. What cannot be replayed, such as the smaller last batch of an epoch, is
done as it is too, at any time. What a graph does not see is Python: a model that decides, counts or draws there is never recorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tuitrain.config import LOSSES, MODELS, RunConfig
from tuitrain.engine.failures import first_line
from tuitrain.engine.memory import free_on
from tuitrain.engine.optim import is_torchs
from tuitrain.engine.seeding import host_generators
from tuitrain.engine.strategies import Strategy
from tuitrain.engine.strategies.single import Single
from tuitrain.events import Notice

WARM_UP = 4
"""Whole batches before the first one that is replayed; the last of them is watched for what cannot be recorded."""

Piece = Callable[[], None]


class Recorder(Protocol):
    """Records work for a device."""

    def aside(self) -> AbstractContextManager[None]:
        """Work inside is queued where pieces are recorded; all work before comes before it, and all work after it after it."""
        ...

    def watching(self) -> AbstractContextManager[list[str]]:
        """At the end the list has a line for each time that the host waited for the device inside."""
        ...

    def has_room(self) -> bool:
        """Whether the device has memory for what a step holds twice: for its graphs, and for a step that is not replayed."""
        ...

    def record(self, piece: Piece) -> Piece:
        """Call `piece`, of which nothing is done on the device now; what does all of it there, in the same memory, at each call.

        Pieces are to be replayed in the order in which they were recorded.

        Raises:
            Exception: of many kinds, when it cannot be recorded; the device can be used as before.
        """
        ...


class StepGraphs:
    """Does the steps of a `Single`: sets its `run`, and `update` takes the place of the loop's.

    Args:
        single: what does forward and backward.
        model: its model; what `single` calls may be this one compiled.
        optimizer: over the model's parameters.
        update: moves the parameters by their gradients.
        size: samples in a whole batch.
        recorder: for the model's device.

    Attributes:
        notices: what there is to say; whoever says it takes it out.
    """

    def __init__(
        self, single: Single, model: nn.Module, optimizer: torch.optim.Optimizer, update: Piece, size: int, recorder: Recorder
    ) -> None:
        self.notices: list[Notice] = []
        self._single, self._model, self._optimizer = single, model, optimizer
        self._update, self._size, self._recorder = update, size, recorder
        self._whole = 0
        self._gave_up = self._replayed = False
        self._batch: tuple[Tensor, Tensor] | None = None
        self._loss = torch.empty(0)
        self._pieces: tuple[Piece, Piece, Piece | None] | None = None
        self._gradients: list[tuple[nn.Parameter, Tensor]] = []
        self._settings: list[dict[str, Any]] = []
        single.run = self.run

    def run(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Forward and backward of one batch, replayed where that is possible; the mean loss, detached."""
        self._replayed = False
        if self._gave_up or len(labels) != self._size:
            return self._single.plain(inputs, labels)
        self._whole += 1
        if self._whole <= WARM_UP:
            return self._warm_up(inputs, labels)
        if self._pieces is None:
            self._record(inputs, labels)
        if self._pieces is None or self._batch is None:
            return self._single.plain(inputs, labels)
        for kept, given in zip(self._batch, (inputs, labels), strict=True):
            kept.copy_(given)
        forward, backward, _ = self._pieces
        forward()
        self._single.laps.lap("forward")
        backward()
        self._single.laps.lap("backward")
        self._replayed = True
        return self._loss.clone()

    def update(self) -> None:
        """Move the parameters by the gradients of the last `run`."""
        if not self._replayed or self._pieces is None:
            if self._gave_up or self._whole > WARM_UP:
                self._update()
                return
            with self._recorder.aside():
                self._update()
            return
        update = self._pieces[2]
        if update is not None and self._settings == _settings(self._optimizer):
            update()
            return
        # Numbers such as the learning rate are fixed in a graph.
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        self._update()

    def _warm_up(self, inputs: Tensor, labels: Tensor) -> Tensor:
        with self._recorder.aside():
            if self._whole < WARM_UP:
                return self._single.plain(inputs, labels)
            before = _host_state(self._model)
            with self._recorder.watching() as waits:
                loss = self._single.plain(inputs, labels)
        if waits:
            self._give_up("the model makes the host wait for the GPU in each step")
        elif _host_state(self._model) != before:
            self._give_up("the model counts or draws random numbers in Python")
        elif not self._recorder.has_room():
            self._give_up("the GPU has no memory left for that")
        return loss

    def _record(self, inputs: Tensor, labels: Tensor) -> None:
        self._batch = inputs.clone(), labels.clone()
        try:
            forward, backward = self._recorder.record(self._forward), self._recorder.record(self._backward)
            self._gradients = [(one, one.grad) for one in self._model.parameters() if one.grad is not None]
            self._settings = _settings(self._optimizer)
            self._pieces = forward, backward, self._recorded_update()
        except Exception as error:  # whatever a model does that cannot be recorded
            # Ending a recording that failed fails too; the reason lies before.
            self._give_up(first_line(error.__context__ or error))
            self._batch, self._loss, self._gradients = None, torch.empty(0), []
        # Of a recorded backward only the addresses are of use.
        self._optimizer.zero_grad()
        self._single.laps.restart()

    def _forward(self) -> None:
        assert self._batch is not None
        self._loss = self._single.forward(*self._batch)

    def _backward(self) -> None:
        self._loss.backward()  # type: ignore[no-untyped-call]
        self._loss = self._loss.detach()

    def _recorded_update(self) -> Piece | None:
        groups = self._optimizer.param_groups
        if not all(group.get("fused") for group in groups):
            return None  # others may count their steps on the host
        try:
            for group in groups:
                group.update({"capturable": True} if "capturable" in group else {})
            return self._recorder.record(self._update)
        finally:
            for group, before in zip(groups, self._settings, strict=True):
                group.update(before)

    def _give_up(self, reason: str) -> None:
        self._gave_up = True
        self.notices.append(Notice(text=f"The steps are not replayed as CUDA graphs, which would be faster: {reason}."))


def step_graphs(
    config: RunConfig, strategy: Strategy, model: nn.Module, optimizer: torch.optim.Optimizer, update: Piece, device: torch.device
) -> StepGraphs | None:
    """What replays the steps of `strategy`, where it is `Single` on a CUDA `device`; see `StepGraphs`.

    Built-in networks and losses alone: a person's own may take another course at a later step, and a recorded one would not know. An
    optimizer that is not torch's may give the parameters other memory.
    """
    if not isinstance(strategy, Single) or device.type != "cuda":
        return None
    if config.model not in MODELS or config.loss not in LOSSES or not is_torchs(optimizer):
        return None
    return StepGraphs(strategy, model, optimizer, update, config.batch_size, CudaRecorder(device))


class CudaRecorder:
    """See `Recorder`. Other threads may use CUDA meanwhile, and what they do is not recorded."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """See `Recorder`. What autograd keeps of a stream must not be of the default one when a step is recorded."""
        usual = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream):
            yield
        usual.wait_stream(self._stream)

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        """See `Recorder`."""
        waits: list[str] = []
        mode = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield waits
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        waits += [str(one.message) for one in seen if "synchronizing CUDA operation" in str(one.message)]

    def has_room(self) -> bool:
        """See `Recorder`."""
        step = torch.cuda.max_memory_allocated(self._device) - torch.cuda.memory_allocated(self._device)
        return free_on(self._device) > 2 * step

    def record(self, piece: Piece) -> Piece:
        """See `Recorder`."""
        usual, graph = torch.cuda.current_stream(self._device), torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
                piece()
        except Exception:
            # When ending a recording fails, torch leaves its stream the current one, and the generator recording.
            torch.cuda.set_stream(usual)
            generator = torch.cuda.default_generators[usual.device_index]
            generator.graphsafe_set_state(generator.clone_state())
            self._leave_pool(usual.device_index)
            raise
        return graph.replay

    def _leave_pool(self, ordinal: int) -> None:
        """End what ending a failed recording leaves open before torch 2.12: the allocator would no longer give back what it holds in its
        cache, nor use it up before memory runs out, and torch.cuda.empty_cache would fail."""
        ends = (getattr(torch._C, name, None) for name in ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool"))
        end = next(filter(None, ends), None)  # earlier releases have the second
        if end is not None:
            with suppress(RuntimeError):  # torch has ended it
                end(ordinal, self._pool)
                torch._C._cuda_releasePool(ordinal, self._pool)


def _settings(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


def _host_state(model: nn.Module) -> list[Any]:
    """What a step that can be replayed leaves as it is: the generators of the host, and the plain values of the model's modules."""
    plain = (bool, int, float, str)
    values = {(name, key): value for name, each in model.named_modules() for key, value in vars(each).items() if isinstance(value, plain)}
    return [*host_generators(), values]

"""A stand-in for recording on a GPU: what is recorded leaves no trace, and is done on the CPU at each call."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tuitrain.config import RunConfig
from tuitrain.engine.graphs import StepGraphs
from tuitrain.engine.strategies.single import Single


class FakeRecorder:
    """See `tuitrain.engine.graphs.Recorder`.

    Attributes:
        waits: what `watching` finds.
        room: what `has_room` says.
        fails_at: the piece, from 1, at which recording fails.
        asides: how often work was done aside.
        replays: how often each recorded piece was replayed.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self.waits: list[str] = []
        self.room = True
        self.fails_at = 0
        self.asides = 0
        self.replays: list[int] = []

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.asides += 1
        yield

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        waits: list[str] = []
        yield waits
        waits += self.waits

    def has_room(self) -> bool:
        return self.room

    def record(self, piece: Callable[[], None]) -> Callable[[], None]:
        parameters, number = list(self.model.parameters()), len(self.replays)
        before = [one.grad for one in parameters]
        with self._nothing_happens():
            piece()
        if number + 1 == self.fails_at:
            raise RuntimeError("operation not permitted when stream is capturing\nmore lines")
        after = [one.grad for one in parameters]
        self.replays.append(0)

        def replay() -> None:
            # Python's own view of the gradients is not what a graph works on.
            self.replays[number] += 1
            seen = [one.grad for one in parameters]
            _attach(parameters, before)
            piece()
            for one, old, kept in zip(parameters, before, after, strict=True):
                if kept is not None and kept is not old:
                    assert one.grad is not None
                    kept.copy_(one.grad)
            _attach(parameters, seen)

        return replay

    @contextmanager
    def _nothing_happens(self) -> Iterator[None]:
        """All but the gradients is afterwards as it was."""
        model = copy.deepcopy(self.model.state_dict())
        state = {one: copy.deepcopy(values) for one, values in self.optimizer.state.items()}
        generators = random.getstate(), np.random.get_state(), torch.get_rng_state()
        yield
        # As data: to autograd the weights are those that the forward pass before this piece saw.
        for name, value in self.model.state_dict().items():
            value.data.copy_(model[name])
        for one, values in state.items():
            for name, value in values.items():
                self.optimizer.state[one][name].copy_(value)
        random.setstate(generators[0])
        np.random.set_state(generators[1])
        torch.set_rng_state(generators[2])


def _attach(parameters: list[nn.Parameter], gradients: list[Any]) -> None:
    for one, gradient in zip(parameters, gradients, strict=True):
        one.grad = gradient


def fake_step_graphs(made: list[FakeRecorder], **changes: Any) -> Callable[..., StepGraphs]:
    """In the place of `step_graphs`, for the CPU: the recorders, with their attributes changed, are added to `made`."""

    def make(
        config: RunConfig, strategy: Any, model: nn.Module, optimizer: torch.optim.Optimizer, update: Any, device: torch.device
    ) -> StepGraphs:
        assert isinstance(strategy, Single)
        recorder = FakeRecorder(model, optimizer)
        vars(recorder).update(changes)
        made.append(recorder)
        return StepGraphs(strategy, model, optimizer, update, config.batch_size, recorder)

    return make


class _Every:
    def __contains__(self, model: object) -> bool:
        return True


def count_as_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model is recorded on a GPU, as otherwise only the built-in ones are."""
    monkeypatch.setattr("tuitrain.engine.graphs.MODELS", _Every())

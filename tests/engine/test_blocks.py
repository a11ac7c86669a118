"""Updates of SGD in blocks: bit for bit those of torch's, whatever is set, and only where they are those."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tuitrain.engine import blocks, optim

BLOCK = 32


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_LEAST", BLOCK)
    monkeypatch.setattr(blocks, "_FOR_EACH_THREAD", 1)


class Net(nn.Module):
    """A convolution in channels_last memory, a layer that gets no gradient at first, small parameters, and one with gaps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
        self.late, self.last = nn.Linear(8, 8), nn.Linear(8, 30)
        self.gaps = nn.Parameter(torch.randn(20, 4)[:, :2])

    def forward(self, images: torch.Tensor, step: int) -> torch.Tensor:
        hidden = self.conv(images).mean((2, 3))
        hidden = self.late(hidden) if step > 1 else hidden
        return self.last(hidden).square().sum() + (self.gaps * step).sin().sum()


def trained(settings: dict[str, Any], make_step: Callable[[torch.optim.Optimizer], Callable[[], None]]) -> tuple[Net, list[Any]]:
    torch.manual_seed(3)
    net = Net()
    groups: list[Any] = [
        {"params": net.conv.parameters(), "lr": 0.02},
        {"params": [*net.late.parameters(), *net.last.parameters(), net.gaps]},
    ]
    optimizer = torch.optim.SGD(groups, **({"lr": 0.01} | settings))
    step = make_step(optimizer)
    for number in range(5):
        net(torch.randn(2, 3, 5, 5), number).backward()
        step()
    return net, [state.get("momentum_buffer") for state in optimizer.state.values()]


def plain(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    def step() -> None:
        optimizer.step()
        optimizer.zero_grad()

    return step


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
        {"weight_decay": 0.1},
        {"momentum": 0.5, "dampening": 0.2, "maximize": True},
        {"foreach": True, "momentum": 0.9},
    ],
)
def test_they_are_bit_for_bit_those_of_torch(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cut, real = [], blocks._cut

    def counted(*given: Any) -> Any:
        found = list(real(*given))
        cut.append(len(found))
        return found

    monkeypatch.setattr(blocks, "_cut", counted)
    (net, momenta), (expected, buffers) = trained(settings, optim.update), trained(settings, plain)
    for one, other in zip(net.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, other)
    assert len(momenta) == len(buffers)
    for buffer, other_buffer in zip(momenta, buffers, strict=True):
        assert (buffer is None and other_buffer is None) or torch.equal(buffer, other_buffer)
    # The convolution, [8, 3, 3, 3], is cut into seven; the parameter with gaps is not.
    assert ("foreach" in settings and not cut) or set(cut) == {1, 2, 7, 8}


def test_gradients_that_are_sparse_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for make_step in (optim.update, plain):
        torch.manual_seed(3)
        table = nn.Embedding(40, 4, sparse=True)
        step = make_step(torch.optim.SGD(table.parameters(), lr=0.1))
        table(torch.tensor([1, 5, 1])).sum().backward()
        step()
        found.append(table.weight)
    assert torch.equal(*found)


class Own(torch.optim.SGD):
    """Somebody's, which may compute anything."""


@pytest.mark.parametrize("kind", [Own, torch.optim.Adam])
def test_others_are_left_alone(kind: type[torch.optim.Optimizer]) -> None:
    def whole() -> None: ...

    optimizer = kind(nn.Linear(8, 30).parameters(), lr=0.1)  # type: ignore[call-arg]
    assert blocks.in_blocks(optimizer, whole) is whole
    small = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    assert blocks.in_blocks(small, whole) is whole

"""Which layer an error came from, of networks whose own code says nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from engine_small import FakeControl, small_config
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tuitrain.config import ConfigError
from tuitrain.engine.layers import failed_layer
from tuitrain.engine.train import train


class Join(nn.Module):
    """Takes its tensors as arguments of several kinds."""

    def forward(self, first: Tensor, rest: list[Tensor], *, scale: Tensor | None = None) -> Tensor:
        raise ValueError("no")


class Net(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Identity(), part])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.parts[1](*args, **kwargs)


def raised(network: nn.Module, *args: Any, **kwargs: Any) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever a network raises
        network(*args, **kwargs)
    return caught.value


def deep() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Sequential(nn.ReLU(), nn.Linear(5, 2)))


def test_the_innermost_layer_is_named_with_what_it_was_given() -> None:
    assert failed_layer(raised(deep(), torch.ones(3, 2, 2))) == "layer '1.1', Linear, got [3, 4]"
    assert failed_layer(raised(Net(deep()), torch.ones(3, 2, 2))) == "layer 'parts.1.1.1', Linear, got [3, 4]"


def test_the_tensors_of_all_arguments_are_counted_up_to_three() -> None:
    one, two = torch.ones(1), torch.ones(2)
    assert failed_layer(raised(Net(Join()), one, [two], scale=torch.ones(3))) == "layer 'parts.1', Join, got [1] and [2] and [3]"
    assert failed_layer(raised(Net(Join()), one, [two] * 5)).endswith("got [1] and [2] and [2]")
    assert failed_layer(raised(Net(Join()), 7, [])) == "layer 'parts.1', Join, got no tensor"


def test_of_the_network_itself_and_of_no_network_nothing_is_told() -> None:
    assert failed_layer(raised(nn.Linear(5, 2), torch.ones(3, 4))) == ""
    assert failed_layer(ValueError("never raised")) == ""
    with pytest.raises(TypeError) as caught:
        len(3)  # type: ignore[arg-type]
    assert failed_layer(caught.value) == ""


def test_a_name_cannot_steer_the_terminal() -> None:
    network = nn.Sequential()
    network.add_module("a\x1b[31mb", nn.Linear(5, 2))
    assert "\x1b" not in failed_layer(raised(network, torch.ones(3, 4)))


def test_what_ddp_puts_around_a_network_is_none_of_its_layers(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        error = raised(DistributedDataParallel(deep()), torch.ones(3, 2, 2))
        alone = raised(DistributedDataParallel(nn.Linear(5, 2)), torch.ones(3, 4))
    finally:
        dist.destroy_process_group()
    assert failed_layer(error) == "layer '1.1', Linear, got [3, 4]"
    assert failed_layer(alone) == ""


def make_of_torchs_layers(config: Any) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(100, 4))


def test_a_refused_model_of_torchs_layers_says_which_one_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        list(train(small_config(model="test_layers:make_of_torchs_layers"), FakeControl(tmp_path)))
    said = "mat1 and mat2 shapes cannot be multiplied (2x288 and 100x4) (layer '2', Linear, got [2, 288])."
    assert str(refused.value).endswith(said)

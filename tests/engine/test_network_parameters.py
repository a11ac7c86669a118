"""The list of parameters, and the warnings of layers that torch does not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import FakeControl, make_net, make_tied, of, run, small_config
from torch import nn

from tuitrain.engine.models import seed_cnn
from tuitrain.engine.parameters import parameters_event
from tuitrain.events import Notice, Parameters, RunStarted, State

TAIL = "torch neither trains nor moves"


class Holder(nn.Module):
    """A trainable layer, and whatever the test puts beside it."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        for name, value in attributes.items():
            setattr(self, name, value)


def layers(count: int) -> list[nn.Module]:
    return [nn.Linear(2, 2) for _ in range(count)]


def test_every_parameter_in_order_with_its_shape_and_place() -> None:
    model = seed_cnn()
    model[0].bias.requires_grad_(False)
    told = parameters_event(model)
    assert [row.name for row in told.rows] == [name for name, _ in model.named_parameters()]
    assert sum(row.count for row in told.rows) == 145_578
    first, second = told.rows[:2]
    assert (first.name, first.shape, first.count, first.device, first.trainable) == ("0.weight", (32, 3, 5, 5), 2400, "cpu", True)
    assert (second.name, second.shape, second.trainable) == ("0.bias", (32,), False)
    assert told.warnings == ()


def test_the_device_is_that_of_each_parameter() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    assert [row.device for row in parameters_event(model).rows] == ["cpu", "cpu", "meta", "meta"]


def test_a_shared_parameter_is_there_once() -> None:
    assert [row.name for row in parameters_event(make_tied(None)).rows] == ["first.weight", "first.bias", "second.bias"]


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"blocks": layers(3)}, f"blocks: 3 layers are kept in a plain Python list of Holder; {TAIL} them; use nn.ModuleList."),
        ({"head": (nn.Linear(2, 2),)}, f"head: 1 layer is kept in a plain Python tuple of Holder; {TAIL} it; use nn.ModuleList."),
        ({"by_name": {"a": nn.ReLU()}}, f"by_name: 1 layer is kept in a plain Python dict of Holder; {TAIL} it; use nn.ModuleDict."),
        (
            {"scales": [nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))]},
            f"scales: 2 parameters are kept in a plain Python list of Holder; {TAIL} them; use nn.ParameterList.",
        ),
        (
            {"scales": {"a": nn.Parameter(torch.ones(1))}},
            f"scales: 1 parameter is kept in a plain Python dict of Holder; {TAIL} it; use nn.ParameterDict.",
        ),
        (
            {"deep": [{"a": layers(2)}, (layers(1), "x", None)]},
            f"deep: 3 layers are kept in a plain Python list of Holder; {TAIL} them; use nn.ModuleList.",
        ),
    ],
)
def test_what_torch_does_not_see_is_a_sentence(attributes: dict[str, Any], sentence: str) -> None:
    assert parameters_event(Holder(**attributes)).warnings == (sentence,)


def test_layers_and_parameters_in_one_list_are_two_sentences() -> None:
    warnings = parameters_event(Holder(mixed=[*layers(2), nn.Parameter(torch.ones(1))])).warnings
    assert [warning.split(" are")[0].split(" is")[0] for warning in warnings] == ["mixed: 2 layers", "mixed: 1 parameter"]


def test_an_inner_module_is_named_by_its_path() -> None:
    model = nn.Sequential(nn.ReLU(), Holder(blocks=layers(1)))
    (warning,) = parameters_event(model).warnings
    assert warning.startswith("1.blocks: 1 layer is kept in a plain Python list of Holder;")


def test_what_is_registered_too_is_no_warning() -> None:
    model = Holder(
        words=["a", 1], nothing=[], modules_list=nn.ModuleList(layers(2)), lstm=nn.LSTM(3, 3), extra=nn.ParameterList([torch.ones(1)])
    )
    model.known = [model.layer, {"again": model.modules_list[0]}, model.layer.weight]
    assert parameters_event(model.double()).warnings == ()


def test_a_list_that_holds_itself_ends() -> None:
    ring: list[Any] = layers(1)
    ring.append(ring)
    (warning,) = parameters_event(Holder(ring=ring)).warnings
    assert warning.startswith("ring: 1 layer ")


def test_hostile_names_are_cleaned() -> None:
    model = Holder()
    setattr(model, "a\x1b[2J", layers(1))
    model.add_module("b\u202e", nn.Linear(2, 2))
    told = parameters_event(model)
    assert told.warnings[0].startswith("a·[2J: 1 layer")
    assert told.rows[-1].name == "b·.bias"


def make_forgetful(config: Any) -> nn.Module:
    model = make_net(config)
    model.extra = layers(2)  # type: ignore[assignment]
    return model


def test_a_run_tells_its_parameters_once_before_the_first_step(tmp_path: Path) -> None:
    events = run(small_config(model="test_network_parameters:make_forgetful", max_steps=2), FakeControl(tmp_path))
    (told,) = of(Parameters, events)
    place = events.index(told)
    assert isinstance(events[place - 2], RunStarted)
    assert events[place - 1] == State(state="running")
    assert events[place + 1] == Notice(level="warning", text=told.warnings[0])
    assert sum(row.count for row in told.rows) == of(RunStarted, events)[0].parameters

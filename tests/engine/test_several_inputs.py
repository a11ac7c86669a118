"""Networks that take several inputs: what they get, in every strategy, and what cannot be given to one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import several_sets
import torch
from engine_small import FakeControl, go_on, losses_of, of, run, small_config
from several_sets import CLASSES, COUNT, TESTS, labels, parts
from test_export_ddp import like_its_run, printed_by
from test_export_script import compare, executed, executed_alone, exported
from torch import Tensor, nn

from tuitrain.allowance import Allowance
from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine import export
from tuitrain.engine.batches import SPREAD
from tuitrain.engine.datasets.packing import Packing, are_several
from tuitrain.events import Eval, Notice, Replicas, RunStarted

HERE = str(Path(__file__).parent)
SMALL: dict[str, Any] = {"model": "several_sets:Net", "precision": "fp64", "batch_size": 8, "lr": 0.1, "shuffle": True}
SHAPES = ((3, 4, 4), (5,), (5,), ())


@pytest.fixture(autouse=True)
def _one_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many processors there are."""
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setattr(Allowance, "processors", lambda self: 2)


def several(data: str, **changes: Any) -> RunConfig:
    return small_config(**(SMALL | {"data": f"several_sets:{data}"} | changes))


def plain(config: RunConfig) -> tuple[list[float], float]:
    """What a plain loop over the same samples gives: each step's loss, and the test loss at the end."""
    torch.manual_seed(config.seed)
    model = several_sets.Net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
    losses = []

    def loss_of(inputs: dict[str, Tensor], truth: Tensor) -> Tensor:
        given = inputs["images"].double() / 255, inputs["mask"], inputs["tokens"].long(), inputs["time"].double()
        return nn.functional.cross_entropy(model(*given), truth)

    inputs, truth = parts(COUNT, 1), labels(COUNT)
    for epoch in range(1, config.epochs + 1):
        order = torch.randperm(COUNT, generator=torch.Generator().manual_seed(config.seed * SPREAD + epoch))
        for rows in order.split(config.batch_size):
            loss = loss_of({name: part[rows] for name, part in inputs.items()}, truth[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    with torch.no_grad():
        return losses, float(loss_of(parts(TESTS, 2), labels(TESTS)))


@pytest.mark.parametrize(
    ("data", "changes"),
    [
        ("make_dicts", {}),
        ("make_dicts", {"model": "several_sets:Keywords"}),
        ("make_dicts", {"device": "cpu,cpu,cpu", "strategy": "split"}),
        ("make_tuples", {"device": "cpu,cpu", "strategy": "split"}),
        ("make_samples", {}),
        ("make_pairs", {"seed": 4}),
    ],
)
def test_they_train_as_in_a_plain_loop(tmp_path: Path, data: str, changes: dict[str, Any]) -> None:
    config = several(data, **changes)
    events = run(config, FakeControl(tmp_path))
    losses, tested = plain(config)
    assert list(losses_of(events).values()) == pytest.approx(losses, rel=1e-9)
    if data != "make_tuples":
        assert of(Eval, events)[-1].loss == pytest.approx(tested, rel=1e-9)
    first = of(Replicas, events)[0]
    assert first.batch == (8, 3, 4, 4)
    names = [*parts(1, 1)]
    counts = [replica.input[0] for replica in first.replicas]
    assert sum(counts) == 8
    for replica, count in zip(first.replicas, counts, strict=True):
        # Where they are named the order is that of the names.
        assert replica.inputs == tuple((count, *(SHAPES[names.index(name)] or ((1,) if data == "make_pairs" else ()))) for name in names)
    assert of(Notice, events) == []


@pytest.mark.parametrize("inputs", [{"images": parts(COUNT, 1)["images"]}, (parts(COUNT, 1)["images"],)])
def test_a_tuple_or_a_dict_may_have_one_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: Any) -> None:
    monkeypatch.setattr(several_sets, "make_dicts", lambda: ((inputs, labels(COUNT)), None))
    text, losses, evals = exported(several("make_dicts", model="several_sets:OfImages", device="cpu,cpu", strategy="split"), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 1e-9)
    events = run(several("make_dicts", model="several_sets:OfImages", device="cpu,cpu", strategy="split"), FakeControl(tmp_path / "again"))
    first = of(Replicas, events)[0]
    assert (first.batch, first.replicas[1].input, first.replicas[1].inputs) == ((8, 3, 4, 4), (4, 3, 4, 4), None)


def test_floats_have_the_precision_of_the_run(tmp_path: Path) -> None:
    events = run(several("make_dicts", precision="fp32", model="several_sets:make_single"), FakeControl(tmp_path))
    assert list(losses_of(events).values()) == pytest.approx(plain(several("make_dicts"))[0], rel=1e-4)


def test_a_run_goes_on_bit_for_bit_with_samples_that_are_drawn(tmp_path: Path) -> None:
    config = several("make_drawn")
    whole = run(config, FakeControl(tmp_path / "whole"))
    assert of(RunStarted, whole)[0].readers == 1
    control = FakeControl(tmp_path / "parts", {9: ["stop"]})
    begun = losses_of(run(config, control))
    rest = losses_of(go_on(config, FakeControl(tmp_path / "parts")))
    assert begun | rest == losses_of(whole)


def test_a_sample_that_is_no_number_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = parts(COUNT, 1)
    broken["time"][11] = torch.nan
    monkeypatch.setattr(several_sets, "make_dicts", lambda: ((broken, labels(COUNT)), None))
    error = run(several("make_dicts"), FakeControl(tmp_path))[-1].error
    assert "the inputs of training sample 11, counted from 0, hold a nan or an infinity" in error


def test_scripts_give_what_the_runs_gave(tmp_path: Path) -> None:
    """By name and in order, from tensors and from samples, of which some are drawn; over replicas; in half of the precision."""
    configs = [
        several("make_dicts", device="cpu,cpu", strategy="split"),
        several("make_tuples"),
        several("make_arrays"),
        several("make_pairs", device="cpu,cpu,cpu", strategy="split", max_steps=9),
        several("make_drawn"),
        several("make_drawn", shuffle=False, model="several_sets:Keywords"),
    ]
    found = [exported(config, tmp_path / str(number)) for number, config in enumerate(configs)]
    outputs = executed_alone([text for text, _, _ in found], tmp_path)
    for output, (_, losses, evals) in zip(outputs, found, strict=True):
        compare(output, losses, evals, 1e-9, 1e-9)
    assert found[1][1] == found[2][1]
    assert "model(images=inputs[0], mask=inputs[1], tokens=inputs[2], time=inputs[3])" in found[4][0]
    assert "model(*inputs)" in found[1][0]


def test_a_script_of_several_gpus_trains_on_the_cpu_too(tmp_path: Path) -> None:
    """With a copy of the network for each of them."""
    control = FakeControl(tmp_path)
    events = run(several("make_dicts", device="cpu,cpu", strategy="split"), control)
    assert control.resolved is not None

    def text_on_gpus(**changes: Any) -> str:
        config = msgspec.structs.replace(control.resolved, device="cuda:0,cuda:1", **changes)
        return export.script(config, of(RunStarted, events)[0], control.environment)

    compare(executed(text_on_gpus()), losses_of(events), of(Eval, events), 1e-9, 1e-9)
    assert "    def forward(self, *inputs, **named):\n" in text_on_gpus(strategy="dp", precision="bf16")
    assert "            return self.model(*inputs, **named)\n" in text_on_gpus(strategy="dp", precision="bf16")


def test_ranks_train_with_their_parts_and_so_does_their_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    """Of 50 samples in batches of 7 the last one is of one sample, and a rank without any."""
    config = several("make_samples", batch_size=7)
    text, losses, evals, relative, floor = like_its_run(tmp_path, config, monkeypatch)
    assert list(losses.values()) == pytest.approx(plain(config)[0], rel=1e-9)
    (printed,) = printed_by([text], tmp_path, free_port)
    compare(printed, losses, evals, relative, floor)


def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Any, test: Any = None, **changes: Any) -> str:
    monkeypatch.setattr(several_sets, "make_dicts", lambda: (train, test))
    with pytest.raises(ConfigError) as error:
        run(several("make_dicts", **changes), FakeControl(tmp_path))
    return str(error.value).removeprefix("data: 'several_sets:make_dicts': ")


PAIR = (torch.zeros(6, 2), torch.ones(6, 3))
FOUR = torch.arange(6) % CLASSES


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((torch.zeros(6, 2), torch.zeros(5)), "the train inputs are 6 inputs[0], 5 inputs[1]; they must be as many."),
        (
            {"a": torch.zeros(6, 2), "b": [1] * 6},
            "the train b are a list of 6; they must be a torch tensor or a NumPy array, as numpy.asarray makes one.",
        ),
        ({"a": torch.zeros(6, 2), "b": torch.zeros(6, 0)}, "the train b are [6, 0] of torch.float32; they must be [N, ...] of numbers and"),
        ({"a": torch.zeros(6, 2), "b": torch.zeros(6).to(torch.complex64)}, "the train b are [6] of torch.complex64; they must be"),
        ({"a": torch.zeros(6), "two words": torch.zeros(6)}, "train part: an input is called 'two words', which can be no parameter of"),
        ({"from": torch.zeros(6)}, "train part: an input is called 'from', which can be no parameter of a network."),
        ((torch.zeros(6, 2), torch.eye(6).to_sparse()), "the train inputs[1] are a sparse tensor; they must be an ordinary one"),
        ((), "the train inputs are a tuple of 0; they must be a torch tensor or a NumPy array, as numpy.asarray makes one."),
    ],
)
def test_what_is_no_input_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: Any, words: str) -> None:
    assert words in refused(tmp_path, monkeypatch, (inputs, FOUR))


@pytest.mark.parametrize(
    ("test", "changes", "words"),
    [
        (((PAIR[0],), FOUR), {}, "the test samples have the shape [2] and the train samples [2] and [3]; they must be alike."),
        (
            ((PAIR[1], PAIR[0]), FOUR),
            {},
            "the test samples have the shape [3] and [2] and the train samples [2] and [3]; they must be alike.",
        ),
        (
            None,
            {"batch_dim": 1},
            "batch_dim: 1 is for a single input, and a sample of several_sets:make_dicts has several: [2] and [3];",
        ),
        (
            None,
            {"augment": "crop-flip"},
            "augment: crop-flip is for images; a sample of several_sets:make_dicts is [2] and [3] with",
        ),
        (None, {"model": "linear"}, "model: 'linear' does not take inputs [2, 2] and [2, 3] of the data 'several_sets:make_dicts': "),
        (None, {}, "model: 'several_sets:Net' does not take inputs [2, 2] and [2, 3] of the data 'several_sets:make_dicts': "),
    ],
)
def test_what_they_do_not_fit_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: Any, changes: Any, words: str) -> None:
    assert refused(tmp_path, monkeypatch, (PAIR, FOUR), test, **changes).startswith(words)


def test_samples_whose_inputs_differ_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Texts:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            return {"a": torch.zeros(4 + index), "b": torch.zeros(5 - index), "label": 0}

    words = "train sample 1 has the inputs a [5] and b [4], and the first one a [4] and b [5]; they must be alike."
    assert refused(tmp_path, monkeypatch, Texts()) == words


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int16, torch.uint8, torch.bool])
def test_rows_hold_what_was_packed_wherever_they_are_cut(dtype: torch.dtype) -> None:
    first = (torch.arange(14).reshape(7, 2) % 2).to(dtype)
    inputs = {"a": first, "b": torch.arange(21, dtype=torch.uint8).reshape(7, 3), "c": torch.arange(7.0), "d": torch.arange(7)}
    packing = Packing.of(inputs)
    rows = packing.pack(inputs)
    for cut in (slice(0, 7), slice(3, 5), torch.tensor([6, 1])):
        for part, name in zip(packing.unpack(rows[cut]), inputs, strict=True):
            assert torch.equal(part, inputs[name][cut])
            assert part.dtype == inputs[name].dtype


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": 1}, True),
        ({}, False),
        ((), False),
        ([1.0, 2.0], False),
        ([torch.tensor(1.0), torch.tensor(2.0)], False),
        ([torch.ones(2), torch.ones(3)], True),
        ((torch.ones(2), 3), False),
        (torch.ones(2, 2), False),
    ],
)
def test_the_numbers_of_one_input_are_not_several(value: Any, found: bool) -> None:
    assert are_several(value) is found

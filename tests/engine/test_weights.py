"""A run that begins with the weights of a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import engine_small
import pytest
import torch
from engine_small import FakeControl, go_on, losses_of, of, run, small_config
from safetensors.torch import save_file
from test_export_script import compare, executed, exported
from torch import nn
from torch.torch_version import TorchVersion

from tuitrain.config import ConfigError
from tuitrain.engine import export
from tuitrain.engine.check import check
from tuitrain.engine.weights import named_tensors
from tuitrain.events import Checkpoint, Eval, Notice

# That older ones are refused is tested with every other.
pytestmark = pytest.mark.skipif(TorchVersion(torch.__version__) < "2.10", reason="this torch reads no .pt without running what is in it")
Weights = dict[str, torch.Tensor]


class WiderNet(nn.Module):
    """`make_net` with an end of another number of classes, and a layer of its own."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        net = engine_small.make_net(config)
        self.add_module("0", net[0])
        self.add_module("4", nn.Linear(64, 7))
        self.added = nn.Linear(7, engine_small.CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.max_pool2d(self.get_submodule("0")(inputs).relu(), 2)
        return self.added(self.get_submodule("4")(hidden.flatten(1)))


@pytest.fixture
def weights() -> Weights:
    torch.manual_seed(40)
    return engine_small.make_net(None).state_dict()


@pytest.fixture
def file(tmp_path: Path, weights: Weights) -> Path:
    torch.save(weights, tmp_path / "given.pt")
    return tmp_path / "given.pt"


def notices(events: Any) -> list[Notice]:
    return [notice for notice in of(Notice, events) if "begins with" in notice.text]


def refusal(folder: Path, **changes: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        run(small_config(**changes), FakeControl(folder / "run"))
    with pytest.raises(ConfigError) as checked:
        check(small_config(**changes))
    assert str(checked.value) == str(refused.value), "a run in the queue is told it before its turn has come"
    assert list((folder / "run").iterdir()) == []
    return str(refused.value)


@pytest.mark.parametrize("changes", [{}, {"precision": "fp64"}, {"device": "cpu,cpu", "strategy": "split"}, {"compile": True}])
def test_the_first_loss_is_that_of_the_weights_given(tmp_path: Path, weights: Weights, file: Path, changes: Any) -> None:
    net = engine_small.make_net(None)
    net.load_state_dict(weights)
    (inputs, labels), _ = engine_small.make_images(None)
    expected = nn.functional.cross_entropy(net(inputs[:8] / 255), labels[:8]).item()
    control = FakeControl(tmp_path / "run")
    events = run(small_config(weights=str(file), max_steps=2, **changes), control)
    assert losses_of(events)[1] == pytest.approx(expected, rel=1e-5)
    assert [(notice.level, notice.text) for notice in notices(events)] == [("info", f"The model begins with the weights of {file}.")]


def test_a_run_tells_the_whole_path(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    control = FakeControl(tmp_path / "run")
    run(small_config(weights=file.name, max_steps=1), control)
    assert control.resolved is not None
    assert control.resolved.weights == str(file)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda weights: {"epoch": 3, "loss": torch.tensor(0.3), "model_state_dict": weights, "optimizer": {"state": {}}},
        lambda weights: {f"module.{name}": value for name, value in weights.items()},
        lambda weights: {"state_dict": {f"module._orig_mod.{name}": value for name, value in weights.items()}},
        lambda weights: {"discriminator": {f"x{n}": torch.zeros(2) for n in range(9)}, "generator": weights},
        lambda weights: {name: value.double() for name, value in weights.items()},
    ],
    ids=["a checkpoint", "DataParallel", "compiled and parallel", "one of two networks", "another dtype"],
)
def test_weights_are_found_where_people_keep_them(tmp_path: Path, weights: Weights, file: Path, wrap: Callable[[Weights], Any]) -> None:
    expected = losses_of(run(small_config(weights=str(file), max_steps=1), FakeControl(tmp_path / "plain")))
    torch.save(wrap(weights), tmp_path / "wrapped.pt")
    events = run(small_config(weights=str(tmp_path / "wrapped.pt"), max_steps=1), FakeControl(tmp_path / "run"))
    assert losses_of(events) == expected


def test_names_are_left_as_they_are_where_they_fit(weights: Weights) -> None:
    assert named_tensors({"fc.weight": weights["4.weight"]}, {"fc.weight": weights["4.weight"]}).keys() == {"fc.weight"}
    assert named_tensors({"fc.weight": weights["4.weight"]}, {"weight": weights["4.weight"]}).keys() == {"weight"}


def test_safetensors(tmp_path: Path, weights: Weights, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_file(weights, tmp_path / "given.safetensors")
    expected = losses_of(run(small_config(weights=str(file)), FakeControl(tmp_path / "pt")))
    monkeypatch.setattr(torch, "__version__", TorchVersion("2.9.1"))
    events = run(small_config(weights=str(tmp_path / "given.safetensors")), FakeControl(tmp_path / "safe"))
    assert losses_of(events) == expected
    sentence = refusal(tmp_path, weights=str(file))
    assert f"weights: {file} is read with torch 2.10 or newer only" in sentence
    assert "this is torch 2.9.1; a .safetensors file is read with any." in sentence


def test_a_checkpoint_of_a_run_is_such_a_file(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path / "first"))
    kept = tmp_path / "first" / of(Checkpoint, events)[-1].path / "model.safetensors"
    tested = of(Eval, events)[-1]
    again = run(small_config(weights=str(kept), lr=1e-30, max_steps=1), FakeControl(tmp_path / "second"))
    assert of(Eval, again)[-1].loss == pytest.approx(tested.loss, rel=1e-5)


def test_what_fits_of_another_network_is_taken_and_the_rest_is_named(
    tmp_path: Path, weights: Weights, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_small, "WiderNet", WiderNet, raising=False)
    control = FakeControl(tmp_path / "run")
    events = run(small_config(weights=str(file), model="engine_small:WiderNet", lr=1e-30, max_steps=1), control)
    [notice] = notices(events)
    assert notice.level == "warning"
    assert notice.text == (
        f"The model begins with 2 of its 6 tensors as in {file}, and with these as drawn: 4.weight ([7, 64], there [4, 64]), "
        "4.bias ([7], there [4]), added.weight (not there) and 1 more."
    )
    export.export_weights(tmp_path / "run", tmp_path / "after.pt")
    after = torch.load(tmp_path / "after.pt")
    torch.testing.assert_close(after["0.weight"], weights["0.weight"])


def test_what_the_model_has_not_is_named(tmp_path: Path, weights: Weights) -> None:
    torch.save(weights | {"aux.weight": torch.zeros(3)}, tmp_path / "more.pt")
    [notice] = notices(run(small_config(weights=str(tmp_path / "more.pt"), max_steps=1), FakeControl(tmp_path / "run")))
    assert notice.text.endswith("more.pt. It has 1 besides that the model has not: aux.weight.")


def test_a_run_that_goes_on_does_without_the_file(tmp_path: Path, file: Path) -> None:
    config = small_config(weights=str(file))
    whole = losses_of(run(config, FakeControl(tmp_path / "whole")))
    control = FakeControl(tmp_path / "run", {5: ["stop"]})
    first = losses_of(run(config, control))
    file.unlink()
    events = go_on(config, FakeControl(tmp_path / "run"))
    assert first | losses_of(events) == whole
    assert notices(events) == []


def test_as_a_script(tmp_path: Path, weights: Weights, file: Path) -> None:
    save_file(weights, tmp_path / "given.safetensors")
    for path in (file, tmp_path / "given.safetensors"):
        text, losses, evals = exported(small_config(weights=str(path), precision="fp64"), tmp_path / path.suffix)
        compare(executed(text), losses, evals, 1e-9, 0.0)


class _Hostile:
    def __init__(self, touched: Path) -> None:
        self.touched = touched

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.touched),)


def test_nothing_but_tensors_is_made_from_a_file(tmp_path: Path) -> None:
    torch.save({"0.weight": _Hostile(tmp_path / "touched")}, tmp_path / "hostile.pt")
    sentence = refusal(tmp_path, weights=str(tmp_path / "hostile.pt"))
    assert f"hostile.pt holds {os.mkdir.__module__}.mkdir, and only tensors are ever made from such a file" in sentence
    assert not (tmp_path / "touched").exists()
    torch.save(engine_small.make_net(None), tmp_path / "whole.pt")
    assert "holds torch.nn.modules.container.Sequential, and only tensors" in refusal(tmp_path, weights=str(tmp_path / "whole.pt"))


@pytest.mark.parametrize(
    ("name", "content", "wrong"),
    [
        ("given.pt", b"junk", "is damaged, or no file of weights; it must be what torch.save(model.state_dict(), …)"),
        ("given.pt", b"", "is damaged, or no file of weights"),
        ("given.safetensors", b"junk", "is damaged, or no file of weights"),
        ("given.safetensors", b"\x02\0\0\0\0\0\0\0[]", "is damaged, or no file of weights"),
        ("given.safetensors", b"\x02\0\0\0\0\0\0\0{}", "holds no tensors by their names"),
    ],
)
def test_a_file_of_something_else_is_a_sentence(tmp_path: Path, name: str, content: bytes, wrong: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert refusal(tmp_path, weights=str(tmp_path / name)).startswith(f"weights: {tmp_path / name} {wrong}")


def test_a_cut_file_is_a_sentence(tmp_path: Path, weights: Weights, file: Path) -> None:
    save_file(weights, tmp_path / "given.safetensors")
    for path in (file, tmp_path / "given.safetensors"):
        path.write_bytes(path.read_bytes()[:-100])
        assert refusal(tmp_path, weights=str(path)).startswith(f"weights: {path} is damaged, or no file of weights")


def test_weights_of_another_network_are_a_sentence(tmp_path: Path, file: Path) -> None:
    sentence = refusal(tmp_path, weights=str(file), model="seed-cnn", data="synthetic")
    begins = "it begins with 0.weight [4, 3, 3, 3], and the model with 0.weight [32, 3, 5, 5]; it must be of such a one."
    assert sentence == f"weights: {file} has nothing that fits the model: {begins}"


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path, file: Path) -> None:
    (tmp_path / "given").mkdir()
    missing = f"weights: the file {tmp_path / 'givn.pt'} does not exist. Did you mean 'given.pt'?"
    assert refusal(tmp_path, weights=str(tmp_path / "givn.pt")) == missing
    folder = f"weights: {tmp_path} is a folder; it must be a file of weights (.pt, .pth or .safetensors), or none."
    assert refusal(tmp_path, weights=str(tmp_path)) == folder
    os.mkfifo(tmp_path / "pipe.pt")
    assert f"{tmp_path / 'pipe.pt'} is no file; it must be" in refusal(tmp_path, weights=str(tmp_path / "pipe.pt"))


def test_a_place_that_no_run_could_name_is_a_sentence(tmp_path: Path, weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd\x1bplace").mkdir()
    monkeypatch.chdir(tmp_path / "odd\x1bplace")
    torch.save(weights, "given.pt")
    sentence = f"weights: '{tmp_path}/odd·place/given.pt' holds control characters; it must be"
    assert refusal(tmp_path, weights="given.pt").startswith(sentence)


def test_a_network_that_refuses_its_weights_is_a_sentence(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise RuntimeError("not now")

    def make(config: Any) -> nn.Module:
        net = engine_small.make_net(config)
        net.register_load_state_dict_pre_hook(refuse)
        return net

    monkeypatch.setattr(engine_small, "make_refusing", make, raising=False)
    with pytest.raises(ConfigError, match=r"^weights: the model does not take those of .*given\.pt: not now\.$"):
        run(small_config(weights=str(file), model="engine_small:make_refusing"), FakeControl(tmp_path / "run"))

"""Optimizers of the person's own: functions of the model, and classes such as those of torch's that are not built in."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import FakeControl, go_on, losses_of, make_images, make_net, of, run, small_config
from test_export_ddp import like_its_run, printed_by
from test_export_script import compare, executed, exported
from torch import Tensor, nn

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine import checkpoint, export
from tuitrain.engine.check import check
from tuitrain.engine.graphs import step_graphs
from tuitrain.engine.models import build_model
from tuitrain.engine.optim import autocast, make_optimizer, update
from tuitrain.engine.strategies.single import Single
from tuitrain.events import Notice, RunEnded

HERE = "test_own_optimizer"


class Lion(torch.optim.Optimizer):
    """Moves by the sign of a mean of gradients (arXiv 2302.06675), which it keeps in double precision."""

    def __init__(self, parameters: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state.update(mean=torch.zeros_like(parameter, dtype=torch.float64), kind="lion", count=0)
                (first, second), mean = group["betas"], state["mean"]
                state["count"] += 1
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                move = (mean * first + parameter.grad * (1 - first)).sign().to(parameter.dtype)
                # In other memory, as some do: nothing may go on with the memory that there was.
                parameter.data = parameter - move * group["lr"]
                mean.mul_(second).add_(parameter.grad, alpha=1 - second)


def make_groups(model: nn.Module, config: RunConfig) -> torch.optim.Optimizer:
    """Weights decay, and the rest learns twice as fast."""
    weights = [one for one in model.parameters() if one.dim() > 1]
    rest = [one for one in model.parameters() if one.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": weights, "weight_decay": 0.1}, {"params": rest, "lr": 2 * config.lr, "weight_decay": 0.0}], config.lr
    )


def make_last(model: nn.Module) -> torch.optim.Optimizer:
    *_, last = model.children()
    return torch.optim.SGD(last.parameters(), lr=0.05, momentum=0.9)


smooth = partial(torch.optim.RMSprop, alpha=0.8)


def make_hooked(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def double(optimizer: torch.optim.Optimizer, *given: Any) -> None:
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad.mul_(2)

    optimizer.register_step_pre_hook(double)
    return optimizer


KINDS: dict[str, tuple[dict[str, Any], Callable[[nn.Module], torch.optim.Optimizer]]] = {
    "torch's class": (
        {"optimizer": "torch.optim:RMSprop", "momentum": 0.5, "weight_decay": 0.01},
        lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5, weight_decay=0.01),
    ),
    "partial": (
        {"optimizer": f"{HERE}:smooth", "weight_decay": 0.01},
        lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, alpha=0.8, weight_decay=0.01),
    ),
    "own class": ({"optimizer": f"{HERE}:Lion", "weight_decay": 0.01}, lambda model: Lion(model.parameters(), lr=0.01, weight_decay=0.01)),
    "groups": ({"optimizer": f"{HERE}:make_groups"}, lambda model: make_groups(model, small_config(lr=0.01))),
    "some parameters": ({"optimizer": f"{HERE}:make_last", "max_grad_norm": 0.3}, make_last),
    "hooked": ({"optimizer": f"{HERE}:make_hooked"}, make_hooked),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def of_kind(kind: str, **changes: Any) -> RunConfig:
    return small_config(**{"lr": 0.01, "precision": "fp64", **KINDS[kind][0], **changes})


def plain(kind: str) -> list[float]:
    """The losses of two epochs of a loop without tuitrain."""
    config, make = of_kind(kind), KINDS[kind][1]
    inputs, labels = make_images(None)[0]
    torch.manual_seed(config.seed)
    model = make_net(None).double()
    optimizer, losses = make(model), []
    for _ in range(2):
        for start in range(0, len(labels), 8):
            loss = nn.functional.cross_entropy(model(inputs[start : start + 8].double() / 255), labels[start : start + 8])
            model.zero_grad()
            loss.backward()
            if config.max_grad_norm is not None:
                trained = [one for group in optimizer.param_groups for one in group["params"]]
                nn.utils.clip_grad_norm_(trained, config.max_grad_norm)
            optimizer.step()
            losses.append(loss.item())
    return losses


def test_a_run_learns_what_a_plain_loop_learns(tmp_path: Path, kind: str) -> None:
    events = run(of_kind(kind), FakeControl(tmp_path))
    assert events[-1] == RunEnded(state="finished", step=14)
    assert list(losses_of(events).values()) == pytest.approx(plain(kind), rel=1e-9)
    left = "The optimizer has 2 of the model's 4 tensors of parameters; 0.weight and 1 more stay as they are."
    assert [notice.text for notice in of(Notice, events)] == ([left] if kind == "some parameters" else [])


def test_replicas_learn_what_one_device_learns(tmp_path: Path, kind: str) -> None:
    one = run(of_kind(kind), FakeControl(tmp_path / "one"))
    three = run(of_kind(kind, device="cpu,cpu,cpu"), FakeControl(tmp_path / "three"))
    assert losses_of(three) == pytest.approx(losses_of(one), rel=1e-9)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("schedule", ["none", "cosine"])
def test_a_run_goes_on_bit_for_bit(tmp_path: Path, kind: str, schedule: str) -> None:
    config = of_kind(kind, precision="fp32", lr_schedule=schedule)
    unbroken = run(config, FakeControl(tmp_path / "unbroken"))
    begun = run(config, FakeControl(tmp_path / "broken", {9: ["stop"]}))
    assert len(losses_of(begun)) == 9
    rest = go_on(config, FakeControl(tmp_path / "broken"))
    assert losses_of(begun) | losses_of(rest) == losses_of(unbroken)


def test_its_state_comes_back_of_the_type_that_it_had(tmp_path: Path) -> None:
    config = of_kind("own class", precision="fp32")
    run(config, FakeControl(tmp_path))
    contents = checkpoint.load(checkpoint.checkpoints(tmp_path / "checkpoints")[-1])
    model = build_model(config)
    optimizer = make_optimizer(config, model)
    checkpoint.restore(contents, model, optimizer, torch.device("cpu"))
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        assert (state["mean"].dtype, state["kind"], state["count"]) == (torch.float64, "lion", 14)
    assert torch.equal(optimizer.state[next(model.parameters())]["mean"], contents.optimizer["0.mean"])


@pytest.mark.parametrize("changes", [{}, {"device": "cpu,cpu"}], ids=["single", "split"])
def test_the_script_learns_it_too(tmp_path: Path, kind: str, changes: dict[str, str]) -> None:
    text, losses, evals = exported(of_kind(kind, max_steps=9, **changes), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 0.0)


def test_the_script_makes_it_as_the_run_did(tmp_path: Path) -> None:
    def line(kind: str) -> str:
        text, *_ = exported(of_kind(kind, epochs=1), tmp_path / kind)
        return "\n".join(re.findall(r"^optimizer = .*|^from .* as make_optimizer", text, re.MULTILINE))

    assert line("torch's class") == "optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5, weight_decay=0.01)"
    own = f"from {HERE} import Lion as make_optimizer\noptimizer = make_optimizer(model.parameters(), lr=0.01, weight_decay=0.01)"
    assert line("own class") == own
    assert line("groups") == f"from {HERE} import make_groups as make_optimizer\noptimizer = make_optimizer(model, config)"
    assert line("some parameters") == f"from {HERE} import make_last as make_optimizer\noptimizer = make_optimizer(model)"


def test_the_script_of_what_was_not_tried_yet(kind: str) -> None:
    text = export.script(of_kind(kind))
    compile(text, "exported.py", "exec")
    if kind == "torch's class":
        assert "optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5, weight_decay=0.01)\n" in text
    else:
        assert "optimizer = make_optimizer(model, config)  # without config, where it takes none\n" in text


def test_ranks_have_it_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]) -> None:
    text, losses, evals, relative, floor = like_its_run(tmp_path, of_kind("some parameters"), monkeypatch)
    assert list(losses.values()) == pytest.approx(plain("some parameters"), rel=1e-9)
    _, printed = printed_by(["", text], tmp_path, free_port)  # the first one cannot import what the tests' own network needs
    compare(printed, losses, evals, relative, floor)


def test_only_updates_of_torchs_own_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(kind: str) -> bool:
        config, card = of_kind(kind, model="seed-cnn", device="cuda:0"), torch.device("cuda:0")
        network = build_model(config)
        single = Single(network, nn.CrossEntropyLoss(), torch.device("cpu"), autocast(config, card))
        optimizer = make_optimizer(config, network)
        return step_graphs(config, single, network, optimizer, update(optimizer), card) is not None

    monkeypatch.setattr("tuitrain.engine.graphs.CudaRecorder", lambda device: None)
    assert {kind for kind in KINDS if asked(kind)} == {"torch's class", "partial", "groups", "some parameters"}


# -- what cannot be trained with -------------------------------------------------------------------------------------------


def make_nothing(model: nn.Module) -> None:
    pass


def make_without_model() -> None:
    raise AssertionError


def make_failing(model: nn.Module) -> torch.optim.Optimizer:
    raise RuntimeError("not today")


def make_for_another(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(make_net(None).parameters(), lr=0.1)


def make_with_tensor(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))


def make_with_infinity(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups[0]["most"] = float("inf")
    return optimizer


def make_with_weights(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups[0]["weights"] = torch.ones(2)
    return optimizer


class Secret(torch.optim.SGD):
    def state_dict(self) -> Any:
        raise RuntimeError("nobody may know")


class Remembering(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["seen"] = {1, 2}


class OfTwoAxes(torch.optim.SGD):
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        raise RuntimeError("only of two axes")


class WithoutRate(torch.optim.Optimizer):
    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})


def make_again(model: nn.Module) -> torch.optim.Optimizer:
    return Lion(model.parameters(), lr=0.01)


a_number = 3
WANTED = "it must be a function make_optimizer(model, config), or a class of torch.optim.Optimizer"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"optimizer": f"{HERE}:make_nothing"}, f"'{HERE}:make_nothing' returned a NoneType; it must return a torch.optim.Optimizer."),
        ({"optimizer": f"{HERE}:make_without_model"}, f"'{HERE}:make_without_model' cannot be called with a model; {WANTED}."),
        ({"optimizer": f"{HERE}:make_failing"}, f"'{HERE}:make_failing' raised RuntimeError: not today ({HERE}.py, line "),
        (
            {"optimizer": f"{HERE}:make_for_another"},
            "gives an optimizer of other parameters than those of the model that it is called with, which alone is trained.",
        ),
        ({"optimizer": f"{HERE}:make_with_tensor"}, "gives an optimizer with parameters that have no number as their lr."),
        (
            {"optimizer": f"{HERE}:make_with_infinity"},
            "keeps most, which is inf, and a checkpoint holds dense tensors of parameters, finite numbers and text.",
        ),
        (
            {"optimizer": f"{HERE}:make_with_weights"},
            "keeps weights, which is a Tensor, and a checkpoint holds dense tensors of parameters,",
        ),
        ({"optimizer": f"{HERE}:Remembering"}, "keeps seen, which is a set, and a checkpoint holds dense tensors of parameters, finite"),
        ({"optimizer": f"{HERE}:Secret"}, f"gives no state that could be kept: RuntimeError: nobody may know ({HERE}.py, line "),
        ({"optimizer": f"{HERE}:OfTwoAxes"}, f"cannot do a step: RuntimeError: only of two axes ({HERE}.py, line "),
        ({"optimizer": f"{HERE}:WithoutRate"}, f"optimizer: the class '{HERE}:WithoutRate' takes no lr; a function make_optimizer("),
        ({"optimizer": f"{HERE}:a_number"}, f"optimizer: '{HERE}:a_number' is a int; it must be a function."),
        ({"optimizer": f"{HERE}:make_agan"}, f"the module {HERE} has no 'make_agan'. Did you mean 'make_again'?"),
        (
            {"optimizer": "torch.optim:LBFGS"},
            "asks for a closure, which computes the loss anew within a step; here a step computes it once.",
        ),
        (
            {"optimizer": "torch.optim:SparseAdam"},
            "'torch.optim:SparseAdam' cannot do a step: RuntimeError: SparseAdam does not support dense",
        ),
        ({"optimizer": "torch.optim.lr_scheduler:StepLR"}, f"'torch.optim.lr_scheduler:StepLR' is no class of optimizers; {WANTED}."),
        (
            {"optimizer": "torch.optim:Adagrad", "momentum": 0.9},
            "momentum: 0.9 is nothing that the optimizer 'torch.optim:Adagrad' takes; it must be 0.0.",
        ),
        (
            {"optimizer": "torch.optim:RMSprop", "momentum": 0.9, "nesterov": True},
            "nesterov: true is nothing that the optimizer 'torch.optim:RMSprop' takes; it must be false.",
        ),
    ],
)
def test_what_cannot_be_trained_with_is_one_sentence(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        run(small_config(**changes), FakeControl(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert said in str(error.value)
    assert str(error.value).count("\n") == 0


@pytest.mark.parametrize("optimizer", [f"{HERE}:make_failing", f"{HERE}:OfTwoAxes", "torch.optim:LBFGS"])
def test_a_run_for_the_queue_is_refused_for_it(optimizer: str) -> None:
    with pytest.raises(ConfigError, match=f"optimizer: '{optimizer}'"):
        check(small_config(model="seed-cnn", data="synthetic", optimizer=optimizer))


def test_a_model_that_cannot_be_copied_trains_all_the_same(tmp_path: Path) -> None:
    config = of_kind("groups", model=f"{HERE}:make_uncopied")
    assert run(config, FakeControl(tmp_path))[-1] == RunEnded(state="finished", step=14)


class Uncopied(nn.Linear):
    def __deepcopy__(self, memo: Any) -> nn.Module:
        raise TypeError("cannot pickle a lock")

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.flatten(1))


def make_uncopied() -> nn.Module:
    return Uncopied(192, 4)

"""Exported scripts of several devices, and of the models that read sequences: executed, and compared with the run."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import engine_small
import msgspec
import pytest
import torch
from engine_small import FakeControl, run, small_config
from test_export_script import compare, executed, exported

from tuitrain.config import RunConfig, with_changes
from tuitrain.engine import export
from tuitrain.recipes import load_recipe

STARTED = msgspec.structs.replace(engine_small.STARTED, device=("cuda:0", "cuda:1"), strategy="dp")


@pytest.fixture(autouse=True)
def order_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a script says of it when it is executed here must not outlive the test."""
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cpu,cpu", "precision": "fp64", "momentum": 0.9, "shuffle": True},
        {"device": "cpu,cpu,cpu", "precision": "fp64", "optimizer": "adam", "max_steps": 10},
        {"device": "cpu,cpu,cpu", "model": "engine_small:make_dropout_net", "batch_size": 10},
        {"device": "cpu,cpu", "precision": "bf16"},
    ],
    ids=["momentum", "idle", "dropout", "bf16"],
)
def test_the_split_by_hand(tmp_path: Path, changes: Any) -> None:
    text, losses, evals = exported(small_config(**changes), tmp_path)
    relative, floor = (1e-9, 0.0) if changes.get("precision") == "fp64" else (2e-4, 0.1)
    compare(executed(text), losses, evals, relative, floor)
    assert "models = " not in text, "on one device there is nothing to copy"


@pytest.mark.parametrize("model", ["rnn", "transformer"])
@pytest.mark.parametrize(("device", "batch_dim"), [("cpu", 0), ("cpu", 1), ("cpu,cpu,cpu", 1), ("cpu,cpu,cpu", 0)])
def test_networks_that_read_rows(tmp_path: Path, model: str, device: str, batch_dim: int) -> None:
    changes = {"model": model, "batch_dim": batch_dim, "data": "engine_small:make_large_images", "precision": "fp64", "device": device}
    text, losses, evals = exported(small_config(**changes), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 0.0)


def test_a_split_over_gpus_runs_on_a_machine_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With copies: the parts of the script that move parameters and gradients between them run here too, on two names of the CPU."""
    config = small_config(precision="fp64", momentum=0.9, model="engine_small:make_log_net")
    text, losses, evals = exported(config, tmp_path)
    split = with_changes(config, {"device": "cuda:0,cuda:1,cuda:0", "strategy": "split"})
    text = export.script(split, STARTED)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    compare(executed(text), losses, evals, 1e-9, 0.0)
    # "cpu" and "cpu:0" are the same memory to torch, and two devices to the script.
    text = text.replace('["cpu", "cpu", "cpu"]', '["cpu", "cpu:0", "cpu"]')
    compare(executed(text), losses, evals, 1e-9, 0.0)


def gpus(**changes: Any) -> RunConfig:
    return small_config(device="cuda:0,cuda:1", strategy="dp", **changes)


def test_tf32_is_set_where_there_are_gpus() -> None:
    line = 'torch.set_float32_matmul_precision("high")'
    for config, there in ((gpus(precision="tf32"), True), (gpus(), False), (small_config(precision="tf32"), False)):
        assert (line in export.script(config, STARTED)) == there


@pytest.mark.skipif(torch.cuda.is_available(), reason="what the script does where there is no GPU")
@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"precision": "fp64", "momentum": 0.9}, "model = nn.DataParallel(model, device_ids=devices)"),
        ({"precision": "bf16"}, "model = nn.DataParallel(model, device_ids=devices)"),
        (
            {
                "precision": "fp64",
                "model": "rnn",
                "batch_dim": 1,
                "data": "engine_small:make_large_images",
                "dropout": 0.0,
                "output_device": "cuda:1",
            },
            "model = GatheringParallel(model, device_ids=devices, output_device=devices[1], dim=1)",
        ),
    ],
    ids=["fp64", "bf16", "rnn"],
)
def test_data_parallel(tmp_path: Path, changes: Any, line: str) -> None:
    """nn.DataParallel is the plain model where there is no GPU, so the script must do there what one device does."""
    on_cpu = {name: value for name, value in changes.items() if name != "output_device"}
    _, losses, evals = exported(small_config(**on_cpu), tmp_path)
    text = export.script(gpus(**changes), STARTED)
    assert line in text.splitlines()
    relative, floor = (1e-9, 0.0) if changes["precision"] == "fp64" else (2e-4, 0.1)
    compare(executed(text), losses, evals, relative, floor)


def test_a_script_says_that_its_run_had_trained_with_something_else() -> None:
    config = small_config(device="cpu,cpu")
    plain = export.script(config, STARTED, {"threads": 2})
    text = export.script(config, STARTED, {"threads": 2, "trained_before": "single on cpu up to step 30"})
    title, said, and_so, rest = text.split("\n", 3)
    assert said == "# It had trained with single on cpu up to step 30."
    assert "not quite the run's" in and_so
    assert f"{title}\n{rest}" == plain


def test_a_resnet_script_imports_torchvision() -> None:
    config = with_changes(load_recipe("resnet18"), {"device": "cpu", "data": "synthetic"})
    text = export.script(config, msgspec.structs.replace(STARTED, data="synthetic"))
    compile(text, "exported.py", "exec")
    assert "model = resnet18().to(device)" in text
    assert re.search(r"^import torchvision$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("device", "strategy"),
    [
        ("cpu", "single"),
        ("cuda:0", "single"),
        ("cuda:1", "single"),
        ("cuda:0,cuda:3", "split"),
        ("cuda:0,cuda:3", "ddp"),
        ("cpu,cpu", "ddp"),
    ],
)
def test_other_gpus_than_the_first_are_numbered_as_in_the_run(monkeypatch: pytest.MonkeyPatch, device: str, strategy: str) -> None:
    text = export.script(small_config(device=device, strategy=strategy), STARTED)
    assert ("CUDA_DEVICE_ORDER" in text) == ("cuda:1" in device or "cuda:3" in device)
    if "CUDA_DEVICE_ORDER" not in text:
        return
    # Before the first word to CUDA: what it finds then is what counts.
    monkeypatch.delenv("CUDA_DEVICE_ORDER")
    asked: list[str | None] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: asked.append(os.environ.get("CUDA_DEVICE_ORDER")))
    monkeypatch.setitem(os.environ, "LOCAL_RANK", "0")
    start = text[: text.index("device = ")] + text[text.index("device = ") :].partition("\n")[0]
    exec(compile(start, "exported.py", "exec", dont_inherit=True), {})
    assert set(asked) == {"PCI_BUS_ID"}


def test_what_a_run_says_of_its_devices_comes_back_from_its_configuration(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    run(small_config(device="cpu,cpu", epochs=1), control)
    assert control.resolved is not None
    assert 'names = ["cpu", "cpu"]' in export.script(control.resolved, STARTED)

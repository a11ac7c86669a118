"""Exported scripts of the strategy ddp: started by torchrun, and compared with the runs that they are of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_small import FakeControl, losses_of, of, run, small_config
from test_export_devices import STARTED
from test_export_script import compare, executed, exported

from tuitrain.config import ConfigError, RunConfig, with_changes
from tuitrain.engine import export
from tuitrain.engine.train import train
from tuitrain.events import Eval, Event, RunStarted
from tuitrain.paths import CIFAR10_BATCHES, CIFAR10_FOLDER
from tuitrain.recipes import load_recipe
from tuitrain.session.control import Control
from tuitrain.session.elastic import elastic_train

HERE = Path(__file__).parent
RANKS = 2
# Three processes import torch, on a machine that other tests keep busy.
BOUND = 240

# What torchrun starts: it runs one exported script after the other. The first one has no tuitrain to import (the tests' own models need
# one), and the environment as torchrun makes it; each later one gets a meeting place of its own. Ranks that hang or abort say where.
DRIVER = """
import faulthandler, json, os, runpy, sys
faulthandler.enable()
faulthandler.dump_traceback_later(int(sys.argv[2]), exit=True)
sys.modules["tuitrain"] = None
for path, port in json.loads(sys.argv[1]):
    if port:
        if sys.modules.get("tuitrain", 0) is None:
            del sys.modules["tuitrain"]
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), TORCHELASTIC_USE_AGENT_STORE="False")
    if os.environ["RANK"] == "0":
        print(f"== {path}")
    runpy.run_path(path, run_name="__main__")
"""

Expected = tuple[str, dict[int, float], list[Eval], float, float]
"""A script; the losses and evaluations to find in what it prints; the relative difference that is allowed, and of how small a loss."""


def printed_by(scripts: list[str], folder: Path, free_port: Callable[[], int]) -> list[str]:
    """What rank 0 prints in each of the scripts, all of them started by one torchrun."""
    plan = []
    for number, text in enumerate(scripts):
        path = folder / f"script{number}.py"
        path.write_text(text)
        plan.append((str(path), free_port() if number else 0))
    driver = folder / "driver.py"
    driver.write_text(DRIVER)
    launch = ["--master-addr", "127.0.0.1", "--master-port", str(free_port()), "--nproc-per-node", str(RANKS)]
    launch += ["--log-dir", str(folder / "logs")]
    command = [sys.executable, "-m", "torch.distributed.run", *launch, str(driver), json.dumps(plan), str(BOUND)]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND + 60, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    pieces = done.stdout.split("== ")[1:]
    assert len(pieces) == len(scripts)
    return pieces


def spread_over_ranks(config: RunConfig) -> RunConfig:
    return with_changes(config, {"device": ",".join(["cpu"] * RANKS), "strategy": "ddp"})


def like_another(folder: Path, config: RunConfig, relative: float = 1e-9, floor: float = 0.0, device: str | None = None) -> Expected:
    """The script of a ddp run, and what the same run does with the strategy of `config`, in one process."""
    control = FakeControl(folder)
    events = run(config, control)
    assert control.resolved is not None
    spread = spread_over_ranks(control.resolved)
    if device is not None:
        spread = with_changes(spread, {"device": device})
    text = export.script(spread, of(RunStarted, events)[0], {"threads": 1})
    return text, losses_of(events), of(Eval, events), relative, floor


def like_its_run(folder: Path, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> Expected:
    """The script of a ddp run, and what that run did on torch's elastic launcher."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    control = Control(list)
    # A lower priority would be handed on to all that the tests start later.
    control.placed = lambda devices: None  # type: ignore[method-assign]
    spread = partial(elastic_train, agent="tuitrain.engine.ranks.agent", rank="tuitrain.engine.ranks.rank")
    events: list[Event] = []
    for event in train(spread_over_ranks(config), control, spread=spread):
        if isinstance(event, RunStarted):
            control.folder = folder
        events.append(event)
    assert control.resolved is not None
    text = export.script(control.resolved, of(RunStarted, events)[0], control.environment)
    return text, losses_of(events), of(Eval, events), 1e-9, 0.0


def test_torchrun_does_what_the_run_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]) -> None:
    """Uneven parts, a rank without any, dropout, a batch axis of 1, bf16, no test set, and GPUs on a machine without."""
    cases: dict[str, Expected] = {}

    def add(name: str, make: Any, config: RunConfig, *more: Any, **settings: Any) -> None:
        cases[name] = make(tmp_path / name, config, *more, **settings)

    (tmp_path / "work").mkdir()
    add("random-linear", like_another, with_changes(load_recipe("random-linear"), {"device": "cpu", "precision": "fp64", "epochs": 2}))
    # 50 samples in batches of 7: parts of 4 and 3, and in the last batch one of 1.
    shuffled = {"batch_size": 7, "precision": "fp64", "momentum": 0.9, "shuffle": True, "augment": "crop-flip"}
    add("idle", like_another, small_config(**shuffled))
    add("on-gpus", like_another, small_config(precision="fp64", max_steps=9), device="cuda:0,cuda:2")
    add("no-test", like_another, small_config(data="engine_small:make_images_without_test", precision="fp64", max_steps=10))
    add("bf16", like_another, small_config(precision="bf16", device="cpu,cpu"), 2e-4, 0.1)
    rows = {"model": "rnn", "batch_dim": 1, "dropout": 0.0, "data": "engine_small:make_large_images", "precision": "fp64"}
    add("rnn", like_another, small_config(**rows))
    dropping = {"model": "engine_small:make_dropout_net", "precision": "fp64", "batch_size": 10}
    add("dropout", like_its_run, small_config(**dropping), monkeypatch)

    printed = printed_by([text for text, *_ in cases.values()], tmp_path / "work", free_port)
    for (name, (text, losses, evals, relative, floor)), output in zip(cases.items(), printed, strict=True):
        assert "import tuitrain" not in text
        try:
            compare(output, losses, evals, relative, floor)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}\n{text}\n{output}") from error


def test_the_script_says_how_to_start_it() -> None:
    config = with_changes(load_recipe("multi-gpu"), {"device": "cuda:1,cuda:3", "strategy": "ddp", "data": "cifar10"})
    lines = export.script(config, msgspec.structs.replace(STARTED, data="cifar10")).splitlines()
    compile("\n".join(lines), "exported.py", "exec")
    assert "#     torchrun --standalone --nproc-per-node 2 SCRIPT.py" in lines
    assert 'device = torch.device(["cuda:1", "cuda:3"][local_rank] if torch.cuda.is_available() else "cpu")' in lines
    assert 'dist.init_process_group("nccl" if device.type == "cuda" else "gloo")' in lines
    assert any(line.startswith('sums = dist.new_group() if device.type == "cpu" else None  # ') for line in lines)
    assert lines[-2:] == ["del sums", "dist.destroy_process_group()"]


def test_several_machines_meet_at_one() -> None:
    several = {"device": "cpu,cpu", "strategy": "ddp", "data": "synthetic", "nnodes": "2:3", "rdzv_endpoint": "box:29400"}
    text = export.script(with_changes(load_recipe("seed-cnn"), several))
    assert text.splitlines()[-2:] == ["del sums", "dist.destroy_process_group()"]
    assert "dist.all_reduce(loss, group=sums)" in text
    assert "torchrun --nnodes 2:3 --rdzv-backend c10d --rdzv-endpoint box:29400 --nproc-per-node 2 SCRIPT.py" in text


def test_one_rank_of_a_machine_downloads() -> None:
    config = spread_over_ranks(with_changes(load_recipe("seed-cnn"), {"data": "cifar10"}))
    text = export.script(config)
    assert "if local_rank == 0 and not folder.is_dir():\n    import torchvision\n" in text
    assert text.index("torchvision.datasets") < text.index("dist.barrier()") < text.index("= load_cifar10(folder)")


# -- before there is a run --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"data": "random", "model": "linear"}, {"data": "synthetic", "model": "seed-cnn", "max_steps": 1}])
def test_a_script_before_any_run_is_that_of_the_run(tmp_path: Path, changes: Any) -> None:
    config = small_config(**changes, device="cpu,cpu", batch_size=100)
    control = FakeControl(tmp_path)
    events = run(config, control)
    assert control.resolved is not None
    assert export.script(with_changes(config, {"strategy": "split"})) == export.script(control.resolved, of(RunStarted, events)[0])


def test_a_script_before_any_run_looks_at_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = with_changes(load_recipe("seed-cnn"), {"device": "cpu", "strategy": "single"})
    assert "synthetic_images()" in export.script(config)
    (tmp_path / "images" / "train").mkdir(parents=True)
    text = export.script(with_changes(config, {"data": "images"}))
    assert f'folder = Path("{tmp_path}/images")' in text
    assert "load_images(folder" in text
    for folder in (tmp_path / "data" / CIFAR10_FOLDER, tmp_path / "batches"):
        folder.mkdir(parents=True)
        for name in CIFAR10_BATCHES:
            (folder / name).touch()
    assert 'folder = Path("data/cifar-10-batches-py")' in export.script(config)
    assert "load_cifar10(folder)" in export.script(with_changes(config, {"data": str(tmp_path / "batches")}))
    with pytest.raises(ConfigError, match=r"data: the folder .*/nowhere does not exist"):
        export.script(with_changes(config, {"data": "./nowhere"}))


@pytest.mark.parametrize("data", ["make_images", "make_images_without_test"])
def test_own_data_before_any_run_decides_by_itself_whether_it_is_tested(tmp_path: Path, data: str) -> None:
    config = small_config(data=f"engine_small:{data}", precision="fp64", max_steps=9)
    _, losses, evals = exported(config, tmp_path)
    compare(executed(export.script(with_changes(config, {"strategy": "single"}))), losses, evals, 1e-9, 0.0)

"""The loop on a real NVIDIA GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_small
import msgspec
import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config
from torch import nn

from tuitrain.devices.samples import DeviceSample, ProcessSample
from tuitrain.devices.split import OwnMemory, split_memory
from tuitrain.events import Eval, Notice, Predictions, Replicas, RunEnded, TensorMemory

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


def test_a_gpu_learns_what_the_cpu_learns(tmp_path: Path) -> None:
    on_cpu = losses_of(run(small_config(precision="fp64"), FakeControl(tmp_path / "cpu")))
    on_gpu = losses_of(run(small_config(precision="fp64", device="cuda:0"), FakeControl(tmp_path / "gpu")))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-9)


def test_what_a_file_gives_it_begins_with_there_too(tmp_path: Path) -> None:
    torch.manual_seed(40)
    torch.save(engine_small.make_net(None).state_dict(), tmp_path / "given.pt")
    config = small_config(precision="fp64", weights=str(tmp_path / "given.pt"))
    on_cpu = run(config, FakeControl(tmp_path / "cpu"))
    on_gpu = run(msgspec.structs.replace(config, device="cuda:0"), FakeControl(tmp_path / "gpu"))
    assert losses_of(on_gpu) == pytest.approx(losses_of(on_cpu), rel=1e-9)
    pictures = [{one.index: one.image for one in of(Predictions, events)[-1].samples} for events in (on_cpu, on_gpu)]
    assert pictures[0] == pictures[1]
    assert None not in pictures[0].values()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shuffle": True, "augment": "crop-flip"},
        {"shuffle": True, "augment": "flip-shift", "tta": True},
        {"shuffle": True, "data": "engine_small:make_floats", "batch_dim": 1, "model": "test_gpu:make_second_axis"},
        {"data": "engine_small:make_large_images", "model": "seed-cnn", "epochs": 8},
    ],
    ids=["plain", "shuffled", "moved", "floats", "replayed"],
)
def test_samples_that_would_fill_the_gpu_stay_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    config = small_config(device="cuda:0", **changes)
    there = run(config, FakeControl(tmp_path / "there"))
    monkeypatch.setattr("tuitrain.engine.datasets.home.SHARE", 0)
    here = run(config, FakeControl(tmp_path / "here"))
    assert losses_of(here) == losses_of(there)
    assert [one.loss for one in of(Eval, here)] == [one.loss for one in of(Eval, there)]
    assert of(Predictions, here)[-1] == of(Predictions, there)[-1]
    said = [[one.text for one in of(Notice, events) if "stay in this machine's memory" in one.text] for events in (there, here)]
    assert said[0] == []
    assert [bool(re.fullmatch(STAYS, text)) for text in said[1]] == [True], said


STAYS = r"The samples take \S+ \wiB, and \S+ \wiB are free on cuda:0: they stay in this machine's memory, and each batch is copied.*"


def test_samples_that_are_read_while_it_trains_are_those_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    config = small_config(device="cuda:0", data="drawn_sets:make_image_tests", shuffle=True, augment="crop-flip")
    there = run(config, FakeControl(tmp_path / "there"))
    monkeypatch.setattr("tuitrain.engine.datasets.torch_dataset.free_memory", lambda: 300)
    read = run(config, FakeControl(tmp_path / "read"))
    assert losses_of(read) == losses_of(there)
    assert [one.loss for one in of(Eval, read)] == [one.loss for one in of(Eval, there)]
    assert of(Predictions, read)[-1] == of(Predictions, there)[-1]
    assert len([one for one in of(Notice, read) if "anew in each" in one.text]) == 2


def test_samples_that_are_drawn_are_the_same_on_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    config = small_config(precision="fp64", data="drawn_sets:make_images")
    on_cpu = losses_of(run(config, FakeControl(tmp_path / "cpu")))
    on_gpu = losses_of(run(msgspec.structs.replace(config, device="cuda:0"), FakeControl(tmp_path / "gpu")))
    assert on_gpu == pytest.approx(on_cpu, rel=1e-9)


def make_second_axis(config: Any) -> nn.Module:
    """Takes the samples on the second axis."""
    net = engine_small.make_net(config)
    net.register_forward_pre_hook(lambda module, inputs: (inputs[0].movedim(1, 0),))
    return net


def test_a_sample_on_the_host_that_holds_no_number_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuitrain.engine.datasets.home.SHARE", 0)
    events = run(small_config(device="cuda:0", data="engine_small:make_holed", shuffle=True), FakeControl(tmp_path))
    assert "the inputs of training sample 21, counted from 0, hold a nan" in of(RunEnded, events)[0].error


def test_the_same_seed_gives_the_same_losses_bit_for_bit(tmp_path: Path) -> None:
    first, second = (losses_of(run(small_config(device="cuda:0"), FakeControl(tmp_path / name))) for name in ("a", "b"))
    assert first == second


def test_the_replica_and_the_end_name_the_gpu(tmp_path: Path) -> None:
    events = run(small_config(device="auto"), FakeControl(tmp_path))
    assert of(Replicas, events)[0].replicas[0].device == "cuda:0"
    assert of(RunEnded, events)[0].state == "finished"


def test_torchs_memory_fits_into_what_the_driver_says_of_this_process(tmp_path: Path) -> None:
    pynvml = pytest.importorskip("pynvml")
    newest = of(TensorMemory, run(small_config(device="cuda:0"), FakeControl(tmp_path)))[-1]
    assert newest.device == "cuda:0"
    assert 0 < newest.allocated <= newest.reserved
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(newest.uuid)
    used = pynvml.nvmlDeviceGetMemoryInfo(handle).used
    assert newest.reserved < used
    listed = [
        ProcessSample(pid=one.pid, name=None, user=None, memory=one.usedGpuMemory)
        for one in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    ]
    held = OwnMemory(allocated=torch.cuda.memory_allocated(0), reserved=torch.cuda.memory_reserved(0))
    split = split_memory(DeviceSample(nvml_index=0, memory_used=used, processes=tuple(listed)), held, os.getpid())
    assert split is not None
    if any(one.pid == os.getpid() and one.memory is not None for one in listed):
        # A context without kernels is some hundred MiB on every card since Volta.
        assert split.context is not None
        assert 50 * 2**20 < split.context < 4 * 2**30


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")
def test_a_run_on_the_second_gpu_leaves_no_context_on_the_first(tmp_path: Path) -> None:
    # Of its own contexts alone: other processes come and go on the card meanwhile.
    program = (
        "import ctypes; from pathlib import Path; from engine_small import FakeControl, run, small_config\n"
        f"run(small_config(device='cuda:1'), FakeControl(Path({str(tmp_path)!r})))\n"
        "driver = ctypes.CDLL('libcuda.so.1')\n"
        "def has_context(ordinal):\n"
        "    device, flags, active = ctypes.c_int(), ctypes.c_uint(), ctypes.c_int()\n"
        "    assert driver.cuDeviceGet(ctypes.byref(device), ordinal) == 0\n"
        "    assert driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0\n"
        "    return active.value\n"
        "print(has_context(0), has_context(1))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    assert done.stdout.split() == ["0", "1"]


_SESSION = """
import sys
from pathlib import Path
from tuitrain.config import with_changes
from tuitrain.recipes import load_recipe
from tuitrain.session.worker import WorkerSession

def load_train():
    from tuitrain.engine.train import train
    return train

session = WorkerSession(load_train, Path(sys.argv[1]), list)
for model in ("seed-cnn", "held_nets:NET"):
    session.start(with_changes(load_recipe("seed-cnn"), {"model": model, "device": "cuda:0", "data": "synthetic", "max_steps": 20}))
    assert session.join(300)
    assert session.record.state == "finished", session.record.error or session.refusal
    import torch
    assert torch.cuda.memory_reserved(0) == 0, model
"""


def test_a_run_leaves_nothing_on_its_gpu_but_the_context(tmp_path: Path) -> None:
    """Nor where the network stands in a module."""
    (tmp_path / "held_nets.py").write_text("from torch import nn\nNET = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))\n")
    command = [sys.executable, "-c", _SESSION, str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr

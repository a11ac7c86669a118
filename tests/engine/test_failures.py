"""What is said of errors that torch raises on a GPU, in their own words."""

from __future__ import annotations

import bdb
import io
import pdb
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from engine_small import FakeControl, go_on, run, small_config
from torch import nn

from tuitrain.config import ConfigError
from tuitrain.engine import prepare
from tuitrain.engine.datasets import home as data_home
from tuitrain.engine.failures import breaks_cuda, describe, is_of_the_device, is_out_of_memory, unusable
from tuitrain.engine.group import is_lost_peer
from tuitrain.engine.ranks.world import World
from tuitrain.engine.run import Run
from tuitrain.engine.train import train
from tuitrain.events import RunEnded

NCCLS_OWN = (
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:77, unhandled {} (run with NCCL_DEBUG=INFO for details), "
    "NCCL version 2.27.5\n{}\nLast error:\n{}"
)
"""As torch's getNcclErrorDetailStr puts it."""
OF_THE_SYSTEM = "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. "
OF_A_PEER = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
OF_USAGE = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library."
OF_ITSELF = "ncclInternalError: Internal check failed."

FULL = [
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
    "CUDA driver error: out of memory",
    "HIP error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "cusolver error: CUSOLVER_STATUS_NOT_INITIALIZED, when calling `cusolverDnCreate(handle)`",
    "CUDA error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    NCCLS_OWN.format("cuda error", "ncclUnhandledCudaError: Call to CUDA function failed.", "Cuda failure 2 'out of memory'"),
    NCCLS_OWN.format("cuda error", "ncclUnhandledCudaError: Call to CUDA function failed.", "Cuda failure 'out of memory'"),
    "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.",
]


@pytest.mark.parametrize("text", FULL)
def test_a_full_device_is_one_whoever_says_so(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))
    said = describe(RuntimeError(text), "training", "cuda:0")
    assert said.startswith("cuda:0 ran out of memory while training; a smaller batch_size needs less (")
    assert "\n" not in said


def test_of_torch_s_words_about_a_full_gpu_those_about_its_own_cache_are_left_out() -> None:
    whole = (
        "CUDA out of memory. Tried to allocate 128.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 66.73 MiB is free. "
        "Process 4321 has 78.00 GiB memory in use. Of the allocated memory 93.39 MiB is allocated by PyTorch, and 30.61 MiB is reserved by "
        "PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        "to avoid fragmentation.  See documentation for Memory Management"
    )
    assert describe(torch.OutOfMemoryError(whole), "training", "cuda:0") == (
        "cuda:0 ran out of memory while training; a smaller batch_size needs less (CUDA out of memory. Tried to allocate 128.00 MiB. "
        "GPU 0 has a total capacity of 79.10 GiB of which 66.73 MiB is free. Process 4321 has 78.00 GiB memory in use)."
    )


@pytest.mark.parametrize(
    "text", ["GET was unable to find an engine to execute this computation", "Unable to find a valid cuDNN algorithm to run convolution"]
)
def test_where_cudnn_knows_no_way_the_run_says_what_may_help(text: str) -> None:
    error = RuntimeError(text)
    advice = "free memory there, take a smaller batch_size or, on a card that has no bf16, the precision fp32."
    assert describe(error, "training", "cuda:0") == f"cuDNN cannot convolve on cuda:0 while training ({text}); {advice}"
    assert str(unusable(error, [torch.device("cuda:0")])) == f"device: cuDNN cannot convolve on cuda:0 ({text}); {advice}"
    assert is_of_the_device(error), "it is not the model that does not fit the data"
    assert not is_out_of_memory(error)


@pytest.mark.parametrize("text", ["CUDA error: device-side assert triggered", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "out of range"])
def test_other_errors_do_not_speak_of_memory(text: str) -> None:
    assert not is_out_of_memory(RuntimeError(text))
    assert "memory" not in describe(RuntimeError(text), "training", "cuda:0")


def test_a_model_that_gives_no_gradient_is_told_so_and_not_in_autograds_words() -> None:
    with pytest.raises(RuntimeError) as error:
        torch.ones(3).sum().backward()
    said = describe(error.value, "training", "cpu")
    assert said.startswith("no gradient comes back to the model while training: its scores were computed under torch.no_grad()")
    assert "grad_fn" not in said


def test_a_debugger_without_a_keyboard_is_told_where_it_has_one() -> None:
    def forward() -> str:
        pdb.Pdb(stdin=io.StringIO(), stdout=io.StringIO(), readrc=False).set_trace()
        return "where it stops"

    with pytest.raises(bdb.BdbQuit) as error:
        forward()
    assert describe(error.value, "training", "cpu").startswith(
        "BdbQuit while training: a debugger was left; it has a keyboard only with `tuitrain run` in a terminal (test_failures.py, line "
    )


# -- Where it was ---------------------------------------------------------------------------------------------------------

NETS = """import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, reason):
        super().__init__()
        self.reason, self.head, self.seen = reason, nn.Linear(192, 4), 0
    def forward(self, x):
        self.seen += self.training
        return getattr(self, self.reason)(x.flatten(1)) if self.seen > 4 or self.reason == "at_once" else self.head(x.flatten(1))
    def misfit(self, x):
        return self.head(x[:, 1:])
    def at_once(self, x):
        return self.head(x[:, 1:])
    def weights(self, x):
        self.head.load_state_dict({"other": torch.ones(1)})
def make_net(reason):
    return lambda config: Net(reason)
misfit, at_once, weights = make_net("misfit"), make_net("at_once"), make_net("weights")
"""
CAUGHT = (
    "Caught RuntimeError in replica 1 on device 1.\nOriginal Traceback (most recent call last):\n"
    '  File "/opt/lib/site-packages/torch/nn/parallel/parallel_apply.py", line 97, in _worker\n    output = module(*input, **kwargs)\n'
    '  File "/home/ann/nets.py", line 12, in forward\n    return self.head(x)\n           ^^^^\n'
    '  File "/opt/lib/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear(input)\n'
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied\n(really)\n"
)


def _misfit_in_torchs_words() -> str:
    """What torch says of 8 rows of 191 for a layer of 192, which is not the same in all releases."""
    with pytest.raises(RuntimeError) as error:
        nn.Linear(192, 4)(torch.zeros(8, 191))
    return str(error.value)


@pytest.fixture
def own_nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module with a person's own networks, in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_nets_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(NETS)
    return name


@pytest.mark.parametrize(
    ("reason", "line", "layer", "said"),
    [
        (
            "misfit",
            11,
            "layer 'head', Linear, got [8, 191]; ",
            f"RuntimeError while training: {_misfit_in_torchs_words()}",
        ),
        (
            "weights",
            15,
            "",
            "RuntimeError while training: Error(s) in loading state_dict for Linear: "
            'Missing key(s) in state_dict: "weight", "bias". Unexpected key(s) in state_dict: "other"',
        ),
    ],
)
def test_of_the_lines_that_led_to_an_error_the_last_of_the_persons_own_is_told(
    tmp_path: Path, own_nets: str, reason: str, line: int, layer: str, said: str
) -> None:
    end = run(small_config(model=f"{own_nets}:{reason}"), FakeControl(tmp_path / "run"))[-1]
    assert isinstance(end, RunEnded)
    assert end.error == f"step {end.step}: {said} ({layer}{own_nets}.py, line {line})."
    assert end.step > 1


def test_a_model_that_does_not_take_the_data_is_told_with_its_line(tmp_path: Path, own_nets: str) -> None:
    text = refusal(small_config(model=f"{own_nets}:at_once"), tmp_path)
    said = "mat1 and mat2 shapes cannot be multiplied (2x191 and 192x4)"
    assert text.endswith(f"{said} (layer 'head', Linear, got [2, 191]; {own_nets}.py, line 13).")


def test_an_error_from_a_thread_of_data_parallel_is_told_as_it_was_there() -> None:
    said = describe(RuntimeError(CAUGHT), "training", "cuda:0")
    assert said == "RuntimeError while training: mat1 and mat2 shapes cannot be multiplied (nets.py, line 12)."


# -- NCCL's ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "meaning", "reason"),
    [
        (
            "system error",
            OF_THE_SYSTEM,
            "Error while creating shared memory segment /dev/shm/nccl-EoOvZr (size 9637888), error: No space left on device (28)",
        ),
        ("cuda error", "ncclUnhandledCudaError: Call to CUDA function failed.", "Cuda failure 710 'device-side assert triggered'"),
        ("internal error", OF_ITSELF, "Message truncated : received 1024 bytes instead of 256"),
        ("invalid usage", OF_USAGE, "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000"),
    ],
    ids=["shared-memory", "cuda", "internal", "usage"],
)
def test_what_nccl_finds_on_this_machine_is_told_as_that_and_no_rank_has_gone(kind: str, meaning: str, reason: str) -> None:
    error = dist.DistBackendError(NCCLS_OWN.format(kind, meaning, reason))
    assert not is_lost_peer(error)
    said = describe(error, "beginning", "cuda:0")
    assert said == f"DistBackendError while beginning: NCCL: {reason}."


@pytest.mark.parametrize(
    "text",
    [
        NCCLS_OWN.format("system error", OF_A_PEER, "Connection closed by remote peer gpu1<53212>"),
        NCCLS_OWN.format("system error", OF_THE_SYSTEM, "Call to recv from 10.0.0.2<53212> failed : Connection reset by peer"),
        NCCLS_OWN.format("system error", OF_THE_SYSTEM, "Unknown NCCL Error").replace("error:\nUn", "error: Un"),
        NCCLS_OWN.format("system error", OF_THE_SYSTEM, ""),
        NCCLS_OWN.format("internal error", OF_ITSELF, "Socket recv failed while polling for opId=0x7f6f18cb7f40"),
        NCCLS_OWN.format("internal error", OF_ITSELF, ""),
        "NCCL communicator was aborted on rank 1.",
        '[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by store->get("0"), '
        'but store->get("0") got error: Connection reset by peer',
    ],
    ids=["remote", "reset", "unknown", "nothing", "internal", "internal nothing", "aborted", "store"],
)
def test_a_rank_that_nccl_no_longer_reaches_has_gone(text: str) -> None:
    assert is_lost_peer(dist.DistBackendError(text))
    assert "\n" not in describe(RuntimeError(text), "training", "cuda:0")


class SpeaksLate(dist.HashStore):
    """A store in which a rank leaves its words only when they are waited for."""

    def wait(self, keys: list[str], patience: Any) -> None:
        self.set(keys[0], b'{"state":"failed","text":"rank 1 (cuda:1): NCCL: no room"}')
        super().wait(keys, patience)


def test_a_rank_that_nccl_loses_another_of_waits_for_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = dist.DistBackendError(NCCLS_OWN.format("system error", OF_A_PEER, "Connection closed by remote peer gpu1<53212>"))
    monkeypatch.setattr("tuitrain.engine.ranks.world.train", raising(lost))
    world = World.__new__(World)
    group = SimpleNamespace(must_agree=lambda facts: None)
    vars(world).update(_config=small_config(), _control=FakeControl(tmp_path), _store=SpeaksLate(), group=group)
    (ended,) = world.events()
    assert isinstance(ended, RunEnded)
    assert (ended.state, ended.error) == ("failed", "rank 1 (cuda:1): NCCL: no room")


# -- before the run has begun ---------------------------------------------------------------------------------------------

CUDAS_OWN = "CUDA error: {}\nCUDA kernel errors might be asynchronously reported at some other API call\nCompile with TORCH_USE_CUDA_DSA"
BUSY, ALL_GONE = CUDAS_OWN.format("all CUDA-capable devices are busy or unavailable"), CUDAS_OWN.format("out of memory")
OF_TORCH = "CUDA out of memory. Tried to allocate 2.00 GiB."


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*given: Any, **named: Any) -> Any:
        raise error

    return fail


@pytest.fixture
def _two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("tuitrain.engine.placement.cuda_count", lambda: 2)


def refusal(config: Any, folder: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        list(train(config, FakeControl(folder)))
    return str(refused.value)


@pytest.mark.usefixtures("_two_cards")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BUSY, "device: cuda:1 cannot be used: CUDA error: all CUDA-capable devices are busy or unavailable."),
        (
            ALL_GONE,
            "device: cuda:1 has no room for the model and the data (CUDA error: out of memory); "
            "free some memory there or choose another device.",
        ),
    ],
    ids=["busy", "full"],
)
def test_a_card_that_takes_no_context_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.setattr(torch.cuda.device, "__enter__", raising(RuntimeError(text)))
    assert refusal(small_config(device="cuda:1"), tmp_path) == said
    monkeypatch.setattr(torch.cuda, "set_device", raising(RuntimeError(text)))
    with pytest.raises(ConfigError) as refused:
        World(small_config(device="cuda:0,cuda:1"), FakeControl(tmp_path), torch.device("cuda:1"))
    assert str(refused.value) == said


def test_a_second_card_that_takes_none_is_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "seed_replicas", raising(RuntimeError(BUSY)))
    said = refusal(small_config(device="cpu,cpu"), tmp_path)
    assert said == "device: cpu cannot be used: CUDA error: all CUDA-capable devices are busy or unavailable."


def test_what_was_put_off_until_cuda_starts_and_fails_then_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> None:
        try:
            raise RuntimeError("device=1, num_gpus=1")
        except RuntimeError as error:
            raise torch.cuda.DeferredCudaCallError(
                f"CUDA call failed lazily at initialization with error: {error}\n\nat: line 1"
            ) from error

    monkeypatch.setattr(data_home, "to_device", lambda dataset, device, *, inputs_too: start())
    assert refusal(small_config(), tmp_path) == "device: cpu cannot be used: device=1, num_gpus=1."


class Computing(nn.Linear):
    """Fails on its device."""

    def __init__(self, text: str) -> None:
        super().__init__(192, 4)
        self.text = text

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(self.text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "has no room for the model and the data (CUDA "),
        ("cuDNN error: CUDNN_STATUS_NOT_INITIALIZED", "cannot be used: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED."),
        ("CUDA error: CUBLAS_STATUS_ARCH_MISMATCH when calling `cublasCreate(handle)`", "cannot be used: CUDA error: CUBLAS_STATUS_ARCH"),
        (CUDAS_OWN.format("no kernel image is available for execution on the device"), "cannot be used: this torch has no kernels for it;"),
    ],
)
def test_what_is_the_devices_is_not_said_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.setattr("engine_small.make_net", lambda config: Computing(text))
    assert refusal(small_config(), tmp_path).startswith(f"device: cpu {said}")


def test_no_room_to_try_the_model_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuitrain.engine.tryouts.model._in_memory", raising(torch.OutOfMemoryError(OF_TORCH)))
    said = refusal(small_config(), tmp_path)
    assert said.startswith("device: cpu has no room for the model and the data (CUDA out of memory. Tried to allocate 2.00 GiB);")


def test_no_room_to_fit_the_model_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "fit", raising(torch.OutOfMemoryError(OF_TORCH)))
    said = refusal(small_config(), tmp_path)
    assert said.startswith("device: cpu has no room for the model and the data (CUDA out of memory. Tried to allocate 2.00 GiB);")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.OutOfMemoryError(OF_TORCH), "device: cuda:0 ran out of memory while warming up; a smaller batch_size needs less ("),
        (ValueError("not like this"), "model: ValueError while warming up: not like this (test_failures.py, line "),
    ],
    ids=["room", "model"],
)
def test_what_fails_in_the_warm_up_is_a_refusal(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    class Whole:
        def sizes(self, steps: int) -> list[int]:
            return [8]

    monkeypatch.setattr(prepare, "warm_up", raising(error))
    prepared: Any = SimpleNamespace(model=None, batches=Whole(), total_steps=9, config=small_config(), devices=[torch.device("cuda:0")])
    with pytest.raises(ConfigError) as refused:
        prepare._warm_up(prepared, FakeControl(Path()))
    assert str(refused.value).startswith(said)


# -- CUDA that is broken for the rest of the process ------------------------------------------------------------------------

ASSERT = CUDAS_OWN.format("device-side assert triggered")


@pytest.mark.usefixtures("_two_cards")
@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_after_a_failed_computation_the_next_run_says_to_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    # The first that asks CUDA for something is the seed, for a run on the CPU too.
    monkeypatch.setattr(torch.cuda, "manual_seed_all", raising(RuntimeError(ASSERT)))
    said = "device: this process cannot train any more, because a computation failed on a GPU (CUDA error: device-side assert triggered)"
    assert refusal(small_config(device=device), tmp_path) == f"{said}; start tuitrain again."


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("an illegal memory access was encountered", True),
        ("uncorrectable ECC error encountered", True),
        ("uncorrectable NVLink error detected during the execution", True),
        ("Invalid access of peer GPU memory over nvlink or a hardware error", True),
        ("out of memory", False),
        ("CUDA-capable device(s) is/are busy or unavailable", False),
        ("invalid device ordinal", False),
    ],
)
def test_after_what_cuda_answers_nothing_else_in_a_process(text: str, broken: bool) -> None:
    assert breaks_cuda(RuntimeError(CUDAS_OWN.format(text))) is broken


class OutOfRange(nn.Linear):
    """Reads outside of a table, in evaluation or only in training."""

    def __init__(self, *, training: bool) -> None:
        super().__init__(192, 4)
        self.where = training

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training == self.where:
            raise RuntimeError(ASSERT)
        return super().forward(inputs.flatten(1))


def make_out_of_range(config: Any) -> nn.Module:
    return OutOfRange(training=False)


def make_out_of_range_in_training(config: Any) -> nn.Module:
    return OutOfRange(training=True)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("out_of_range", "does not take inputs [2, 3, 8, 8] of the data"),
        ("out_of_range_in_training", "cannot be trained on cpu: CUDA error"),
    ],
)
def test_a_model_that_breaks_cuda_is_not_tried_in_other_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, said: str
) -> None:
    monkeypatch.setattr("tuitrain.engine.tryouts.model._contiguous", raising(RuntimeError(ASSERT)))
    text = refusal(small_config(model=f"test_failures:make_{model}"), tmp_path)
    assert text.startswith(f"model: 'test_failures:make_{model}' {said}")
    assert text.endswith("CUDA error: device-side assert triggered.")


def test_no_room_for_what_was_saved_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(small_config(), FakeControl(tmp_path, {3: ["stop"]}))
    monkeypatch.setattr(Run, "go_on_from", raising(torch.OutOfMemoryError(OF_TORCH)))
    with pytest.raises(ConfigError, match="device: cpu has no room for the model and the data"):
        go_on(small_config(), FakeControl(tmp_path))

"""Layers that take the place of a network's own: they compute the same, and only there where they are faster."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config
from test_speedrun import few
from torch import nn

from tuitrain.config import RunConfig, with_changes
from tuitrain.engine.models import build_model
from tuitrain.engine.substitutes import substitute
from tuitrain.engine.substitutes.convolution import FewChannelConv2d, has_few_channels
from tuitrain.events import Notice, Progress
from tuitrain.recipes import load_recipe

GPU = torch.device("cuda:0")
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
compiles = pytest.mark.skipif("STANDIN_DEVICES" in os.environ, reason="needs a real NVIDIA GPU: the stand-in runs no compiled kernels")
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton, which torch for CUDA brings")


def substituted(device: torch.device = GPU, **changes: Any) -> list[type]:
    """The kinds of the model's layers afterwards."""
    config = with_changes(load_recipe("seed-cnn"), changes)
    model = build_model(config).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert not list(substitute(model, config, device))
    return [type(layer) for layer in model.modules()]


def make_own(config: RunConfig) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(7200, 10))


@pytest.mark.parametrize("changes", [{"precision": "fp32"}, {"precision": "tf32"}, {"compile": True}])
def test_the_convolution_over_the_colours_is_replaced_where_a_gpu_computes_the_same_each_time(changes: dict[str, Any]) -> None:
    kinds = substituted(**changes)
    assert kinds.count(FewChannelConv2d) == 1
    assert kinds.count(nn.Conv2d) == 2
    assert substituted(**changes, model="test_substitutes:make_own").count(FewChannelConv2d) == 1


@pytest.mark.parametrize("changes", [{"deterministic": False}, {"precision": "bf16"}, {"precision": "fp64"}])
def test_nothing_is_replaced_where_it_would_not_be_faster(changes: dict[str, Any]) -> None:
    assert FewChannelConv2d not in substituted(**changes)


def test_nothing_is_replaced_on_the_cpu() -> None:
    assert FewChannelConv2d not in substituted(torch.device("cpu"))


@pytest.mark.parametrize(
    ("layer", "few"),
    [
        (nn.Conv2d(3, 8, 3), True),
        (nn.Conv2d(1, 8, 3, stride=2, bias=False), True),
        (nn.Conv2d(16, 8, 3), False),
        (nn.Conv2d(4, 8, 3, groups=4), False),
        (nn.Conv2d(3, 8, 3, dilation=2), False),
        (nn.Conv2d(3, 8, 3, padding="same"), False),
        (nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect"), False),
        (nn.Conv2d(3, 8, 3).requires_grad_(False), False),
        (nn.Conv1d(3, 8, 3), False),
    ],
)
def test_which_convolutions_are_replaced(layer: nn.Module, few: bool) -> None:
    for one in layer.parameters():
        if one.dim() == 4:
            one.data = one.data.contiguous(memory_format=torch.channels_last)
    assert has_few_channels(layer) is few


def test_in_contiguous_memory_none_is_replaced() -> None:
    assert not has_few_channels(nn.Conv2d(3, 8, 3))


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"stride": 2, "padding": 1}])
def test_the_convolution_computes_what_torchs_own_does(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    plain = nn.Conv2d(3, 8, 3, **options).double().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    ours = nn.Conv2d(3, 8, 3, **options).double().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    ours.load_state_dict(plain.state_dict())
    ours.__class__ = FewChannelConv2d
    images = torch.rand(5, 3, 9, 7, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    found = []
    for layer in (plain, ours):
        given = images.clone().requires_grad_()
        scores = layer(given)
        scores.square().sum().backward()
        assert layer.weight.grad.is_contiguous(memory_format=torch.channels_last)
        found.append([scores, given.grad, *(one.grad for one in layer.parameters())])
    for theirs, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def made_few() -> nn.Conv2d:
    torch.manual_seed(0)
    layer = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    layer.__class__ = FewChannelConv2d
    return layer


def test_a_persons_own_network_may_do_with_it_what_torch_allows() -> None:
    layer, images = made_few(), torch.rand(4, 3, 6, 6)
    assert layer(images[0]).shape == (8, 4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        scores = layer(images)
    scores.float().sum().backward()
    assert scores.dtype == torch.bfloat16
    assert layer.weight.grad is not None
    parameters = dict(layer.named_parameters())

    def loss(values: dict[str, torch.Tensor], image: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = torch.func.functional_call(layer, values, (image,))
        return outputs.square().sum()

    of_each = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, images[:, None])["weight"]
    of_all = torch.func.grad(loss)(parameters, images)["weight"]
    torch.testing.assert_close(of_each.sum(0), of_all)


def test_a_compiler_sees_through_it() -> None:
    layer, images = made_few(), torch.rand(4, 3, 6, 6).contiguous(memory_format=torch.channels_last)
    # Without Inductor, which would make kernels of the same operations.
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    found = []
    for called in (layer, compiled):
        called(images).square().sum().backward()
        found.append([one.grad for one in layer.parameters()])
        layer.zero_grad()
    torch.testing.assert_close(*found)


def test_without_triton_the_pooling_is_torchs_own_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "tuitrain.engine.substitutes.pooling", raising=False)
    config: RunConfig = load_recipe("speedrun-94")
    model = build_model(config)
    progress, notice = substitute(model, config, GPU)
    assert progress == Progress(phase="compiling")
    assert isinstance(notice, Notice)
    assert "slower, because Triton cannot be used: " in notice.text
    assert sum(type(layer) is nn.MaxPool2d for layer in model.modules()) == 4


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tuitrain.engine.substitutes import pooling

for kernel in (pooling._forward, pooling._backward):
    for dtype in ("*bf16", "*fp32", "*fp64"):
        kinds = {"places": "*i8", "pixels": "i32"} | dict.fromkeys(("inputs", "pooled", "given", "wanted"), dtype)
        numbers = {"H": 31, "W": 31, "C": 64, "K": 2, "BLOCK": 64}
        signature = {name: kinds.get(name, "constexpr") for name in kernel.arg_names}
        done = triton.compile(ASTSource(kernel, signature, numbers), target=GPUTarget("cuda", 90, 32))
        assert done.asm["cubin"]
print("compiled")
"""


CHECK = """
import sys
import torch
from torch import nn
from tuitrain.engine.substitutes.pooling import SideBySidePool2d, _Pool, lie_side_by_side

device, *names = sys.argv[1:]
for dtype in (getattr(torch, name) for name in names):
    for shape, size in (((3, 64, 31, 31), 2), ((2, 32, 7, 9), 3), ((5, 16, 4, 4), 2), ((2, 256, 3, 3), 3)):
        torch.manual_seed(0)
        # Few different values, so that many windows hold the largest more than once.
        images = torch.randn(shape).round(decimals=1).to(device, dtype).contiguous(memory_format=torch.channels_last)
        images[0, 0, 0, 1] = float("nan")
        ours, theirs = images.clone().requires_grad_(), images.clone().requires_grad_()
        mine, plain = _Pool.apply(ours, size), nn.functional.max_pool2d(theirs, size)
        assert torch.equal(mine.isnan(), plain.isnan())
        assert torch.equal(mine.nan_to_num(7), plain.nan_to_num(7)), (dtype, shape, size)
        assert mine.is_contiguous(memory_format=torch.channels_last)
        given = torch.randn_like(plain)
        mine.backward(given)
        plain.backward(given)
        assert torch.equal(ours.grad, theirs.grad), (dtype, shape, size)
kinds = {"plain": (nn.MaxPool2d(2), True), "overlapping": (nn.MaxPool2d(3, 2), False), "padded": (nn.MaxPool2d(2, padding=1), False),
         "up": (nn.MaxPool2d(2, ceil_mode=True), False), "oblong": (nn.MaxPool2d((2, 1)), False), "other": (nn.AvgPool2d(2), False),
         "places": (nn.MaxPool2d(2, return_indices=True), False), "apart": (nn.MaxPool2d(2, dilation=2), False)}
for name, (layer, wanted) in kinds.items():
    assert lie_side_by_side(layer) is wanted, name
odd = torch.rand(2, 24, 8, 8, device=device)
assert torch.equal(SideBySidePool2d(2)(odd), nn.functional.max_pool2d(odd, 2))
print("as torch has it")
"""


def told(program: str, *arguments: str, **env: str) -> str:
    """What a Python of its own prints last: its output, or where it fails the error."""
    line = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(line, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


@pytest.mark.gpu
@needs_triton
def test_the_pooling_computes_bit_for_bit_what_torchs_own_does() -> None:
    """Interpreted, where Triton needs no GPU; it does not know bf16 there."""
    assert told(CHECK, "cpu", "float32", "float64", TRITON_INTERPRET="1", CUDA_VISIBLE_DEVICES="") == "as torch has it"


@pytest.mark.gpu
@needs_triton
def test_the_poolings_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    assert told(COMPILE, TRITON_CACHE_DIR=str(tmp_path)) == "compiled"


@pytest.mark.gpu
@on_a_gpu
@compiles
def test_the_pooling_computes_bit_for_bit_what_torchs_own_does_on_a_gpu() -> None:
    assert told(CHECK, "cuda:0", "bfloat16", "float16", "float32", "float64") == "as torch has it"


@pytest.mark.gpu
@on_a_gpu
@compiles
def test_a_speed_run_on_a_gpu_pools_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuitrain.engine.substitutes import pooling

    pooled: list[Any] = []
    forward = pooling._Pool.apply
    monkeypatch.setattr(pooling._Pool, "apply", lambda *given: pooled.append(given) or forward(*given))
    events = run(few(device="cuda:0", precision="fp32"), FakeControl(tmp_path))
    assert len(pooled) > 4, "four in a step, beside the one that is tried"
    assert not [event.text for event in of(Notice, events) if "Triton" in event.text]


@pytest.mark.gpu
@on_a_gpu
def test_the_seed_cnn_on_a_gpu_learns_the_same_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(model="seed-cnn", data="engine_small:make_large_images", device="cuda:0", deterministic=True)
    ours, again = (losses_of(run(config, FakeControl(tmp_path / name))) for name in ("ours", "again"))
    assert ours == again
    with monkeypatch.context() as patch:
        patch.setattr("tuitrain.engine.prepare.substitute", lambda *given: ())
        plain = losses_of(run(config, FakeControl(tmp_path / "plain")))
    assert ours == pytest.approx(plain, rel=1e-3)  # in TF32, as torch convolves

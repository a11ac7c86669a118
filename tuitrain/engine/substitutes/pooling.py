"""Max pooling of windows side by side in channels_last memory, as two Triton kernels; bit for bit what torch computes.

torch's own kernels for it were measured, on an H200 in bf16, at 1.2 of a speed run's 4.3 ms a step: the backward one clears the gradient
and then adds to it, where each of its elements can be written once. Importing this module needs Triton, which torch for CUDA brings.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

_BLOCK = 4096
"""Elements that one program handles."""


class SideBySidePool2d(nn.MaxPool2d):
    """An `nn.MaxPool2d` whose windows lie side by side; for what its kernels are not made for it does as that one does."""

    def forward(self, images: Tensor) -> Tensor:
        """[N, C, H, W] to [N, C, H // K, W // K], where K is the kernel's size."""
        if not (images.is_cuda and _is_pixels(images)):
            pooled: Tensor = super().forward(images)
            return pooled
        pooled = _Pool.apply(images, self.kernel_size)  # type: ignore[no-untyped-call]
        return pooled


def lie_side_by_side(layer: nn.Module) -> bool:
    """Whether a layer is a plain pooling of squares that lie side by side."""
    if type(layer) is not nn.MaxPool2d or not isinstance(layer.kernel_size, int) or layer.stride != layer.kernel_size:
        return False
    plain = not layer.padding and layer.dilation == 1 and not layer.ceil_mode and not layer.return_indices
    return plain and layer.kernel_size < 12  # a place in a window is told by a byte


def _is_pixels(inputs: Tensor) -> bool:
    """Whether the channels of a pixel lie beside one another, and are as many as a program takes at a time."""
    channels = inputs.shape[1] if inputs.dim() == 4 else 0
    few = 16 <= channels <= _BLOCK and channels & (channels - 1) == 0
    return few and inputs.numel() < 2**31 and inputs.is_contiguous(memory_format=torch.channels_last)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, size: int) -> Tensor:
        count, channels, height, width = inputs.shape
        shape = count, channels, height // size, width // size
        pooled = torch.empty(shape, dtype=inputs.dtype, device=inputs.device, memory_format=torch.channels_last)
        places = torch.empty(shape, dtype=torch.int8, device=inputs.device, memory_format=torch.channels_last)
        pixels = count * shape[2] * shape[3]
        block = _BLOCK // channels
        # Triton launches on the current device.
        with torch.cuda.device_of(inputs):  # type: ignore[no-untyped-call]
            _forward[(triton.cdiv(pixels, block),)](inputs, pooled, places, pixels, height, width, channels, size, block)
        ctx.save_for_backward(places)
        ctx.size, ctx.shape = size, inputs.shape
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (places,) = ctx.saved_tensors
        given = gradients[0].contiguous(memory_format=torch.channels_last)
        wanted = torch.empty(ctx.shape, dtype=given.dtype, device=given.device, memory_format=torch.channels_last)
        count, channels, height, width = ctx.shape
        pixels, block = count * height * width, _BLOCK // channels
        with torch.cuda.device_of(given):  # type: ignore[no-untyped-call]
            _backward[(triton.cdiv(pixels, block),)](given, places, wanted, pixels, height, width, channels, ctx.size, block)
        return wanted, None


@triton.jit(do_not_specialize=["pixels"])  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    inputs, pooled, places, pixels, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr
):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = pixel % (W // K)
    row = pixel // (W // K) % (H // K)
    sample = pixel // (W // K * (H // K))
    channel = tl.arange(0, C)[None, :]
    there = (pixel < pixels)[:, None]
    first = ((sample * H + row * K) * W + column * K)[:, None] * C + channel
    most = tl.load(inputs + first, mask=there)
    place = tl.zeros([BLOCK, C], tl.int8)
    for k in tl.static_range(1, K * K):
        value = tl.load(inputs + first + (k // K * W + k % K) * C, mask=there)
        # As torch has it, the first of equal values, and the last NaN.
        more = (value > most) | (value != value)
        most = tl.where(more, value, most)
        place = tl.where(more, k, place).to(tl.int8)
    target = pixel[:, None] * C + channel
    tl.store(pooled + target, most, mask=there)
    tl.store(places + target, place, mask=there)


@triton.jit(do_not_specialize=["pixels"])  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    given, places, wanted, pixels, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr
):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = pixel % W
    row = pixel // W % H
    sample = pixel // (W * H)
    channel = tl.arange(0, C)[None, :]
    there = (pixel < pixels)[:, None]
    pooled = (pixel < pixels) & (row // K < H // K) & (column // K < W // K)
    source = ((sample * (H // K) + row // K) * (W // K) + column // K)[:, None] * C + channel
    gradient = tl.load(given + source, mask=pooled[:, None], other=0.0)
    place = tl.load(places + source, mask=pooled[:, None], other=-1)
    mine = place == (row % K * K + column % K)[:, None]
    tl.store(wanted + pixel[:, None] * C + channel, tl.where(mine, gradient, 0.0), mask=there)

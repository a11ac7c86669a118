"""A convolution over few channels whose gradient a GPU computes fast where it has to be the same each time.

For the weights of a convolution over three channels in channels_last memory cuDNN 9.19 takes, among its deterministic ways, one that was
measured on an H200 at 0.80 ms for 64 images of seed-cnn, of a step's 1.16 ms, where contiguous memory takes 0.06 ms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class FewChannelConv2d(nn.Conv2d):
    """An `nn.Conv2d` whose weights' gradient is computed in contiguous memory; see `has_few_channels`."""

    def forward(self, images: Tensor) -> Tensor:
        """[N, C, H, W] to [N, out_channels, H', W'], as `nn.Conv2d` has it."""
        # A person's own network may convolve a single image, or in bf16.
        if images.dim() != 4 or torch.is_autocast_enabled(images.device.type):
            return super().forward(images)
        scores: Tensor = _Convolution.apply(images, self.weight, self.bias, self.stride, self.padding)  # type: ignore[no-untyped-call]
        return scores


def has_few_channels(layer: nn.Module) -> bool:
    """Whether a layer is a plain convolution over an image's colours, which learns, in channels_last memory."""
    if type(layer) is not nn.Conv2d or isinstance(layer.padding, str):
        return False
    learns = layer.weight.requires_grad and layer.weight.is_contiguous(memory_format=torch.channels_last)
    plain = layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros"
    return learns and plain and layer.in_channels <= 4


class _Convolution(torch.autograd.Function):
    generate_vmap_rule = True  # for torch.func in a person's own network

    @staticmethod
    def forward(images: Tensor, weight: Tensor, bias: Tensor | None, stride: tuple[int, ...], padding: tuple[int, ...]) -> Tensor:
        return nn.functional.conv2d(images, weight, bias, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        images, weight, _, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(images, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = ctx.saved_tensors
        of_images, of_weight, of_bias, *_ = ctx.needs_input_grad

        def back(given: tuple[Tensor, ...], *wanted: bool) -> tuple[Tensor | None, ...]:
            plain = [1, 1], False, [0, 0], 1  # dilation, transposed, output_padding, groups
            found: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward(
                *given, None, ctx.stride, ctx.padding, *plain, (*wanted, False)
            )
            return found

        given = gradients[0], images, weight
        images_gradient = back(given, True, False)[0] if of_images else None
        # Autograd puts it into the memory of the weight, as the update wants it.
        weight_gradient = back(tuple(each.contiguous() for each in given), False, True)[1] if of_weight else None
        bias_gradient = gradients[0].sum((0, 2, 3)) if of_bias else None
        return images_gradient, weight_gradient, bias_gradient, None, None

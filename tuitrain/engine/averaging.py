"""Averaging of weights over the steps of a run. Plain PyTorch: an exported script carries the source."""

from __future__ import annotations

import torch


class Lookahead:
    """Slow weights that follow a model's, and that the model goes back to: in epoch 4 and later after every fifth step and each epoch.

    The slow ones follow ever more slowly towards the end of the run. It is the way of airbench94 (arXiv 2404.00498); the idea is
    that of Zhang et al., "Lookahead Optimizer" (arXiv 1907.08610). Running averages of BatchNorm are averaged like the weights.

    Args:
        model: on its device.
        total_steps: those that are planned.
    """

    def __init__(self, model: torch.nn.Module, total_steps: int) -> None:
        self.total_steps = total_steps
        # They share their memory with the model's own.
        self.fast = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
        self.slow: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def after_step(self, step: int, epoch: int) -> None:
        """Average where it is due after `step` of `epoch`, both from 1."""
        if epoch < 4 or step % 5:
            return
        if not self.slow:
            self.slow = {name: value.clone() for name, value in self.fast.items()}
            return
        stay = 0.95**5 * (step / self.total_steps) ** 3
        torch._foreach_lerp_(list(self.slow.values()), list(self.fast.values()), 1 - stay)
        self.go_back()

    @torch.no_grad()
    def go_back(self) -> None:
        """Give the model the slow weights, where there are any: at the end of an epoch and of the run."""
        if self.slow:
            torch._foreach_copy_(list(self.fast.values()), list(self.slow.values()))

    @torch.no_grad()
    def load(self, slow: dict[str, torch.Tensor]) -> None:
        """Take up slow weights that were saved, by their names, in the memory format and on the device of the model's."""
        # In the order of the model's: a file has another one.
        self.slow = {name: torch.empty_like(value).copy_(slow[name]) for name, value in self.fast.items() if slow}

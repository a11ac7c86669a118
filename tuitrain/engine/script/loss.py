"""What an exported script says of the loss: how it is made, which labels it takes, and what is told of a test."""

from __future__ import annotations

import inspect

from tuitrain.config import LOSSES, RunConfig
from tuitrain.engine.criterion import OwnLoss
from tuitrain.engine.outputs import tensors
from tuitrain.events import Targets


def source(config: RunConfig) -> str:
    """The class that takes a person's own loss; empty for others."""
    return "" if config.loss in LOSSES else f"{inspect.getsource(tensors)}\n\n{inspect.getsource(OwnLoss)}\n\n"


def criterion(config: RunConfig) -> str:
    """The expression that makes it."""
    if config.loss not in LOSSES:
        return "OwnLoss(own_loss)"
    smoothing = f"label_smoothing={config.label_smoothing}" if config.label_smoothing else ""
    return {"cross_entropy": f"nn.CrossEntropyLoss({smoothing})", "nll": "nn.NLLLoss()", "mse": "nn.MSELoss()"}[config.loss]


def label_lines(config: RunConfig, targets: Targets, dtype: str) -> list[str]:
    """The end of `batch`: the samples' labels as the loss takes them."""
    if targets != "numbers":
        return ["    return inputs, labels[rows].to(device)"]
    if config.loss in LOSSES:
        return [f"    return inputs, labels[rows].to(device, {dtype})"]
    numbers = "labels.is_floating_point() or labels.dtype == torch.bool"
    return ["    labels = labels[rows].to(device)", f"    return inputs, labels.to({dtype}) if {numbers} else labels.long()"]


def told(targets: Targets) -> str:
    """What is printed of a test with an accuracy."""
    count = "(test_labels >= 0).sum().item()" if targets == "positions" else "len(test_labels)"
    return f'    print(f"epoch {{epoch}} test loss {{mean}} (sum over batches {{loss_sum}}) accuracy {{right / {count}}}")'

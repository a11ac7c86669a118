"""How an exported script begins with the weights of a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tuitrain.config import RunConfig
from tuitrain.engine.weights import fitting, is_safetensors, matching, named_tensors, state_dicts


def reads_safetensors(config: RunConfig) -> bool:
    """Whether the script needs `load_file` of safetensors."""
    return config.weights is not None and is_safetensors(config.weights)


def weights_functions(config: RunConfig) -> tuple[Callable[..., Any], ...]:
    """What `weights_lines` call."""
    return () if config.weights is None else (fitting, state_dicts, named_tensors, matching)


def weights_lines(config: RunConfig) -> list[str]:
    """After `model` is on its device, before it is copied or wrapped."""
    if config.weights is None:
        return []
    read = f"load_file({config.weights!r})"
    if not reads_safetensors(config):
        read = f'torch.load({config.weights!r}, map_location="cpu", weights_only=True)'
    return [f"content = {read}", "model.load_state_dict(matching(content, model.state_dict()), strict=False)"]

"""Writes scripts at once, without torch: short ones that differ where the real ones do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuitrain.config import RunConfig
from tuitrain.events import RunStarted

LONG = "inputs = inputs.permute(0, 2, 3, 1).flatten(2)  # a sequence of rows: red, green and blue of all their pixels, from left to right"


def fake_script(config: RunConfig, started: RunStarted | None = None, environment: Mapping[str, Any] = {}) -> str:
    """As `tuitrain.engine.export.script`; it tells what it was given."""
    devices = config.device.split(",")
    data, threads = "before any run" if started is None else started.data, environment.get("threads")
    lines = [f"# {config.title()}: {data}, threads {threads}", "import torch", ""]
    if config.strategy == "single":
        lines.append(f'device = torch.device("{config.device}")')
    else:
        lines += [f"names = {devices}", "devices = [torch.device(name) for name in names]", "device = devices[0]"]
    lines += ["", "def batch(inputs, labels):", '    """Ready for the model."""', f"    {LONG}", "    return inputs, labels", ""]
    if config.strategy != "single":
        lines += ["def split(inputs):", "    return inputs.chunk(len(devices))", ""]
    lines += [f"number = {number}" for number in range(40)]
    lines.append("step(split(batch(inputs, labels)))" if config.strategy != "single" else "step(batch(inputs, labels))")
    return "\n".join(lines) + "\n"

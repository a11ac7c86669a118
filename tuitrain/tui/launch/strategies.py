"""What is said of each strategy beside the device list."""

from __future__ import annotations

from collections.abc import Sequence

from tuitrain.strategies import STRATEGIES, Misfit, misfit

_ABOUT = {
    "single": "one device takes the whole batch",
    "split": "a loss for each part, then one update",
    "dp": "outputs gathered, one loss for all",
    "ddp": "one process for each device",
}
_MISFITS: dict[tuple[str, Misfit], str] = {
    ("single", "several"): "single needs one device; use split",
    ("dp", "cpu"): "dp needs GPUs: on the CPU use split",
    ("dp", "twice"): "dp takes each GPU once: use split",
    ("ddp", "mixed"): "ddp takes GPUs or the CPU: use split",
    ("ddp", "twice"): "ddp takes each GPU once: use split",
}
_ON_ONE_DEVICE = {
    "split": "split needs two devices: + adds one",
    "dp": "dp needs two GPUs: + adds one",
    "ddp": "ddp: a process for each; + adds one",
}


def why_not(strategy: str, devices: Sequence[str]) -> str | None:
    """Why `strategy` is not offered for these devices, in one line of the pane; `None` where it is, and for `auto`."""
    alone = _ON_ONE_DEVICE.get(strategy) if len(devices) == 1 else None
    return misfit_in_words(strategy, devices) or alone


def misfit_in_words(strategy: str, devices: Sequence[str]) -> str | None:
    """Why `strategy` cannot train on these devices; `None` where it can, be it with one replica."""
    reason = misfit(strategy, devices)
    return None if reason is None else _MISFITS[strategy, reason]


def about(strategy: str) -> str:
    """What `strategy` does, in one line of the pane."""
    return _ABOUT[strategy]


def fitting(devices: Sequence[str]) -> list[str]:
    """The strategies that are offered for these devices."""
    return [strategy for strategy in STRATEGIES if why_not(strategy, devices) is None]

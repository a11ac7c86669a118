"""How a batch is spread over replicas: which strategies fit a choice of devices, and which one `auto` takes."""

from __future__ import annotations

from collections.abc import Sequence

STRATEGIES = ("single", "split", "dp", "ddp")
_ABOUT = {
    "single": "one device takes the whole batch",
    "split": "a loss for each part, then one update",
    "dp": "outputs gathered, one loss for all",
    "ddp": "one process for each device",
}


def auto_takes(devices: Sequence[str]) -> str:
    """What the strategy `auto` stands for on these devices, one entry for each replica."""
    if len(devices) == 1:
        return "single"
    different_gpus = "cpu" not in devices and len(set(devices)) == len(devices)
    return "ddp" if different_gpus else "split"


def why_not(strategy: str, devices: Sequence[str]) -> str | None:
    """Why `strategy` does not fit these devices, in one line of the pane; `None` where it does, and for `auto`."""
    several, twice = len(devices) > 1, len(set(devices)) < len(devices)
    if strategy == "single" and several:
        return "single needs one device; use split"
    if strategy == "split" and not several:
        return "split needs two devices: + adds one"
    if strategy == "dp" and "cpu" in devices:
        return "dp needs GPUs: on the CPU use split"
    if strategy == "dp" and (twice or not several):
        return "dp takes each GPU once: use split" if twice else "dp needs two GPUs: + adds one"
    if strategy == "ddp" and not several:
        return "ddp: a process for each; + adds one"
    if strategy == "ddp" and len({name == "cpu" for name in devices}) > 1:
        return "ddp takes GPUs or the CPU: use split"
    if strategy == "ddp" and twice and "cpu" not in devices:
        return "ddp takes each GPU once: use split"
    return None


def about(strategy: str) -> str:
    """What `strategy` does, in one line of the pane."""
    return _ABOUT[strategy]


def fitting(devices: Sequence[str]) -> list[str]:
    """The strategies that fit these devices."""
    return [strategy for strategy in STRATEGIES if why_not(strategy, devices) is None]

"""Which devices each strategy takes. All who ask have it from here; what a person reads of it they word themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

STRATEGIES = ("single", "split", "dp", "ddp")
Misfit = Literal["several", "cpu", "mixed", "twice"]
_TAKES: dict[Misfit, str] = {
    "several": "trains on one device",
    "cpu": "(nn.DataParallel) takes GPUs only",
    "mixed": "takes either GPUs or the CPU",
    "twice": "takes each GPU once",
}


def misfit(strategy: str, devices: Sequence[str]) -> Misfit | None:
    """What about these devices, one name for each replica, keeps `strategy` from training on them; `None` where nothing does.

    One device is enough for each strategy, and `auto` fits all.
    """
    gpus = [name for name in devices if name != "cpu"]
    if strategy == "single" and len(devices) > 1:
        return "several"
    if strategy == "dp" and len(gpus) < len(devices):
        return "cpu"
    if strategy == "ddp" and 0 < len(gpus) < len(devices):
        return "mixed"
    if strategy in ("dp", "ddp") and len(set(gpus)) < len(gpus):
        return "twice"
    return None


def limit(strategy: str, devices: Sequence[str]) -> str | None:
    """ "ddp takes each GPU once": what an error message says of `strategy` where it does not fit these devices."""
    reason = misfit(strategy, devices)
    return None if reason is None else f"{strategy} {_TAKES[reason]}"


def auto_takes(devices: Sequence[str]) -> str:
    """What the strategy `auto` stands for on these devices, one name for each replica."""
    if len(devices) == 1:
        return "single"
    return "ddp" if "cpu" not in devices and misfit("ddp", devices) is None else "split"


def stands_for(strategy: str, devices: Sequence[str]) -> str:
    """The strategy's own name, never "auto", on these devices, one name for each replica."""
    return auto_takes(devices) if strategy == "auto" else strategy

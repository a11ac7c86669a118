"""Which trials there are for some devices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tuitrain.config import RunConfig, parse_device, with_changes
from tuitrain.device_names import short
from tuitrain.strategies import STRATEGIES, Misfit, misfit

_SHARING = tuple(strategy for strategy in STRATEGIES if strategy != "single")
_REASONS: dict[tuple[str, Misfit], str] = {
    ("dp", "cpu"): "takes GPUs only (nn.DataParallel)",
    ("dp", "twice"): "takes each GPU once (nn.DataParallel)",
    ("ddp", "mixed"): "takes either GPUs or the CPU",
    ("ddp", "twice"): "takes each GPU once (one process for each)",
}


class Plan(msgspec.Struct, frozen=True):
    """One way to train: a strategy over devices, one for each replica."""

    strategy: str
    devices: tuple[str, ...]

    @property
    def device(self) -> str:
        """As `--device` takes it."""
        return ",".join(self.devices)

    @property
    def title(self) -> str:
        """ "split on cpu,cpu"."""
        return f"{self.strategy} on {short(self.device)}"

    @property
    def shared(self) -> bool:
        """Whether replicas share a device, so that more of them cannot be faster."""
        return len(set(self.devices)) < len(self.devices)

    def applied(self, config: RunConfig) -> RunConfig:
        """`config`, trained this way on this machine alone.

        Raises:
            ConfigError: something else in it forbids that.
        """
        kept = config.output_device if self.strategy == "dp" and config.output_device in self.devices else None
        changes = {"device": self.device, "strategy": self.strategy, "output_device": kept}
        return with_changes(config, changes | {"nnodes": "1", "rdzv_endpoint": None})


class LeftOut(msgspec.Struct, frozen=True):
    """A strategy that is not measured, and why."""

    strategy: str
    reason: str


def spec_of(device: str) -> str:
    """The devices to choose from for what a person has set: those that are named, or for `auto` and `auto:N` all that there are."""
    return device if isinstance(parse_device(device), tuple) else "auto:all"


def pool_of(devices: Sequence[str]) -> tuple[str, ...]:
    """The devices to share the work. The CPU alone is taken twice, so that there is something to see without a GPU."""
    return ("cpu", "cpu") if tuple(devices) == ("cpu",) else tuple(devices)


def plans(pool: Sequence[str]) -> tuple[Plan, ...]:
    """One device alone, then each number of devices with each strategy that fits it, the fewest devices first."""
    found = [Plan("single", (pool[0],))]
    for count in counts(len(pool)):
        some = tuple(pool[:count])
        found += [Plan(strategy, some) for strategy in _SHARING if misfit(strategy, some) is None]
    return tuple(found)


def left_out(pool: Sequence[str]) -> tuple[LeftOut, ...]:
    """The strategies of which `plans` has none."""
    if len(pool) == 1:
        return tuple(LeftOut(strategy, "there is one device, and it shares the work of several") for strategy in _SHARING)
    return tuple(LeftOut(strategy, _REASONS[strategy, reason]) for strategy in _SHARING if (reason := misfit(strategy, pool)))


def counts(devices: int) -> tuple[int, ...]:
    """How many devices are tried: 2, 4, 8 and so on, and all of them."""
    doubled = [2**power for power in range(1, devices.bit_length()) if 2**power < devices]
    return (*doubled, devices) if devices > 1 else ()

"""Which trials there are for some devices."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tuitrain.config import RunConfig, parse_device, with_changes


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
        return f"{self.strategy} on {self.device}"

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
        found.append(Plan("split", some))
        if not _why_not_dp(some):
            found.append(Plan("dp", some))
        if not _why_not_ddp(some):
            found.append(Plan("ddp", some))
    return tuple(found)


def left_out(pool: Sequence[str]) -> tuple[LeftOut, ...]:
    """The strategies of which `plans` has none."""
    if len(pool) == 1:
        return tuple(LeftOut(strategy, "there is one device, and it shares the work of several") for strategy in ("split", "dp", "ddp"))
    reasons = {"dp": _why_not_dp(pool), "ddp": _why_not_ddp(pool)}
    return tuple(LeftOut(strategy, reason) for strategy, reason in reasons.items() if reason)


def counts(devices: int) -> tuple[int, ...]:
    """How many devices are tried: 2, 4, 8 and so on, and all of them."""
    doubled = [2**power for power in range(1, devices.bit_length()) if 2**power < devices]
    return (*doubled, devices) if devices > 1 else ()


def _why_not_dp(devices: Sequence[str]) -> str:
    if "cpu" in devices:
        return "takes GPUs only (nn.DataParallel)"
    return "takes each GPU once (nn.DataParallel)" if len(set(devices)) < len(devices) else ""


def _why_not_ddp(devices: Sequence[str]) -> str:
    on_cpu = set(devices) == {"cpu"}
    if "cpu" in devices and not on_cpu:
        return "takes either GPUs or the CPU"
    return "takes each GPU once (one process for each)" if not on_cpu and len(set(devices)) < len(devices) else ""

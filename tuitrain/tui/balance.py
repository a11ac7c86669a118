"""How evenly a run uses its replicas, in words: who is slow, who holds more memory and why, and how the batch was cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from tuitrain import words
from tuitrain.config import RunConfig
from tuitrain.events import Replica, Replicas, ReplicaStat

_SLOW = 1.1
_MORE_SHARE = 0.1
_MORE_BYTES = 200 * 2**20


def slowest(stats: Iterable[ReplicaStat]) -> int | None:
    """The index of the slowest replica where it is clearly slower than the others."""
    return straggler({stat.index: stat.step_seconds for stat in stats if stat.step_seconds is not None})


def straggler(seconds: Mapping[int, float]) -> int | None:
    """Which of several takes the longest, where that is over a tenth longer than the median."""
    if len(seconds) < 2:
        return None
    index = max(seconds, key=lambda each: seconds[each])
    return index if seconds[index] > _SLOW * median(seconds.values()) else None


def imbalance(replicas: Sequence[Replica], stats: Iterable[ReplicaStat], strategy: str, config: RunConfig) -> tuple[str, str] | None:
    """Which device holds clearly more memory than the others, and why, in two parts of a sentence; the second one may be empty."""
    device_of = {replica.index: replica.device for replica in replicas}
    held = {device_of[stat.index]: stat.memory for stat in stats if stat.memory is not None and stat.index in device_of}
    if len(held) < 2:
        return None
    most = max(held, key=lambda device: held[device])
    others = median(size for device, size in held.items() if device != most)
    more = held[most] - others
    if more <= _MORE_BYTES or more <= _MORE_SHARE * others:
        return None
    return f"{most} holds {words.size(more)} more", _why(most, replicas[0].device, strategy, config)


def _why(device: str, first: str, strategy: str, config: RunConfig) -> str:
    output = first if config.output_device is None else config.output_device
    if strategy == "dp" and device == output:
        return "outputs are gathered and the loss computed there; split or ddp avoids it"
    if strategy == "dp" and device == first:
        return "the model, its gradients and the optimizer's state stay there; ddp spreads them"
    if strategy == "split" and device == first:
        return "the optimizer's state and the data are kept there"
    if strategy == "ddp":
        return "each process should hold the same"
    return ""


def batch_words(event: Replicas, config: RunConfig) -> str:
    """What is special about how the batch was cut, or nothing."""
    axis, said = config.batch_dim, []
    if axis < len(event.batch) and event.batch[axis] < config.batch_size:
        said.append("last of the epoch")
    parts = {replica.input[axis] for replica in event.replicas if replica.input is not None and axis < len(replica.input)}
    idle = sum(replica.input is None for replica in event.replicas)
    if len(parts) > 1:
        said.append("uneven")
    if idle:
        said.append(f"{idle} idle")
    return ", ".join(said)

"""Who holds the memory of a card that our own run uses.

The driver knows what each process holds, and torch knows what of ours are tensors and what it keeps for later ones. In a container, on
a MIG instance, or where the driver lists no processes, ours is not found there, and its CUDA context can only be estimated.
"""

from __future__ import annotations

import msgspec

from tuitrain.devices.samples import DeviceSample, ProcessSample


class OwnMemory(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Bytes that torch has on a card: `allocated` are tensors, `reserved` is all that it took from the driver for tensors."""

    allocated: int
    reserved: int


class MemorySplit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Bytes of a card's `used` memory, each byte in exactly one part.

    `context` is `None` where nobody can tell it from the others; it is then a part of `others` or `unseen`. `estimated` says that it is
    a difference of two samples and no driver's number. `others` is what the processes seen here hold, `unseen` what none of them holds.
    """

    used: int
    tensors: int
    cache: int
    context: int | None
    others: int
    unseen: int
    estimated: bool = False


def split_memory(card: DeviceSample, own: OwnMemory, pid: int, context: int | None = None) -> MemorySplit | None:
    """The card's used memory by who holds it; the parts are never negative and add up to it.

    The driver's and torch's numbers may be a second apart, so a part never gets more than is left.

    Args:
        card: the card.
        own: what torch has on it.
        pid: of this process, whose torch that is, or that of its run's ranks.
        context: an estimate of the process's CUDA context (`guess_context`), for where the driver does not say what the process holds.

    Returns:
        `None` where the driver does not say how much is used.
    """
    used = card.memory_used
    if used is None:
        return None
    tensors = min(max(own.allocated, 0), used)
    cache = min(max(own.reserved - tensors, 0), used - tensors)
    rest = used - tensors - cache
    ours = _held_by(card.processes or (), pid)
    known = context if ours is None else ours - tensors - cache
    if known is not None:
        known = min(max(known, 0), rest)
        rest -= known
    others = _seen_others(card.processes, pid, rest)
    return MemorySplit(
        used=used,
        tensors=tensors,
        cache=cache,
        context=known,
        others=others,
        unseen=rest - others,
        estimated=ours is None and known is not None,
    )


def guess_context(used: int, before: int, reserved: int) -> int:
    """An estimate in bytes of the CUDA context of a run that has just begun: what the card's use grew by, less torch's part of it.

    Args:
        used: bytes used on the card now.
        before: bytes used on it before the run touched it.
        reserved: bytes that torch took from the driver for tensors.
    """
    return max(used - before - reserved, 0)


def _held_by(processes: tuple[ProcessSample, ...], pid: int) -> int | None:
    """What the driver says that our process and the ranks of its run hold."""
    held: dict[int, int] = {}
    for process in processes:
        if process.belongs_to(pid) and process.memory is not None:
            held[process.pid] = max(process.memory, held.get(process.pid, 0))
    return sum(held.values()) if held else None


def _seen_others(processes: tuple[ProcessSample, ...] | None, pid: int, rest: int) -> int:
    """How much of `rest` other listed processes hold; all of it where one of them does not say, or nobody lists them."""
    if processes is None:
        return rest
    held: dict[int, int | None] = {}
    for process in processes:
        if not process.belongs_to(pid):
            held[process.pid] = process.memory
    total = sum(memory for memory in held.values() if memory is not None)
    return rest if None in held.values() else min(total, rest)

"""The counting, from the PCI bus to torch, and the checks of the two variables that change it on the way."""

from __future__ import annotations

import re

from tuitrain.devices.doctor.facts import MAKERS, NVIDIA, Adapter, Facts
from tuitrain.devices.doctor.model import Check, Count
from tuitrain.devices.doctor.subject import Subject, cards
from tuitrain.devices.samples import UNNAMED, DeviceSample
from tuitrain.devices.visible import ORDER, VISIBLE, Visible, as_set, in_pci_order, resolve, with_cuda_indexes
from tuitrain.text import clean, plural

ON_BUS, KNOWN, OPENABLE = "on the PCI bus", "known to the driver", "may be opened"
SEEN, LEFT, COUNTED = "seen by NVML", "left by CUDA_VISIBLE_DEVICES", "counted by torch"
NOT_SET = "not set"
_UNSET = f"`unset {VISIBLE}`"

ADAPTERS = Subject("adapters", "Display adapters", "/sys/bus/pci/devices: every display adapter and whose it is")
VARIABLE = Subject("visible-devices", VISIBLE, f"the environment variable {VISIBLE}, read as torch reads it")
NUMBERS = Subject("device-order", ORDER, f"the environment variable {ORDER}, and the names of the cards")


def counts(facts: Facts) -> tuple[Count, ...]:
    """How many NVIDIA GPUs are left at each step; 0 is a count, and `None` means that this step cannot be looked at here."""
    system = facts.system
    nowhere = "WSL 2 does not show this" if system.wsl else "not visible here"
    known = len(system.known) if system.known is not None else (0 if not system.module_loaded and not system.wsl else None)
    openable = None if system.wsl and not system.nodes else system.openable
    return (
        Count(step=ON_BUS, count=None, note=nowhere)
        if system.adapters is None or (system.wsl and not system.nvidia)
        else Count(step=ON_BUS, count=len(system.nvidia), note=_others(facts)),
        Count(step=KNOWN, count=known, note="" if known is not None else nowhere),
        Count(step=OPENABLE, count=openable, note=_nodes_note(facts) if openable is not None else nowhere),
        _seen(facts),
        left_by_variable(facts),
        _counted(facts),
    )


def _others(facts: Facts) -> str:
    others = [adapter for adapter in facts.system.adapters or () if adapter.vendor != NVIDIA]
    makers = list(dict.fromkeys(_described(adapter) for adapter in others))
    return f"and {', '.join(makers)}: not for CUDA" if makers else ""


def _described(adapter: Adapter) -> str:
    known = adapter.vendor in MAKERS and "(" not in adapter.maker
    # What sits on bus 0 is part of the processor or its chipset.
    integrated = known and adapter.slot.split(":")[1:2] == ["00"]
    return f"{adapter.maker} (integrated)" if integrated else adapter.maker


def _nodes_note(facts: Facts) -> str:
    closed = sum(node.error != 0 for node in facts.system.nodes)
    return f"{closed} more cannot be opened" if closed else ""


def _seen(facts: Facts) -> Count:
    snapshot = facts.snapshot
    if facts.silent and not facts.cards:
        return Count(step=SEEN, count=None, note="NVML does not answer")
    instances = sum(row.instance is not None for row in snapshot.devices)
    note = clean(snapshot.error) if snapshot.error else (f"and {instances} {plural('MIG instance', instances)}" if instances else "")
    return Count(step=SEEN, count=len(facts.cards), note=note)


def left_by_variable(facts: Facts) -> Count:
    """What CUDA_VISIBLE_DEVICES leaves of the cards that NVML sees."""
    value = facts.environ.get(VISIBLE)
    shown = NOT_SET if value is None else f'"{clean(value)}"'
    if facts.silent and not facts.cards:
        return Count(step=LEFT, count=None, note=shown)
    if _divided(facts):
        offered = sum(row.cuda_index is not None for row in _numbered(facts))
        return Count(step=LEFT, count=offered, note=f"{shown}; MIG is on")
    closed = len(facts.cards) - len(_usable(facts))
    return Count(step=LEFT, count=len(_resolved(facts).places), note=shown + (f"; {closed} more may not be opened" if closed else ""))


def _divided(facts: Facts) -> bool:
    """MIG decides what CUDA gets."""
    return any(card.mig for card in facts.cards) or facts.environ.get(VISIBLE, "").startswith("MIG-")


def _numbered(facts: Facts) -> tuple[DeviceSample, ...]:
    """The rows with what CUDA offers of them: which instance that is does not hang on how it numbers cards that differ."""
    return with_cuda_indexes(facts.snapshot.devices, {**facts.environ, ORDER: "PCI_BUS_ID"})


def _resolved(facts: Facts) -> Visible:
    return resolve(facts.environ.get(VISIBLE), [card.uuid for card in in_pci_order(_usable(facts))])


def _usable(facts: Facts) -> list[DeviceSample]:
    return [card for card in facts.cards if card.status != "no permission"]


def _counted(facts: Facts) -> Count:
    torch = facts.torch
    if not torch.installed:
        return Count(step=COUNTED, count=None, note="torch is not installed")
    if torch.count is None:
        return Count(step=COUNTED, count=None, note="torch did not answer" if torch.asked else "torch was not asked")
    if torch.cuda is None and torch.hip is None:
        return Count(step=COUNTED, count=torch.count, note=f"torch {torch.version or ''} is built for the CPU only")
    return Count(step=COUNTED, count=torch.count, note="" if torch.started or not torch.count else "but CUDA does not start")


def adapters(facts: Facts) -> Check | None:
    """Adapters that a task manager calls a GPU, and CUDA does not."""
    others = [adapter for adapter in facts.system.adapters or () if adapter.vendor != NVIDIA]
    if not others:
        return None
    named = ", ".join(f"{_described(adapter)} at {adapter.slot}" for adapter in others)
    if not facts.system.nvidia:
        return ADAPTERS.ok(f"{named}; CUDA needs an NVIDIA card")
    return ADAPTERS.ok(f"{named}: a task manager may call it a GPU too, but CUDA cannot use it, so it is never counted")


def visible_devices(facts: Facts) -> Check:
    """Whether the variable means what its writer meant."""
    value = facts.environ.get(VISIBLE)
    if value is None:
        return VARIABLE.ok("not set, so every card is visible")
    shown = as_set(value)
    seen = len(_usable(facts))
    if not seen or value.startswith("MIG-"):
        return _mig_named(facts, shown) if seen else VARIABLE.ok(f"{shown}; there is no card that it could leave")
    resolved = _resolved(facts)
    left = len(resolved.places)
    all_of_them = ",".join(str(number) for number in range(seen))
    # Torch also reads words such as these as "none"; whoever writes them sometimes means the opposite.
    if resolved.slip is not None:
        return VARIABLE.problem(f"{resolved.slip}; that leaves {left} of {cards(seen)}", f"`export {VISIBLE}={all_of_them}`, or: {_UNSET}")
    if left == 0:
        return VARIABLE.warning(f"{shown} hides every card", _UNSET)
    return VARIABLE.ok(f"{shown} leaves {left} of {cards(seen)}")


def _mig_named(facts: Facts, shown: str) -> Check:
    if any(row.cuda_index is not None for row in _numbered(facts)):
        return VARIABLE.ok(f"{shown} names the MIG instance that this process uses")
    return VARIABLE.problem(
        f"{shown} names no MIG instance of this machine", f"{take_instance(facts, 'Name one that is there')}; or: {_UNSET}"
    )


def take_instance(facts: Facts, words: str) -> str:
    """How to give CUDA a MIG instance that it does not have, under these words."""
    found = (row.uuid for row in _numbered(facts) if row.instance is not None and row.cuda_index is None)
    other = next((uuid for uuid in found if uuid and re.fullmatch(r"MIG-[\w/-]+", uuid)), None)
    return f"{words}: `export {VISIBLE}={other}`" if other else f"Set {VISIBLE} to a MIG UUID of this list: `nvidia-smi -L`"


def device_order(facts: Facts) -> Check | None:
    """Cards that differ are numbered by speed, unless the variable says otherwise."""
    names = {card.name for card in facts.cards} - {UNNAMED}
    if len(names) < 2:
        return None
    if facts.environ.get(ORDER) == "PCI_BUS_ID":
        return NUMBERS.ok("PCI_BUS_ID: torch and nvidia-smi number the cards alike")
    return NUMBERS.warning(
        f"the cards differ ({', '.join(sorted(names))}) and {ORDER} is not set, so CUDA counts the fastest first: cuda:0 may be another "
        "card than nvidia-smi's 0 (tuitrain sets it for its own runs, your scripts do not)",
        f"`export {ORDER}=PCI_BUS_ID`",
    )

"""One sample of every device, as JSON for scripts and as a table for people: `tuitrain gpus`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Semaphore
from typing import Any

import msgspec

from tuitrain.devices.host import HostReader
from tuitrain.devices.inventory import device_name
from tuitrain.devices.sampler import Sampler
from tuitrain.devices.samples import DeviceSample, DeviceSnapshot, HostSample, ProcessSample
from tuitrain.text import cut, plural
from tuitrain.words import gib_in_few

WAIT_SECONDS = 5.0
"""How long a driver may take for one call before its first answer."""
LOAD_SECONDS = 0.1
"""How long CPU and cards are watched for their load."""
SECOND_LOOK_SECONDS = 2.0
"""How long a driver may take for its second answer: it has been woken by the first."""

NONE = "–"
_SHORT = ("NVIDIA ", "GeForce ", "Tesla ")
_INDENT = " " * 12
_NAME_LEAST = 15
_BESIDE_NAME = 64
"""Columns of a card's line without its name, for the longest word a card with values has as its status."""
_PROCESS_HEAD = f"{'device':<7} {'pid':>8} {'type':<4} {'user':<10} {'gpu':>5} {'GiB':>5} {'RAM GiB':>7} {'age':>6} command"


def one_sample() -> DeviceSnapshot:
    """What the devices say now. A driver that hangs is waited for `WAIT_SECONDS`; the answer then says so."""
    sampler = Sampler()
    sampler.start()
    snapshot = _first(sampler)
    sampler.stop()
    return snapshot


def one_sample_with_load() -> DeviceSnapshot:
    """What the devices say now, with all that is counted from one look to the next: how busy the CPU is, each process on a card, and what
    goes over PCIe and NVLink. That takes `LOAD_SECONDS` to see."""
    reader, begin = HostReader(), time.monotonic()
    reader.read()
    sampler, looks = Sampler(interval=LOAD_SECONDS), Semaphore(0)
    sampler.subscribe(lambda snapshot: looks.release())
    sampler.start()
    snapshot = _first(sampler)
    if snapshot.devices and snapshot.error is None:
        # A driver that takes so long for a second answer has given its first one.
        if looks.acquire(timeout=WAIT_SECONDS) and looks.acquire(timeout=SECOND_LOOK_SECONDS):
            snapshot = sampler.latest()
    else:
        time.sleep(max(LOAD_SECONDS - (time.monotonic() - begin), 0.0))
    sampler.stop()
    return msgspec.structs.replace(snapshot, host=reader.read())


class Looks:
    """One sample now and then, with nothing that asks the cards in between.

    A driver that hangs is not asked anew: it would hold one more thread after each look.
    """

    def __init__(self) -> None:
        self._sampler: Sampler | None = None

    def look(self) -> DeviceSnapshot:
        """What the devices say now; `silent` where they do not in time."""
        if self._sampler is None:
            self._sampler = Sampler()
            self._sampler.start()
        snapshot = self._sampler.wait(WAIT_SECONDS)
        if not snapshot.silent:
            self.close()
        return snapshot

    def close(self) -> None:
        """Give up a look that got no answer."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None


def _first(sampler: Sampler) -> DeviceSnapshot:
    began = time.monotonic()
    snapshot = sampler.wait(WAIT_SECONDS)
    if snapshot.taken is None and snapshot.error is None:
        # Many slow calls, of which none hangs for long enough to be called so.
        return msgspec.structs.replace(snapshot, error=f"NVML not responding for {time.monotonic() - began:.0f} s")
    return snapshot


# -- for scripts ----------------------------------------------------------------------------------------------------------


def as_json(snapshot: DeviceSnapshot) -> str:
    """The snapshot as one JSON object: bytes, percent, °C, W, J, MHz, seconds, bytes a second; `null` where not available."""
    host = snapshot.host
    return msgspec.json.encode(
        {
            "driver": snapshot.driver_version,
            "cuda": snapshot.cuda_version,
            "devices": [_device(card, snapshot.time) for card in snapshot.devices],
            "host": {
                "name": host.name,
                "cores": host.cores,
                "cpu_percent": host.cpu_percent,
                "memory": {"used": host.ram_used, "total": host.ram_total},
            },
            "error": snapshot.error,
        }
    ).decode()


def _device(card: DeviceSample, now: float) -> dict[str, Any]:
    return {
        "nvml_index": card.nvml_index,
        "cuda_index": card.cuda_index,
        "uuid": card.uuid,
        "parent": card.parent,
        "instance": card.instance,
        "pci_bus_id": card.pci_bus_id,
        "name": card.name,
        "status": card.status,
        "reason": card.reason,
        "memory": {
            "used": card.memory_used,
            "free": card.memory_free,
            "total": card.memory_total,
            "reserved": card.memory_reserved,
            "unified": card.unified,
        },
        "utilization": {"gpu": card.utilization, "memory": card.memory_utilization},
        "temperature": card.temperature,
        "power": {"draw": card.power, "cap": card.power_cap},
        "energy": card.energy,
        "fan": card.fan,
        "performance_state": card.performance_state,
        "ecc": card.ecc_errors,
        "ecc_mode": card.ecc,
        "compute_mode": card.compute_mode,
        "persistence": card.persistence,
        "display": card.display,
        "mig": card.mig,
        "clocks": msgspec.to_builtins(card.clocks),
        "throttle": card.throttle,
        "pcie": {field: value for field, value in msgspec.to_builtins(card.pcie).items() if field != "lanes"},
        "nvlink": {"sent": card.nvlink.sent, "received": card.nvlink.received, "lanes": card.nvlink.lanes},
        "processes": None if card.processes is None else [_process(process, now) for process in card.processes],
    }


def _process(process: ProcessSample, now: float) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "type": process.kind,
        "name": process.name,
        "user": process.user,
        "memory": process.memory,
        "utilization": process.utilization,
        "command": process.command,
        "cpu_percent": process.cpu_percent,
        "host_memory": process.host_memory,
        "age": None if process.started is None else max(0.0, round(now - process.started, 1)),
        "foreign": process.foreign,
    }


# -- for people -----------------------------------------------------------------------------------------------------------


def as_text(snapshot: DeviceSnapshot, width: int = 80) -> str:
    """The snapshot as a table of `width` columns, the processes below it."""
    lines = [_head(snapshot)]
    if snapshot.error:
        lines += ["", f"{snapshot.error[:1].upper()}{snapshot.error[1:]}."]
    if snapshot.devices:
        names = _name_width(snapshot.devices, width)
        lines += ["", _head_of(names)]
        lines += [line for card in snapshot.devices for line in _card(card, names, width)]
        lines += _processes(snapshot, width)
    return "\n".join(line.rstrip() for line in lines)


def _head(snapshot: DeviceSnapshot) -> str:
    driver = f"driver {snapshot.driver_version}" if snapshot.driver_version else ""
    cuda = f"CUDA {snapshot.cuda_version}" if snapshot.cuda_version else ""
    return " · ".join(word for word in (driver, cuda, _host(snapshot.host)) if word)


def _host(host: HostSample) -> str:
    load = "" if host.cpu_percent is None else f"{host.cpu_percent:.0f} % · "
    return f"{host.cores} {plural('core', host.cores)} · {load}RAM {_pair(host.ram_used, host.ram_total)} GiB"


def _card(card: DeviceSample, names: int, width: int) -> list[str]:
    """The card's line, and what has to be said about it."""
    unwell = card.status not in ("ok", "hidden")
    notes = [card.reason] if card.reason else []
    if card.unified:
        notes.append("unified memory: the system's RAM, shared with everything else")
    if card.throttle:
        notes.append(f"held down: {', '.join(card.throttle)}")
    line = f"{_which(card, names)} {card.status}" if unwell else _numbers(card, names)
    return [line, *(part for note in notes for part in _wrap(note, width))]


def _name_width(cards: Sequence[DeviceSample], width: int) -> int:
    """Columns for names: as many as the longest has, or as the other columns leave."""
    from rich.cells import cell_len

    return max(min(width - _BESIDE_NAME, max(cell_len(_short(card)) for card in cards)), _NAME_LEAST)


def _head_of(names: int) -> str:
    name = "name".ljust(names)
    return f"{'cuda':<7} {'nvml':<4} {'bus':<9} {name} {'mem GiB':>9} {'gpu':>5} {'temp':>6} {'power':>10} status"


def _which(card: DeviceSample, names: int) -> str:
    cuda = NONE if card.cuda_index is None else f"cuda:{card.cuda_index}"
    nvml = str(card.nvml_index) if card.instance is None else f"{card.nvml_index}.{card.instance}"
    return f"{cuda:<7} {nvml:<4} {_cell(_bus(card.pci_bus_id), 9)} {_cell(_short(card), names)}"


def _numbers(card: DeviceSample, names: int) -> str:
    memory = _pair(card.memory_used, card.memory_total)
    gpu = _unit(card.utilization, " %")
    temperature = _unit(card.temperature, " °C")
    power = NONE if card.power is None else f"{card.power:.0f}/{NONE if card.power_cap is None else format(card.power_cap, '.0f')} W"
    return f"{_which(card, names)} {memory:>9} {gpu:>5} {temperature:>6} {power:>10} {card.status}"


def _processes(snapshot: DeviceSnapshot, width: int) -> list[str]:
    rows = [(device_name(card), process) for card in snapshot.devices for process in card.processes or ()]
    if not rows:
        unknown = all(card.processes is None for card in snapshot.devices)
        return ["", "The driver does not list processes." if unknown else "No process is on a card."]
    return ["", _PROCESS_HEAD, *(cut(_process_line(name, process, snapshot.time), width) for name, process in rows)]


def _process_line(name: str, process: ProcessSample, now: float) -> str:
    command = process.short_command or process.name or ("another container's" if process.foreign else "not visible here")
    age = NONE if process.started is None else _age(now - process.started)
    user = _cell(process.user or NONE, 10)
    share = NONE if process.utilization is None else f"{process.utilization:.0f} %"
    sizes = f"{_gib(process.memory):>5} {_gib(process.host_memory):>7}"
    return f"{name:<7} {process.pid:>8} {process.kind:<4} {user} {share:>5} {sizes} {age:>6} {command}"


def _short(card: DeviceSample) -> str:
    name = card.name
    for word in _SHORT:
        name = name.replace(word, "")
    # Of an instance the end tells it apart from the others ("MIG 1g.10gb").
    return name if card.instance is None else f"└ {name[name.find('MIG') :]}"


def _bus(pci_bus_id: str | None) -> str:
    """ "00000000:C1:00.0" is C1:00.0; a domain other than 0 is kept without its leading zeros."""
    return NONE if pci_bus_id is None else pci_bus_id.lstrip("0").lstrip(":")


def _pair(used: int | None, total: int | None) -> str:
    return NONE if used is None and total is None else f"{_gib(used)}/{_gib(total)}"


def _gib(size: int | None) -> str:
    return NONE if size is None else gib_in_few(size)


def _unit(value: int | None, unit: str) -> str:
    return NONE if value is None else f"{value}{unit}"


def _age(seconds: float) -> str:
    """Whole units that have gone by, as the GPU screen counts them: what is rounded up would read "60 min" and "24 h"."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(seconds, 0))} s"


def _cell(text: str, width: int) -> str:
    """`text` in exactly `width` columns."""
    from rich.cells import set_cell_size

    return set_cell_size(cut(text, width), width)


def _wrap(note: str, width: int) -> Sequence[str]:
    import textwrap

    return textwrap.wrap(note, width, initial_indent=_INDENT, subsequent_indent=_INDENT)

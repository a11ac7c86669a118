"""All that is known of one card, as lines of a label and a value."""

from __future__ import annotations

import msgspec

from tuitrain.devices import Choice, DeviceSample, DeviceSnapshot, Link
from tuitrain.tui import format as words
from tuitrain.tui.gpus import cards


class Fact(msgspec.Struct, frozen=True):
    """A label and its value. `wide` ones get a whole line; `loud` ones are what a person should see first."""

    label: str
    value: str
    wide: bool = False
    loud: bool = False


def facts(choice: Choice, snapshot: DeviceSnapshot) -> list[Fact]:
    """The facts of a card, or of the cpu."""
    card = choice.device
    if card is None:
        return _host_facts(snapshot)
    return [*_identity(card), *_work(card), *_links(card), *_settings(card, snapshot)]


def _identity(card: DeviceSample) -> list[Fact]:
    cuda = words.NONE if card.cuda_index is None else f"cuda:{card.cuda_index}"
    lines = []
    if card.status != "ok":
        lines.append(Fact("status", f"{card.status}: {card.reason}" if card.reason else card.status, wide=True, loud=True))
    elif card.reason:
        lines.append(Fact("status", f"ok, but not for CUDA: {card.reason}", wide=True))
    brake = "nothing" if card.throttle == () else cards.held_back(card)
    return [
        *lines,
        Fact("uuid", card.uuid or words.NONE, wide=True),
        Fact("used by", cards.holders(card), wide=True),
        Fact("held back by", brake, wide=True, loud=bool(card.throttle)),
        Fact("CUDA · NVML", f"{cuda} · {card.nvml_index}" + ("" if card.instance is None else f".{card.instance}")),
        Fact("bus id", cards.bus(card)),
    ]


def _work(card: DeviceSample) -> list[Fact]:
    kind = "memory (unified)" if card.unified else "memory"
    clocks = card.clocks
    return [
        Fact(kind, cards.memory(card)),
        Fact("free · reserved", f"{words.size(card.memory_free)} · {words.size(card.memory_reserved)}"),
        Fact("gpu · memory busy", f"{words.percent(card.utilization)} · {words.percent(card.memory_utilization)}"),
        Fact("temperature · fan", f"{cards.celsius(card.temperature)} · {words.percent(card.fan)}"),
        Fact("power", cards.power(card)),
        Fact("energy", _energy(card.energy)),
        Fact("state · sm clock", f"{card.performance_state or words.NONE} · {cards.megahertz(clocks.sm)}"),
        Fact("graphics clock", _of(clocks.graphics, clocks.graphics_max)),
        Fact("memory clock", _of(clocks.memory, clocks.memory_max)),
    ]


def _links(card: DeviceSample) -> list[Fact]:
    pcie, nvlink = card.pcie, card.nvlink
    return [
        Fact("PCIe", _lanes(pcie)),
        Fact("PCIe sent", _rate(pcie.sent)),
        Fact("PCIe received", _rate(pcie.received)),
        Fact("NVLink", words.NONE if nvlink.lanes is None else f"{nvlink.lanes} up"),
        Fact("NVLink sent", _rate(nvlink.sent)),
        Fact("NVLink received", _rate(nvlink.received)),
    ]


def _settings(card: DeviceSample, snapshot: DeviceSnapshot) -> list[Fact]:
    errors = "" if card.ecc_errors is None or not card.ecc else f", {card.ecc_errors:,} uncorrected"
    return [
        Fact("ECC", _on(card.ecc) + errors, loud=bool(card.ecc and card.ecc_errors)),
        Fact("compute mode", card.compute_mode or words.NONE),
        Fact("persistence · MIG", f"{_on(card.persistence)} · {_on(card.mig)}"),
        Fact("display", _on(card.display)),
        Fact("driver · CUDA", f"{snapshot.driver_version or words.NONE} · {snapshot.cuda_version or words.NONE}"),
    ]


def _host_facts(snapshot: DeviceSnapshot) -> list[Fact]:
    host = snapshot.host
    return [
        Fact("usable cores", f"{host.cores:,}"),
        Fact("CPU", words.percent(host.cpu_percent)),
        Fact("RAM", f"{words.gib(host.ram_used)}/{words.gib(host.ram_total)} GiB"),
    ]


def _on(value: bool | None) -> str:
    return words.NONE if value is None else "on" if value else "off"


def _of(now: int | None, most: int | None) -> str:
    if now is None:
        return words.NONE
    return cards.megahertz(now) if most is None else f"{now:,} of {cards.megahertz(most)}"


def _lanes(pcie: Link) -> str:
    """ "gen 4 of 5 · x16"."""
    generation, width = _now_of(pcie.generation, pcie.generation_max), _now_of(pcie.width, pcie.width_max)
    known = (f"gen {generation}" if pcie.generation is not None else "", f"x{width}" if pcie.width is not None else "")
    return " · ".join(part for part in known if part) or words.NONE


def _now_of(now: int | None, most: int | None) -> str:
    if now is None:
        return words.NONE
    return str(now) if most in (None, now) else f"{now} of {most}"


def _rate(value: int | None) -> str:
    return words.NONE if value is None else f"{words.size(value)}/s"


def _energy(joules: float | None) -> str:
    return words.NONE if joules is None else f"{joules / 3.6e6:,.1f} kWh"

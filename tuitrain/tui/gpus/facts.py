"""All that is known of one card, as lines of a label and a value."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from tuitrain import words
from tuitrain.devices import Choice, DeviceSample, DeviceSnapshot, HistoryPoint, Link
from tuitrain.tui.gpus import cards
from tuitrain.tui.gpus.history import last_known

_ALMOST_AN_HOUR = 3500
"""Seconds: a past as long as this is as long as it gets."""


class Fact(msgspec.Struct, frozen=True):
    """A label and its value. `wide` ones get a whole line; `loud` ones are what a person should see first, `old` ones are of the past."""

    label: str
    value: str
    wide: bool = False
    loud: bool = False
    old: bool = False


_REST = Fact("everything else", "is the card's: of an instance NVML tells its memory and its processes only", wide=True)


def facts(choice: Choice, snapshot: DeviceSnapshot, past: Sequence[HistoryPoint] = ()) -> list[Fact]:
    """The facts of a card, or of the cpu; of a card that tells nothing what it told in its `past`, oldest first."""
    card = choice.device
    if card is None:
        return _host_facts(snapshot)
    if cards.silent(card):
        return [*_status(card), *_last_seen(past, snapshot), *_names(card), _software(snapshot)]
    if card.instance is not None:
        return [*_status(card), *_names(card), _use(card), _REST, *_memory(card), _software(snapshot)]
    brake = "nothing" if card.throttle == () else cards.held_back(card)
    brakes = Fact("held back by", brake, wide=True, loud=bool(card.throttle))
    work = (*_memory(card), *_work(card), *_links(card), *_settings(card), _software(snapshot))
    return [*_status(card), *_names(card), _use(card), brakes, *work]


def _status(card: DeviceSample) -> list[Fact]:
    if card.status != "ok":
        return [Fact("status", cards.trouble(card), wide=True, loud=True)]
    return [Fact("status", f"ok, but not for CUDA: {card.reason}", wide=True)] if card.reason else []


def _last_seen(past: Sequence[HistoryPoint], snapshot: DeviceSnapshot) -> list[Fact]:
    """When the card told something for the last time, what that was, and who knows more."""
    advice = Fact("what to do", "press d: the doctor looks for the cause and what mends it", wide=True)
    last = last_known(past)
    if last is None:
        whole_hour = past and snapshot.time - past[0].time > _ALMOST_AN_HOUR
        return [Fact("last seen", "not in the last hour" if whole_hour else "not since tuitrain was opened", wide=True), advice]
    when = f"{time.strftime('%H:%M:%S', time.localtime(last.time))}, {words.ago(max(snapshot.time - last.time, 0.0))}"
    values = (
        "" if last.memory_used is None else f"{words.size(last.memory_used)} in use",
        "" if last.utilization is None else f"{words.percent(last.utilization)} busy",
        "" if last.power is None else words.watts(last.power),
        "" if last.temperature is None else words.celsius(last.temperature),
    )
    told = " · ".join(value for value in values if value)
    return [Fact("last seen", when, wide=True), Fact("what it told then", told, wide=True, old=True), advice]


def _names(card: DeviceSample) -> list[Fact]:
    cuda = words.NONE if card.cuda_index is None else f"cuda:{card.cuda_index}"
    return [
        Fact("uuid", card.uuid or words.NONE, wide=True),
        Fact("CUDA · NVML", f"{cuda} · {card.nvml_index}" + ("" if card.instance is None else f".{card.instance}")),
        Fact("bus id", cards.bus(card)),
    ]


def _use(card: DeviceSample) -> Fact:
    return Fact("used by", cards.holders(card), wide=True)


def _memory(card: DeviceSample) -> list[Fact]:
    kind = "memory (unified)" if card.unified else "memory"
    return [
        Fact(kind, cards.memory(card)),
        Fact("free · reserved", f"{words.size(card.memory_free)} · {words.size(card.memory_reserved)}"),
    ]


def _work(card: DeviceSample) -> list[Fact]:
    clocks = card.clocks
    return [
        Fact("gpu · memory busy", f"{words.percent(card.utilization)} · {words.percent(card.memory_utilization)}"),
        Fact("temperature · fan", f"{words.celsius(card.temperature)} · {words.percent(card.fan)}"),
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


def _settings(card: DeviceSample) -> list[Fact]:
    errors = "" if card.ecc_errors is None or not card.ecc else f", {card.ecc_errors:,} uncorrected"
    return [
        Fact("ECC", _on(card.ecc) + errors, loud=bool(card.ecc and card.ecc_errors)),
        Fact("compute mode", card.compute_mode or words.NONE),
        Fact("persistence · MIG", f"{_on(card.persistence)} · {_on(card.mig)}"),
        Fact("display", _on(card.display)),
    ]


def _software(snapshot: DeviceSnapshot) -> Fact:
    return Fact("driver · CUDA", f"{snapshot.driver_version or words.NONE} · {snapshot.cuda_version or words.NONE}")


def _host_facts(snapshot: DeviceSnapshot) -> list[Fact]:
    host = snapshot.host
    # A larger one limits nothing: other processors are not this process's.
    limit = f", by a quota of {host.quota:g}" if host.quota is not None and host.quota < host.cores + 1 else ""
    return [
        Fact("usable cores", f"{host.cores:,}{limit}"),
        Fact("CPU", words.percent(host.cpu_percent)),
        Fact("RAM", words.filled(host.ram_used, host.ram_total)),
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

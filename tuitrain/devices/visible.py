"""Which card is which `cuda:N` of this process: CUDA_VISIBLE_DEVICES read as torch and CUDA read it, and CUDA_DEVICE_ORDER.

NVML knows nothing of either, and its numbers are not CUDA's: cards are matched by UUID, or by their place on the PCI bus. Of MIG, NVIDIA's
user guide ("CUDA Device Enumeration") says that a process sees one compute instance only, and no whole card beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tuitrain.devices.samples import DeviceSample
from tuitrain.text import clean

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"

_MEANT_AS_NONE = ("", "-1", "none", "NoDevFiles")
"""People write these to hide cards; any other entry that names no card is a slip of theirs."""


class Visible(msgspec.Struct, frozen=True):
    """Places of the visible cards in PCI order, in the order of their CUDA ordinals, and why any other card is hidden.

    `slip` is a sentence where the variable does not do what its writer meant: an entry names no card, or a card twice.
    """

    places: tuple[int, ...]
    why_hidden: str | None
    slip: str | None = None


def as_set(value: str) -> str:
    """The variable with its value, as a sentence shows it."""
    return f'{VISIBLE}="{clean(value)}"'


def with_cuda_indexes(rows: Sequence[DeviceSample], environ: Mapping[str, str]) -> tuple[DeviceSample, ...]:
    """The same cards and MIG instances with `cuda_index`, and with `status` "hidden" and a `reason` where CUDA does not offer one.

    A card that this user may not open is none of CUDA's and shifts no number.
    """
    cards = in_pci_order([row for row in rows if row.instance is None and row.status != "no permission"])
    value = environ.get(VISIBLE)
    by_uuid = value is not None and value.startswith(("GPU-", "MIG-"))
    if environ.get(ORDER) != "PCI_BUS_ID" and not by_uuid and len({card.name for card in cards}) > 1:
        reason = f"{ORDER} is not PCI_BUS_ID and the cards differ, so only CUDA knows which of them is cuda:0"
        return tuple(msgspec.structs.replace(row, cuda_index=None, reason=row.reason or reason) for row in rows)
    if value is not None and value.startswith("MIG-"):
        return _named_instance(rows, value)
    seen = resolve(value, [card.uuid for card in cards])
    visible = [cards[place].nvml_index for place in seen.places]
    instances = [row for index in visible for row in rows if row.nvml_index == index and row.instance is not None]
    # CUDA gives a process one instance, the first, and beside an instance no whole card.
    whole = [row for index in visible for row in rows if row.nvml_index == index and row.instance is None and not row.mig]
    offered = {_place(row): ordinal for ordinal, row in enumerate(instances[:1] or whole)}
    return tuple(
        _with_index(row, offered.get(_place(row)), _why_not(row, rows) if row.nvml_index in visible else seen.why_hidden) for row in rows
    )


def _named_instance(rows: Sequence[DeviceSample], value: str) -> tuple[DeviceSample, ...]:
    """CUDA_VISIBLE_DEVICES names MIG instances: CUDA offers the first one named, by its UUID or a start of it that fits no other."""
    entry = value.split(",")[0].strip()
    matches = [row for row in rows if row.instance is not None and row.uuid is not None and row.uuid.startswith(entry)]
    shown = as_set(value)
    if len(matches) != 1:
        why = f'{shown}: CUDA stops reading at "{clean(entry)}", which names no MIG instance'
        return tuple(_with_index(row, None, why) for row in rows)
    chosen = _place(matches[0])
    return tuple(_with_index(row, 0 if _place(row) == chosen else None, f"hidden by {shown}") for row in rows)


def _why_not(row: DeviceSample, rows: Sequence[DeviceSample]) -> str:
    """Why CUDA does not offer a card or instance that is visible."""
    if row.instance is not None:
        return f"a process sees one MIG instance only; for this one set {VISIBLE}={row.uuid}"
    if any(other.instance is not None and other.nvml_index == row.nvml_index for other in rows):
        return "in MIG mode: choose one of its instances"
    if row.mig:
        return f"in MIG mode without an instance; to use the whole card, close tuitrain, then: sudo nvidia-smi -i {row.nvml_index} -mig 0"
    return f"CUDA offers no whole card beside a MIG instance; for this one set {VISIBLE}={row.uuid}"


def _place(row: DeviceSample) -> tuple[int, int | None]:
    return row.nvml_index, row.instance


def _with_index(row: DeviceSample, ordinal: int | None, why_hidden: str | None) -> DeviceSample:
    if ordinal is not None or row.status != "ok":
        return msgspec.structs.replace(row, cuda_index=ordinal)
    return msgspec.structs.replace(row, cuda_index=None, status="hidden", reason=why_hidden)


def in_pci_order(cards: list[DeviceSample]) -> list[DeviceSample]:
    """In the order of the bus; NVML's own order, which is nearly always the same, where a card's place is not known."""
    if any(card.pci_bus_id is None for card in cards):
        return sorted(cards, key=lambda card: card.nvml_index)
    # Fixed-width hexadecimal "domain:bus:device.function": its text sorts as the bus does.
    return sorted(cards, key=lambda card: str(card.pci_bus_id).lower())


def resolve(value: str | None, uuids: Sequence[str | None]) -> Visible:
    """Which cards `value` of CUDA_VISIBLE_DEVICES leaves visible, by torch's rules.

    The first entry that names no card ends the list, a card named twice empties it, and so does a word such as "none".

    Args:
        value: the variable's value, `None` where it is not set.
        uuids: the UUIDs of the cards, in PCI order; `None` where unknown.
    """
    if value is None:
        return Visible(tuple(range(len(uuids))), None)
    shown = as_set(value)
    if value.startswith("MIG-"):
        return _none(f"{shown} names a MIG instance and no card")
    entries = value.split(",")
    places = _uuid_places(entries, uuids) if value.startswith("GPU-") else _numbered_places(entries)
    if places is None:
        return _none(f"{shown} names a card twice, and that hides every card")
    known = next((at for at, place in enumerate(places) if place >= len(uuids)), len(places))
    stopper = entries[known].strip() if known < len(entries) else ""
    if stopper in _MEANT_AS_NONE:
        return Visible(tuple(places[:known]), f"hidden by {shown}")
    stops = f'CUDA stops reading at "{clean(stopper)}", which names no card'
    return Visible(tuple(places[:known]), f"hidden by {shown}; {stops}", slip=f"{shown}: {stops}")


def _none(slip: str) -> Visible:
    return Visible((), slip, slip=slip)


def _numbered_places(entries: Sequence[str]) -> list[int] | None:
    places: list[int] = []
    for entry in entries:
        place = _leading_number(entry.strip())
        if place in places:
            return None
        if place < 0:
            break
        places.append(place)
    return places


def _leading_number(entry: str) -> int:
    """The number at the start of `entry` as C's strtoul reads it ("1gpu2" is 1), -1 where there is none."""
    sign, digits = (entry[0], entry[1:]) if entry[:1] in ("+", "-") else ("", entry)
    length = next((at for at, character in enumerate(digits) if not character.isdecimal()), len(digits))
    return int(sign + digits[:length]) if length else -1


def _uuid_places(entries: Sequence[str], uuids: Sequence[str | None]) -> list[int] | None:
    if len(set(named := _uuid_entries(entries))) < len(named):
        return None
    places: list[int] = []
    for entry in named:
        matches = [place for place, uuid in enumerate(uuids) if uuid is not None and uuid.startswith(entry)]
        # A prefix of several UUIDs names none of them.
        if len(matches) != 1:
            break
        if matches[0] in places:
            return None
        places.append(matches[0])
    return places


def _uuid_entries(entries: Sequence[str]) -> list[str]:
    end = next((at for at, entry in enumerate(entries) if not entry.startswith("GPU-")), len(entries))
    return list(entries[:end])

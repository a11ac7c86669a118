"""Which card is which `cuda:N` of this process: CUDA_VISIBLE_DEVICES read as torch and CUDA read it, and CUDA_DEVICE_ORDER.

NVML knows nothing of either, and its numbers are not CUDA's: cards are matched by UUID, or by their place on the PCI bus.
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
    """Places of the visible cards in PCI order, in the order of their CUDA ordinals, and why any other card is hidden."""

    places: tuple[int, ...]
    why_hidden: str | None


def with_cuda_indexes(cards: Sequence[DeviceSample], environ: Mapping[str, str]) -> tuple[DeviceSample, ...]:
    """The same cards with `cuda_index`, and with `status` "hidden" and a `reason` where CUDA does not offer a card.

    A card that this user may not open is none of CUDA's and shifts no number.
    """
    in_order = sorted((card for card in cards if card.status != "no permission"), key=_pci_place)
    value = environ.get(VISIBLE)
    visible = resolve(value, [card.uuid for card in in_order])
    by_uuid = value is not None and value.startswith("GPU-")
    if environ.get(ORDER) != "PCI_BUS_ID" and not by_uuid and len({card.name for card in in_order}) > 1:
        reason = f"{ORDER} is not PCI_BUS_ID and the cards differ, so only CUDA knows which of them is cuda:0"
        return tuple(msgspec.structs.replace(card, cuda_index=None, reason=card.reason or reason) for card in cards)
    ordinals = {in_order[place].nvml_index: ordinal for ordinal, place in enumerate(visible.places)}
    return tuple(_with_index(card, ordinals.get(card.nvml_index), visible.why_hidden) for card in cards)


def _with_index(card: DeviceSample, ordinal: int | None, why_hidden: str | None) -> DeviceSample:
    if ordinal is not None or card.status != "ok":
        return msgspec.structs.replace(card, cuda_index=ordinal)
    return msgspec.structs.replace(card, cuda_index=None, status="hidden", reason=why_hidden)


def _pci_place(card: DeviceSample) -> tuple[str, int]:
    # Fixed-width hexadecimal "domain:bus:device.function": its text sorts as the bus does. Without one a card comes last.
    return (card.pci_bus_id.lower() if card.pci_bus_id else "~", card.nvml_index)


def resolve(value: str | None, uuids: Sequence[str | None]) -> Visible:
    """Which cards `value` of CUDA_VISIBLE_DEVICES leaves visible, by torch's rules.

    The first entry that names no card ends the list, a card named twice empties it, and so does a word such as "none".

    Args:
        value: the variable's value, `None` where it is not set.
        uuids: the UUIDs of the cards, in PCI order; `None` where unknown.
    """
    if value is None:
        return Visible(tuple(range(len(uuids))), None)
    shown = f'{VISIBLE}="{clean(value)}"'
    if value.startswith("MIG-"):
        return Visible((), f"{shown} names MIG instances, which are not listed here")
    entries = value.split(",")
    places = _uuid_places(entries, uuids) if value.startswith("GPU-") else _numbered_places(entries)
    if places is None:
        return Visible((), f"{shown} names a card twice, and that hides every card")
    known = next((at for at, place in enumerate(places) if place >= len(uuids)), len(places))
    return Visible(tuple(places[:known]), _why_hidden(shown, entries, known))


def _why_hidden(shown: str, entries: Sequence[str], known: int) -> str:
    stopper = entries[known].strip() if known < len(entries) else ""
    if stopper in _MEANT_AS_NONE:
        return f"hidden by {shown}"
    return f'{shown}: CUDA stops reading at "{clean(stopper)}", which names no card'


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

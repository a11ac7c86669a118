"""The words for one card, and which columns a list of cards has."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tuitrain import words
from tuitrain.devices import CPU, Choice, DeviceSample, DeviceSnapshot, HostSample, ProcessSample
from tuitrain.devices.names import short_name
from tuitrain.tui.columns import Column
from tuitrain.tui.gpus.history import Graph
from tuitrain.tui.gpus.process_rows import unheld

FREE = "free"
_CLAUSES = ("; ", " (")


def key_of(choice: Choice) -> str:
    """What names the row, and its history, over time."""
    return CPU if choice.device is None else choice.device.key


def label(choice: Choice) -> str:
    """What the row is called; a MIG instance hangs on its card."""
    return f"└{choice.name}" if choice.device is not None and choice.device.parent is not None else choice.name


def name(choice: Choice, width: int) -> str:
    """The product's name; of an instance that has no room for it the profile alone, which tells it from the others."""
    whole = short_name(choice.title)
    return whole if len(whole) <= width else whole.removeprefix("MIG ")


def answers(card: DeviceSample) -> bool:
    """Whether there are values to show: while the whole driver does not respond the cards keep their last ones."""
    return card.status == "ok" or (card.status == "not responding" and any(value is not None for value in _telling(card)))


def _telling(card: DeviceSample) -> tuple[float | None, ...]:
    return card.memory_used, card.utilization, card.temperature, card.power


def trouble(card: DeviceSample, width: int = 1000) -> str:
    """The status and why: as many whole clauses as `width` has room for, but at least the first one."""
    reason = card.reason or ""
    text = reason if card.status in reason else f"{card.status}: {reason}" if reason else card.status
    # Whatever a card that is hidden says of itself is why.
    marks = _CLAUSES if card.status == "hidden" else (*_CLAUSES, ": ")
    while len(text) > width and (ends := [end for mark in marks if (end := text.rfind(mark)) > 0]):
        text = text[: max(ends)]
    return text


def silent(card: DeviceSample) -> bool:
    """Whether nothing is known of the card but its name and why."""
    return card.status != "hidden" and not answers(card)


def memory(card: DeviceSample) -> str:
    """ "7.0/80 GiB", and whose memory it is where the card has none of its own."""
    if card.memory_used is None and card.memory_total is None:
        return "unified" if card.unified else words.NONE
    return words.filled(card.memory_used, card.memory_total)


def power(card: DeviceSample) -> str:
    """ "412/700 W"."""
    if card.power is None or card.power_cap is None:
        return words.watts(card.power)
    return f"{card.power:.0f}/{card.power_cap:.0f} W"


def megahertz(value: int | None) -> str:
    """ "1,980 MHz"."""
    return words.NONE if value is None else f"{value:,} MHz"


def held_back(card: DeviceSample, width: int = 1000) -> str:
    """What holds the clocks down, a dash where nothing does; the first reason in short, and how many more, where `width` is less."""
    if card.throttle is None:
        return words.NONE
    text = ", ".join(card.throttle) or "-"
    if len(text) <= width:
        return text
    return card.throttle[0].partition(" (")[0] + (f" +{len(card.throttle) - 1}" if len(card.throttle) > 1 else "")


def bus(card: DeviceSample) -> str:
    """The PCI bus id without the domain where it is the usual one: "65:00.0"."""
    place = card.pci_bus_id
    if place is None:
        return words.NONE
    domain, _, rest = place.partition(":")
    return rest if rest.count(":") == 1 and not domain.strip("0") else place


def holders(card: DeviceSample, width: int = 1000) -> str:
    """Who has the card: "free", or its processes' users with what they hold, the largest first; those that `width` has no room for are
    counted, and where there is room for no size there is none."""
    if card.processes is None:
        return words.NONE
    if not card.processes:
        return "its instances" if _is_cut(card) else FREE if unheld(card) is None else "nobody seen here"
    held: dict[str, int] = {}
    for process in card.processes:
        who = _who(process)
        held[who] = held.get(who, 0) + (process.memory or 0)
    largest = sorted(held.items(), key=lambda item: -item[1])
    texts = [f"{who} {words.roughly(size)}" if size else who for who, size in largest]
    for shown in range(len(texts), 0, -1):
        rest = len(texts) - shown
        text = ", ".join(texts[:shown]) + (f" +{rest}" if rest else "")
        if len(text) <= width:
            return text
    # What the largest one holds gives way before its name does.
    return largest[0][0] + (f" +{len(largest) - 1}" if len(largest) > 1 else "")


def is_free(card: DeviceSample) -> bool:
    """Whether nobody is seen who wants it: a desktop on it is in nobody's way."""
    if card.status != "ok" or card.processes is None or _is_cut(card):
        return False
    return unheld(card) is None and not any(process.wants_the_card for process in card.processes)


def _is_cut(card: DeviceSample) -> bool:
    """Whether its instances are used in its place."""
    return bool(card.mig) and card.parent is None


def _who(process: ProcessSample) -> str:
    if process.ours:
        return "this tuitrain"
    if process.foreign:
        return "another container"
    return process.user or "not visible"


# -- graphs -----------------------------------------------------------------------------------------------------------


def graphs_of(choice: Choice, snapshot: DeviceSnapshot) -> tuple[Graph, ...]:
    """The graphs of a card, or of the cpu."""
    card, host = choice.device, snapshot.host
    if card is None:
        ram = (host.ram_total or 0) / 2**30
        return (
            Graph("CPU", "CPU", "%", 100.0, lambda point: point.utilization),
            Graph("RAM", "RAM", "GiB", ram, lambda point: _gib(point.memory_used)),
        )
    total = card.memory_total or (host.ram_total if card.unified else None) or 0
    held = Graph("memory", "memory", "GiB", total / 2**30, lambda point: _gib(point.memory_used))
    if card.instance is not None:
        # NVML tells nothing else of an instance alone.
        return (held,)
    return (
        Graph("utilization", "util", "%", 100.0, lambda point: point.utilization),
        held,
        Graph("power", "power", "W", card.power_cap or 0.0, lambda point: point.power, quiet=True),
        Graph("temperature", "temp", "°C", 100.0, lambda point: point.temperature, quiet=True),
    )


def _gib(size: int | None) -> float | None:
    return None if size is None else size / 2**30


# -- columns ----------------------------------------------------------------------------------------------------------


_COLUMNS = (
    Column("gpu", "card", 7),
    Column("name", "name", 10),
    Column("memory bar", "memory", 8),
    Column("memory", "used/total", 10, True),
    Column("utilization bar", "", 6),
    Column("utilization", "util", 5, True),
    Column("temperature", "temp", 6, True),
    Column("power", "power/cap", 9, True),
    Column("fan", "fan", 5, True),
    Column("state", "P", 3, True),
    Column("clock", "sm clock", 9, True),
    Column("memory utilization", "mem util", 8, True),
    Column("nvml", "nvml", 4, True),
    Column("bus", "bus id", 12),
    Column("held back", "held back by", 14),
    Column("holders", "used by", 16),
)
# In the order in which they come as the list grows.
_MORE = ("utilization bar", "held back", "holders", "fan", "state", "clock", "memory utilization", "bus", "nvml")
_BAR_MOST = 12
_NAME_MOST = 20
_HELD_BACK_MOST = 20


def columns(width: int, choices: Sequence[Choice], host: HostSample) -> list[Column]:
    """The columns of a list `width` cells wide, a cell between each two; what is left makes names, bars and users longer."""
    sizes = {column.name: column.width for column in _COLUMNS}
    totals = [choice.device.memory_total for choice in choices if choice.device is not None]
    sizes["gpu"] = max(sizes["gpu"], *(len(label(choice)) for choice in choices))
    sizes["memory"] = max(map(_memory_cells, (*totals, host.ram_total)))
    chosen = [column.name for column in _COLUMNS if column.name not in _MORE]
    spare = width - sum(sizes[name] + 1 for name in chosen) + 1
    for name in _MORE:
        if spare < sizes[name] + 1:
            break
        chosen.append(name)
        spare -= sizes[name] + 1
    longest = max((len(short_name(choice.title)) for choice in choices if choice.device is not None), default=0)
    wishes = {"name": min(longest, _NAME_MOST), "memory bar": _BAR_MOST, "utilization bar": _BAR_MOST, "held back": _HELD_BACK_MOST}
    for name, most in wishes.items():
        if name in chosen:
            more = min(max(most - sizes[name], 0), spare)
            sizes[name] += more
            spare -= more
    last = "holders" if "holders" in chosen else "name"
    sizes[last] += max(spare, 0)
    return [msgspec.structs.replace(column, width=sizes[column.name]) for column in _COLUMNS if column.name in chosen]


def _memory_cells(total: int | None) -> int:
    """Cells for "79.6/80 GiB" whatever is used, so that nothing moves."""
    return max(len(words.filled(used, total)) for used in (total, min(total or 0, 99 * 2**30)))


def cell(choice: Choice, column: str) -> str:
    """The text of a card's column; bars have none."""
    card = choice.device
    assert card is not None
    match column:
        case "gpu":
            return choice.name
        case "name":
            return short_name(choice.title)
        case "memory":
            return memory(card)
        case "utilization":
            return words.percent(card.utilization)
        case "temperature":
            return words.celsius(card.temperature)
        case "power":
            return power(card)
        case "fan":
            return words.percent(card.fan)
        case "state":
            return card.performance_state or words.NONE
        case "clock":
            return megahertz(card.clocks.sm)
        case "memory utilization":
            return words.percent(card.memory_utilization)
        case "nvml":
            return str(card.nvml_index)
        case "bus":
            return bus(card)
    return ""

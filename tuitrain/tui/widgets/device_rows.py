"""One device as lines: with its bars, or in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.style import Style
from textual.strip import Strip

from tuitrain import words
from tuitrain.devices import Choice, DeviceSample, HistoryPoint, HostSample, busy_words
from tuitrain.devices.names import short_name
from tuitrain.text import plural
from tuitrain.tui.gpus.sample import is_full, is_hot, memory_share, ram_share
from tuitrain.tui.look import Palette
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.strips import Row, bar, fit, spark, spread
from tuitrain.tui.widgets.memory_split import split_bar, split_words

_NAME = 6
"""Cells of "cuda:0", so that short lists look alike."""
_MARK = 3
"""Cells before a name."""
_LABEL = 7
"""Cells before a meter."""


@dataclass(frozen=True)
class DeviceRows:
    """Draws the devices of one moment.

    Attributes:
        palette: the styles in use.
        host: the machine.
        history: the last seconds of a device's past, by its key.
        run_host: the process of another run that is looked at.
        own: splits the memory of the cards that the app's own run uses.
        replicas: how many replicas a device holds, by its name; none for one that is not chosen.
        name_width: cells of the names' column.
        cursor: the device that the cursor is on.
        stale: whether the numbers are old.
        bare: whether there is no card, and the cpu has the room for bars.
    """

    palette: Palette
    host: HostSample
    history: Callable[[str, float], Sequence[HistoryPoint]]
    run_host: int | None
    own: OwnCards
    replicas: dict[str, int]
    name_width: int
    cursor: str | None
    stale: bool
    bare: bool

    def _mark(self, choice: Choice) -> Row:
        palette, count = self.palette, self.replicas.get(choice.name, 0)
        row = Row("▸" if self.cursor == choice.name else " ", palette.cursor)
        row.add("▣ " if count else "▢ " if choice.selectable else "· ", palette.primary if count else palette.dim)
        style = palette.strong if count else self._tone(palette.text) if choice.selectable else palette.dim
        return row.left(label(choice.name, count), self.name_width, style).add(" ")

    def split(self, choice: Choice, width: int) -> list[Strip]:
        """Who holds the memory, where our run does."""
        split = self.own.of(choice.device) if choice.well and choice.device is not None else None
        if split is None:
            return []
        lines = split_words(split, width - 3, self.palette)
        if self.stale:
            lines = [Row("".join(segment.text for segment in line.segments), self.palette.dim) for line in lines]
        return [Row("   ").join(line).strip(width) for line in lines]

    def height(self, choice: Choice) -> int:
        """How many lines `tall` has without the split."""
        if not choice.well:
            return 2
        return 3 if choice.device is not None or self.bare else 1

    def tall(self, choice: Choice, width: int, *, split: bool = False) -> list[Strip]:
        """With its bars; `split` says who holds the memory too."""
        card = choice.device
        if not choice.well:
            reason = Row(" " * (_MARK + self.name_width)).add(choice.reason or "", self.palette.dim)
            return [self._mark(choice).add(short_name(choice.title), self.palette.dim).strip(width), reason.strip(width)]
        if card is None:
            return self._tall_cpu(choice, width)
        memory = _memory(card)
        length = min(_meter_length(width), width - _LABEL - 1 - len(memory))
        load = None if card.utilization is None else card.utilization / 100
        history = [point.utilization for point in self.history(card.key, width)]
        return [
            self._title(choice, card, width),
            self._meter("mem", memory_share(card), memory, width, length, filled=self._stacked(card, length) if split else None),
            *(self.split(choice, width) if split else []),
            self._meter("gpu", load, words.percent(card.utilization), width, length, history),
        ]

    def _title(self, choice: Choice, card: DeviceSample, width: int) -> Strip:
        """The name, who is in the way, and how hot the card is."""
        heat = Row()
        if card.temperature is not None or card.power is not None:
            self._add_heat(heat, card)
        busy = busy_words(card, self.run_host)
        title = self._mark(choice).add(busy or short_name(choice.title), self.palette.warn if busy else self._tone(self.palette.text))
        return spread(title, heat if not busy or title.width + heat.width < width else Row(), width)

    def _tall_cpu(self, choice: Choice, width: int) -> list[Strip]:
        if not self.bare:
            return [self.compact(choice, width)]
        host, cores = self.host, Row(self._cores(), self._tone(self.palette.text))
        history = [point.utilization for point in self.history("cpu", width)]
        load, length = None if host.cpu_percent is None else host.cpu_percent / 100, _meter_length(width)
        return [
            spread(self._mark(choice).add(short_name(choice.title), self._tone(self.palette.text)), cores, width),
            self._meter("ram", ram_share(host), words.filled(host.ram_used, host.ram_total), width, length),
            self._meter("cpu", load, words.percent(host.cpu_percent), width, length, history),
        ]

    def _meter(
        self,
        label: str,
        share: float | None,
        text: str,
        width: int,
        length: int,
        history: list[float | None] | None = None,
        filled: Row | None = None,
    ) -> Strip:
        palette = self.palette
        full = label == "mem" and is_full(share)
        plain = bar(share, length, self._tone(palette.warn if full else palette.primary), palette.track)
        row = Row("   ").add(f"{label} ", palette.dim).join(filled or plain)
        if history is None:
            return row.right(f" {text}", 15, self._tone(palette.warn if full else palette.text)).strip(width)
        row.right(text, 6, self._tone(palette.text)).add(" ")
        return row.add(spark(history, max(width - row.width, 0), 100.0), self._tone(palette.primary)).strip(width)

    def _stacked(self, card: DeviceSample, length: int) -> Row | None:
        """The memory's meter in its parts, where our run uses the card and the numbers are fresh."""
        split = self.own.of(card)
        if split is None or not card.memory_total or self.stale:
            return None
        return split_bar(split, card.memory_total, length, self.palette)

    def compact(self, choice: Choice, width: int) -> Strip:
        """In one line."""
        palette, card, host = self.palette, choice.device, self.host
        row = self._mark(choice)
        if not choice.well:
            return row.add(choice.reason or "", palette.dim).strip(width)
        if card is None:
            use = f"{words.percent(host.cpu_percent):>5} · {words.filled(host.ram_used, host.ram_total)}"
            whole = f"{self._cores()} · {use}"
            return row.add(whole if row.width + len(whole) <= width else use, self._tone(palette.text)).strip(width)
        if busy := busy_words(card, self.run_host):
            row.add(busy, palette.warn)
            return spread(row, Row(words.percent(card.utilization), self._tone(palette.text)), width)
        numbers = Row().right(_memory(card), 14, self._tone(palette.text))
        numbers.right(words.percent(card.utilization), 6, self._tone(palette.text))
        if width > 60:
            self._add_heat(numbers, card)
        name = fit(short_name(choice.title), max(width - row.width - numbers.width - 1, 0))
        return spread(row.add(name, self._tone(palette.text)), numbers, width)

    def _cores(self) -> str:
        return f"{self.host.cores} {plural('core', self.host.cores)}"

    def _tone(self, style: Style) -> Style:
        """Old values are dim."""
        return self.palette.dim if self.stale else style

    def _add_heat(self, row: Row, card: DeviceSample) -> None:
        """How hot the card is, and what it draws."""
        palette = self.palette
        row.right(words.celsius(card.temperature), 7, self._tone(palette.warn if is_hot(card) else palette.text))
        row.right(words.watts(card.power), 7, self._tone(palette.text))


def label(name: str, replicas: int) -> str:
    """The name, with the replicas on it where there are several: `cpu ×2`."""
    return name if replicas < 2 else f"{name} ×{replicas}"


def name_width(labels: Iterable[str]) -> int:
    """Cells of the names' column."""
    return max([_NAME, *map(len, labels)])


def _meter_length(width: int) -> int:
    return min(max(width // 3, 8), 24)


def _memory(card: DeviceSample) -> str:
    if card.unified and card.memory_used is None:
        return "shared with the system"
    return f"{'unified ' if card.unified else ''}{words.filled(card.memory_used, card.memory_total)}"

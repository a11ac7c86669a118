"""The devices: what each one does now, and which one the next run takes. The monitor is the selector."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Protocol

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.devices import Choice, DeviceSample, DeviceSnapshot, HistoryPoint, busy_words, choices, free_cuda_devices
from tuitrain.tui import format as words
from tuitrain.tui.launch.hints import Machine
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.memory_split import split_bar, split_words
from tuitrain.tui.widgets.strips import Row, bar, fit, spark, spread
from tuitrain.tui.widgets.wrap import wrap

STALE_SECONDS = 3.0
_NAMES = ("NVIDIA ", "GeForce ", "(R)", "(TM)", " CPU", " Processor")


class SamplerLike(Protocol):
    """What the screens need of `tuitrain.devices.Sampler`."""

    def latest(self) -> DeviceSnapshot:
        """What is known now; never blocks."""
        ...

    def history(self, key: str, seconds: float = 3600) -> Sequence[HistoryPoint]:
        """The last `seconds` of one device's past, oldest first."""
        ...


class Devices(Pane, can_focus=True):
    """One row for each device. `picked` is the person's choice, `None` while the configuration says auto.

    Args:
        sampler: says what the devices do.
        own: splits the memory of the cards that the app's own run uses.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("space", "pick", "Choose", show=True),
    ]

    class Picked(Message):
        """The person chose a device for the next run."""

        def __init__(self, device: str) -> None:
            super().__init__()
            self.device = device

    def __init__(self, sampler: SamplerLike, own: OwnCards) -> None:
        super().__init__(id="devices")
        self._sampler = sampler
        self._own = own
        self._snapshot = sampler.latest()
        self.picked: str | None = None
        self.in_use: tuple[str, ...] | None = None
        """The devices of the run that is shown, which are then the ones marked."""
        self.cursor = 0
        self._shown_rows: list[int] = []
        """Which device each line is about, for the mouse."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The rows."""
        return choices(self._snapshot)

    @property
    def auto(self) -> str:
        """What `auto` takes now."""
        free = free_cuda_devices(self._snapshot)
        return f"cuda:{free[0]}" if free else "cpu"

    @property
    def chosen(self) -> tuple[str, ...]:
        """The marked devices."""
        return self.in_use if self.in_use is not None else (self.picked or self.auto,)

    @property
    def usable(self) -> int:
        """How many devices a run could take."""
        return sum(choice.selectable for choice in self.choices)

    @property
    def machine(self) -> Machine:
        """What there is to choose from."""
        return Machine(self.choices, self.auto, self._snapshot.host.cores)

    def sample(self) -> None:
        """Look at the newest sample and redraw."""
        self._snapshot = self._sampler.latest()
        self._own.note(self._snapshot)
        self.redraw()

    def rows_wanted(self, width: int) -> tuple[int, int, int]:
        """Rows of all devices with their bars and who holds the memory, with their bars, and at one line each; the sentence under them
        included."""
        rows, notes = self.choices, len(self._problem(width))
        tall = sum(len(self._tall(choice, width)) for choice in rows) + notes
        return tall + sum(len(self._split(choice, width)) for choice in rows), tall, len(rows) + notes

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + by, 0), len(self.choices) - 1)
        self.redraw()

    def action_pick(self) -> None:
        """Choose the device under the cursor, if it can be."""
        rows = self.choices
        choice = rows[min(self.cursor, len(rows) - 1)]
        if not choice.selectable:
            self.notify(f"{choice.name}: {choice.reason}", severity="warning", markup=False)
            return
        self.post_message(self.Picked(choice.name))

    def on_click(self, event: events.Click) -> None:
        """A click chooses; not while a run is shown, whose devices are fixed."""
        line = event.y - 1
        index = self._shown_rows[line] if 0 <= line < len(self._shown_rows) else None
        if self.can_focus and index is not None:
            self.cursor = index
            self.action_pick()
            self.redraw()

    def on_focus(self) -> None:
        """Begin at the chosen row."""
        names = [choice.name for choice in self.choices]
        self.cursor = next((names.index(name) for name in self.chosen if name in names), 0)
        super().on_focus()

    def heading(self) -> tuple[Row, Row]:
        """The title, and the age of what is shown where it is old."""
        right = Row()
        if (age := self._age()) is not None:
            right.add(f"{age:.0f} s old", self.palette.warn)
        return Row("Devices", self.title_style()), right

    def body(self, width: int, height: int) -> list[Strip]:
        """The rows, with bars where there is room for them."""
        rows = self.choices
        self.cursor = min(self.cursor, len(rows) - 1)
        problem = [Row(line, self.palette.dim).strip(width) for line in self._problem(width)]
        splits = any(self._split(choice, width) for choice in rows)
        for split in (True, False) if splits else (False,):
            tall = [(index, line) for index, choice in enumerate(rows) for line in self._tall(choice, width, split=split)]
            if len(tall) + min(len(problem), 1) <= height:
                self._shown_rows = [index for index, _ in tall]
                return [*(line for _, line in tall), *problem]
        return self._window(rows, width, height, problem)

    def _window(self, rows: Sequence[Choice], width: int, height: int, problem: list[Strip]) -> list[Strip]:
        """One line each: the chosen ones first, or those around the cursor; the others are counted."""
        if len(rows) <= height:
            self._shown_rows = list(range(len(rows)))
            lines = [self._compact(choice, width) for choice in rows]
            return [*lines, *problem][:height]
        if self.has_focus:
            first = min(max(self.cursor - height // 2, 0), len(rows) - height + 1)
            shown = list(rows[first : first + height - 1])
            if rows[self.cursor] not in shown:
                shown = list(rows[first + 1 : first + height])
        else:
            shown = sorted(rows, key=lambda choice: choice.name not in self.chosen)[: max(height - 1, 1)]
        self._shown_rows = [rows.index(choice) for choice in shown]
        lines = [self._compact(choice, width) for choice in shown]
        if height > 1:
            lines.append(Row(f"  {len(rows) - len(shown)} more", self.palette.dim).strip(width))
        return lines

    # -- one device ---------------------------------------------------------------------------------------------------

    def _mark(self, choice: Choice) -> Row:
        palette = self.palette
        here = self.has_focus and self.choices[self.cursor].name == choice.name
        row = Row("▸" if here else " ", palette.cursor)
        chosen = choice.name in self.chosen
        row.add("▣ " if chosen else "▢ " if choice.selectable else "· ", palette.primary if chosen else palette.dim)
        return row.add(f"{choice.name:<6} ", palette.strong if chosen else self._tone(palette.text) if choice.selectable else palette.dim)

    def _split(self, choice: Choice, width: int) -> list[Strip]:
        """Who holds the memory, where our run does."""
        split = self._own.of(choice.device) if choice.selectable and choice.device is not None else None
        if split is None:
            return []
        lines = split_words(split, width - 3, self.palette)
        if self._age() is not None:
            lines = [Row("".join(segment.text for segment in line.segments), self.palette.dim) for line in lines]
        return [Row("   ").join(line).strip(width) for line in lines]

    def _tall(self, choice: Choice, width: int, *, split: bool = False) -> list[Strip]:
        card = choice.device
        if not choice.selectable:
            reason = Row("         ").add(choice.reason or "", self.palette.dim)
            return [self._mark(choice).add(_short(choice.title), self.palette.dim).strip(width), reason.strip(width)]
        if card is None:
            return self._tall_cpu(choice, width)
        heat = Row()
        if card.temperature is not None or card.power is not None:
            celsius = words.NONE if card.temperature is None else f"{card.temperature} °C"
            watts = words.NONE if card.power is None else f"{card.power:.0f} W"
            heat.right(celsius, 7, self._tone(self._heat(card.temperature))).right(watts, 7, self._tone(self.palette.text))
        busy = busy_words(card)
        title = self._mark(choice).add(busy or _short(choice.title), self.palette.warn if busy else self._tone(self.palette.text))
        share = None if card.memory_used is None or not card.memory_total else card.memory_used / card.memory_total
        memory = "shared with the system" if card.unified and card.memory_used is None else _of(card.memory_used, card.memory_total)
        history = [point.utilization for point in self._sampler.history(card.key)]
        return [
            spread(title, heat if not busy or title.width + heat.width < width else Row(), width),
            self._meter("mem", share, memory, width, filled=self._stacked(card, width) if split else None),
            *(self._split(choice, width) if split else []),
            self._meter(
                "gpu", None if card.utilization is None else card.utilization / 100, words.percent(card.utilization), width, history
            ),
        ]

    def _tall_cpu(self, choice: Choice, width: int) -> list[Strip]:
        host = self._snapshot.host
        cores = Row(f"{host.cores} core{'s' if host.cores != 1 else ''}", self._tone(self.palette.text))
        if self._snapshot.devices:
            return [self._compact(choice, width)]
        share = host.ram_used / host.ram_total if host.ram_used is not None and host.ram_total else None
        history = [point.utilization for point in self._sampler.history("cpu")]
        load = None if host.cpu_percent is None else host.cpu_percent / 100
        return [
            spread(self._mark(choice).add(_short(choice.title), self._tone(self.palette.text)), cores, width),
            self._meter("ram", share, _of(host.ram_used, host.ram_total), width),
            self._meter("cpu", load, words.percent(host.cpu_percent), width, history),
        ]

    def _meter(
        self,
        label: str,
        share: float | None,
        text: str,
        width: int,
        history: list[float | None] | None = None,
        filled: Row | None = None,
    ) -> Strip:
        palette = self.palette
        hot = share is not None and share > 0.92 and label == "mem"
        plain = bar(share, _meter_length(width), self._tone(palette.warn if hot else palette.primary), palette.track)
        row = Row("   ").add(f"{label} ", palette.dim).join(filled or plain)
        if history is None:
            return row.right(text, 15, self._tone(palette.warn if hot else palette.text)).strip(width)
        row.right(text, 6, self._tone(palette.text)).add(" ")
        return row.add(spark(history, max(width - row.width, 0), 100.0), self._tone(palette.primary)).strip(width)

    def _stacked(self, card: DeviceSample, width: int) -> Row | None:
        """The memory's meter in its parts, where our run uses the card and the numbers are fresh."""
        split = self._own.of(card)
        if split is None or not card.memory_total or self._age() is not None:
            return None
        return split_bar(split, card.memory_total, _meter_length(width), self.palette)

    def _compact(self, choice: Choice, width: int) -> Strip:
        palette, card, host = self.palette, choice.device, self._snapshot.host
        row = self._mark(choice)
        if not choice.selectable:
            return row.add(choice.reason or "", palette.dim).strip(width)
        if card is None:
            ram = f"{words.gib(host.ram_used)}/{words.gib(host.ram_total)} GiB"
            return row.add(f"{host.cores} cores · {words.percent(host.cpu_percent):>5} · {ram}", self._tone(palette.text)).strip(width)
        if busy := busy_words(card):
            row.add(busy, palette.warn)
            return spread(row, Row(words.percent(card.utilization), self._tone(palette.text)), width)
        numbers = Row().right(_of(card.memory_used, card.memory_total), 14, self._tone(palette.text))
        numbers.right(words.percent(card.utilization), 6, self._tone(palette.text))
        if width > 60:
            numbers.right(words.NONE if card.temperature is None else f"{card.temperature} °C", 7, self._tone(self._heat(card.temperature)))
            numbers.right(words.NONE if card.power is None else f"{card.power:.0f} W", 7, self._tone(palette.text))
        name = fit(_short(choice.title), max(width - row.width - numbers.width - 1, 0))
        return spread(row.add(name, self._tone(palette.text)), numbers, width)

    # -- how old, how bad ----------------------------------------------------------------------------------------------

    def _age(self) -> float | None:
        taken = self._snapshot.taken
        if taken is None or not self._snapshot.devices:
            return None
        age = time.monotonic() - taken
        return age if age >= STALE_SECONDS else None

    def _tone(self, style: Style) -> Style:
        """Old values are dim."""
        return self.palette.dim if self._age() is not None else style

    def _heat(self, temperature: int | None) -> Style:
        return self.palette.warn if temperature is not None and temperature >= 85 else self.palette.text

    def _problem(self, width: int) -> list[str]:
        snapshot = self._snapshot
        sentence = snapshot.error
        if snapshot.stalled_seconds > 0:
            sentence = f"NVML not responding for {snapshot.stalled_seconds:.0f} s"
        elif not sentence and snapshot.taken is None:
            sentence = "looking for GPUs…"
        return wrap(sentence, width) if sentence else []


def _meter_length(width: int) -> int:
    return min(max(width // 3, 8), 24)


def _short(name: str) -> str:
    for word in _NAMES:
        name = name.replace(word, "")
    return name.strip()


def _of(used: int | None, total: int | None) -> str:
    if used is None and total is None:
        return words.NONE
    return f"{words.gib(used)}/{words.gib(total)} GiB"

"""The lines of cards: one each, or four with bars and every number that matters at a glance."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.style import Style
from textual.strip import Strip

from tuitrain import words
from tuitrain.devices import Choice, DeviceSample, HostSample
from tuitrain.devices.names import short_name
from tuitrain.text import plural
from tuitrain.tui.columns import Column
from tuitrain.tui.gpus import cards
from tuitrain.tui.gpus.sample import is_full, is_hot, memory_share, ram_share
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row, bar, cell_width, spread

GUTTER = 4
"""Cells for the cursor and for the mark of a card in use."""
_REASON_FROM = "held back"
"""The column from which on a hidden card says why it is hidden."""
_FITTED = {"holders": cards.holders, "held back": cards.held_back}
"""Columns whose words depend on how many cells there are."""


class CardLines(msgspec.Struct, frozen=True):
    """Draws cards.

    Args:
        palette: the styles.
        old: whether the values are old, and dim for that.
    """

    palette: Palette
    old: bool

    def compact(self, choice: Choice, columns: Sequence[Column], host: HostSample, width: int, *, here: bool) -> Strip:
        """A card in one line."""
        card = choice.device
        row = self._gutter(choice, here=here)
        if card is None:
            return self._cpu(row, choice, host, columns, width, here=here)
        name = columns[1].width
        wide = any(column.name == _REASON_FROM for column in columns)
        if not (cards.answers(card) or (card.status == "hidden" and wide)):
            row.left(cards.label(choice), columns[0].width, self.palette.dim).add(" ")
            row.left(cards.name(choice, name), name, self.palette.dim).add(" ")
            return row.join(self._no_answer(card, width - row.width)).strip(width)
        draw = self._for(card)
        for number, column in enumerate(columns):
            row.add(" " if number else "")
            if card.status == "hidden" and column.name == _REASON_FROM:
                return row.join(self._no_answer(card, width - row.width)).strip(width)
            draw._cell(row, choice, card, column, columns, here=here)
        return row.strip(width)

    def tall(self, choice: Choice, width: int, *, here: bool) -> list[Strip]:
        """A card in four lines."""
        card, palette = choice.device, self.palette
        assert card is not None
        title = self._gutter(choice, here=here).left(cards.label(choice), 7, palette.strong if here else palette.text).add(" ")
        title.add(choice.title, palette.text)
        lines = [spread(title, Row(f"nvml {card.nvml_index} · bus {cards.bus(card)}", palette.dim), width)]
        if cards.silent(card):
            keys = Row(" " * GUTTER).add("Enter ", palette.key).add("what it told last   ", palette.dim)
            keys.add("d ", palette.key).add("what mends it", palette.dim)
            why = Row(" " * GUTTER).join(self._no_answer(card, width - GUTTER))
            return [*lines, why.strip(width), keys.strip(width), Strip.blank(width)]
        draw = self._for(card)
        return [*lines, draw._meters(card, width), draw._numbers(card, width), draw._used(card, width)]

    def host(self, choice: Choice, host: HostSample, width: int, *, here: bool) -> list[Strip]:
        """The cpu in three lines, for a machine without cards."""
        palette = self.palette
        title = self._gutter(choice, here=here).left(choice.name, 7, palette.strong).add(" ").add(choice.title, palette.text)
        cores = Row(f"{host.cores:,} {plural('core', host.cores)}", palette.text)
        load = None if host.cpu_percent is None else host.cpu_percent / 100
        ram = words.filled(host.ram_used, host.ram_total)
        length = max(width - GUTTER - 4 - 14, 8)
        return [
            spread(title, cores, width),
            Row(" " * GUTTER).join(self._meter("cpu", load, words.percent(host.cpu_percent), length, 14)).strip(width),
            Row(" " * GUTTER).join(self._meter("ram", ram_share(host), ram, length, 14)).strip(width),
        ]

    # -- parts --------------------------------------------------------------------------------------------------------

    def _for(self, card: DeviceSample) -> CardLines:
        """Hidden cards are dim like old values."""
        return msgspec.structs.replace(self, old=True) if card.status == "hidden" else self

    def _tone(self, style: Style) -> Style:
        return self.palette.dim if self.old else style

    def _gutter(self, choice: Choice, *, here: bool) -> Row:
        """The cursor, and whether the card is free, in use or gone."""
        card, palette = choice.device, self.palette
        row = Row("▸ " if here else "  ", palette.cursor)
        if card is None or card.status == "hidden" or card.cuda_index is None:
            return row.add("  " if card is None else "· ", palette.dim)
        if card.status == "not responding":
            return row.add("◌ ", palette.warn)
        if not cards.answers(card):
            return row.add("✗ ", palette.bad)
        free = cards.is_free(card)
        return row.add("○ " if free else "● ", palette.dim if free else self._tone(palette.good))

    def _no_answer(self, card: DeviceSample, width: int) -> Row:
        """The status and why, where the values would be."""
        palette = self.palette
        style = palette.dim if card.status == "hidden" else palette.bad
        text = cards.trouble(card, width)
        status = card.status if text.startswith(f"{card.status}:") else text
        return Row(status, style).add(text[len(status) :], palette.dim)

    def _cell(self, row: Row, choice: Choice, card: DeviceSample, column: Column, columns: Sequence[Column], *, here: bool) -> None:
        palette = self.palette
        if column.name == "memory bar" and card.unified:
            row.left("unified", column.width, palette.dim)
        elif column.name == "memory bar":
            row.join(self._bar(memory_share(card), column.width, full=True))
        elif column.name == "utilization bar":
            row.join(self._load(card, column.width))
        elif column.name == "gpu":
            row.left(cards.label(choice), column.width, palette.strong if here else self._tone(palette.text))
        elif column.name == "name":
            row.left(*self._name(choice, card, column, columns))
        else:
            fitted = _FITTED.get(column.name)
            text = fitted(card, column.width) if fitted else cards.cell(choice, column.name)
            place = row.right if column.right and cell_width(text) <= column.width else row.left
            place(text, column.width, self._style(card, column.name))

    def _name(self, choice: Choice, card: DeviceSample, column: Column, columns: Sequence[Column]) -> tuple[str, int, Style]:
        """The name, which gives way to what is more worth knowing where that has no column of its own."""
        palette = self.palette
        if card.status not in ("ok", "hidden"):
            return ("no answer" if column.width < len(card.status) else card.status), column.width, palette.warn
        if card.throttle and not any(one.name == "held back" for one in columns):
            return cards.held_back(card, column.width), column.width, palette.warn
        return cards.name(choice, column.width), column.width, self._tone(palette.text if card.cuda_index is not None else palette.dim)

    def _style(self, card: DeviceSample, column: str) -> Style:
        palette = self.palette
        if self.old:
            return palette.dim
        if column == "temperature" and is_hot(card):
            return palette.warn
        if column == "held back":
            return palette.warn if card.throttle else palette.dim
        if column == "holders":
            return palette.dim if cards.is_free(card) else palette.text
        return palette.dim if column in ("nvml", "bus") else palette.text

    def _bar(self, share: float | None, width: int, *, full: bool = False) -> Row:
        palette = self.palette
        style = palette.warn if full and is_full(share) else palette.primary
        # Halves: the number stands beside it, and a bar in eighths would be sent anew each second.
        return bar(share, width, self._tone(style), palette.track, parts=2)

    def _load(self, card: DeviceSample, width: int) -> Row:
        """Utilization in whole cells: it never rests, and its number stands beside it."""
        share = None if card.utilization is None else round(card.utilization / 100 * width) / width
        return self._bar(share, width)

    def _meter(self, label: str, share: float | None, text: str, length: int, room: int) -> Row:
        row = Row(f"{label} ", self.palette.dim).join(self._bar(share, length, full=label in ("mem", "ram")))
        return row.right(text, room, self._tone(self.palette.text))

    def _meters(self, card: DeviceSample, width: int) -> Strip:
        """Memory and utilization beside each other."""
        memory = f"unified {cards.memory(card)}" if card.unified and card.memory_total is not None else cards.memory(card)
        palette, room = self.palette, max(len(memory), 14) + 1
        length = max((width - GUTTER - 8 - room - 6 - 3) // 2, 4)
        row = Row(" " * GUTTER).join(self._meter("mem", memory_share(card), memory, length, room)).add("   ")
        row.add("gpu ", palette.dim).join(self._load(card, length))
        return row.right(words.percent(card.utilization), 6, self._tone(palette.text)).strip(width)

    def _numbers(self, card: DeviceSample, width: int) -> Strip:
        """Heat, power, fan, state and clocks."""
        palette = self.palette
        row = Row(" " * GUTTER).right(words.celsius(card.temperature), 6, self._style(card, "temperature"))
        for label, text, room in (
            ("", cards.power(card), 9),
            ("fan ", words.percent(card.fan), 5),
            ("", card.performance_state or words.NONE, 3),
            ("sm ", cards.megahertz(card.clocks.sm), 9),
            ("mem ", cards.megahertz(card.clocks.memory), 9),
        ):
            row.add(" · ", palette.faint).add(label, palette.dim).right(text, room, self._tone(palette.text))
        return row.strip(width)

    def _used(self, card: DeviceSample, width: int) -> Strip:
        """Who has it, and what holds it back."""
        palette = self.palette
        if card.status != "ok":
            left = Row(" " * GUTTER).add(card.reason or card.status, palette.dim if card.status == "hidden" else palette.warn)
        elif card.cuda_index is None and card.reason:
            left = Row(" " * GUTTER).add(card.reason, palette.dim)
        else:
            left = Row(" " * GUTTER).add("used by ", palette.dim).add(cards.holders(card), self._style(card, "holders"))
        if not card.throttle:
            return left.strip(width)
        return spread(left, Row("held back by ", palette.dim).add(cards.held_back(card), palette.warn), width)

    def _cpu(self, row: Row, choice: Choice, host: HostSample, columns: Sequence[Column], width: int, *, here: bool) -> Strip:
        """The cpu in the cards' columns."""
        palette = self.palette
        load = None if host.cpu_percent is None else host.cpu_percent / 100
        texts = {
            "gpu": choice.name,
            "name": short_name(choice.title),
            "memory": words.filled(host.ram_used, host.ram_total),
            "utilization": words.percent(host.cpu_percent),
            "holders": f"{host.cores:,} {plural('core', host.cores)}",
        }
        for number, column in enumerate(columns):
            row.add(" " if number else "")
            if column.name == "memory bar":
                row.join(bar(ram_share(host), column.width, palette.primary, palette.track, parts=2))
            elif column.name == "utilization bar":
                row.join(bar(load, column.width, palette.primary, palette.track, parts=2))
            else:
                style = palette.strong if here and column.name == "gpu" else palette.text
                (row.right if column.right else row.left)(texts.get(column.name, ""), column.width, style)
        return row.strip(width)

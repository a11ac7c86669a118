"""The cards: what each one does now, one of them selected."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.devices import Choice, DeviceSnapshot, choices
from tuitrain.text import plural
from tuitrain.tui.columns import titles
from tuitrain.tui.gpus import cards
from tuitrain.tui.gpus.sample import age_of, problem_of
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.gpu_card_lines import GUTTER, CardLines
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap_into

_NOTES_MOST = 2


class GpuCards(Pane, can_focus=True):
    """One line for each card, or four with `tall`; the cpu comes last."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Details"),
        Binding("tab", "screen.switch", "Processes"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000)", "First", show=False),
        Binding("end", "move(1000)", "Last", show=False),
    ]

    class Opened(Message):
        """Enter was pressed on a card."""

    class Moved(Message):
        """Another card is selected."""

    def __init__(self, snapshot: DeviceSnapshot) -> None:
        super().__init__(id="gpu-cards")
        self.first = True
        self.tall = False
        self._snapshot = snapshot
        self._rows = choices(snapshot)
        self._selected = cards.key_of(self._rows[0])
        self._top = 0
        self._places: list[int] = []
        """Which row each line is about, for the mouse."""

    @property
    def rows(self) -> tuple[Choice, ...]:
        """The cards in their order, and the cpu."""
        return self._rows

    @property
    def cursor(self) -> int:
        """The place of the selected row; the first one where it is gone."""
        return next((place for place, row in enumerate(self._rows) if cards.key_of(row) == self._selected), 0)

    @property
    def selected(self) -> Choice:
        """The row under the cursor."""
        return self._rows[self.cursor]

    def show(self, snapshot: DeviceSnapshot) -> None:
        """Another sample."""
        # Nobody chose the cpu while it was alone.
        first = len(self._rows) == 1
        self._snapshot, self._rows = snapshot, choices(snapshot)
        self._selected = cards.key_of(self._rows[0] if first else self.selected)
        self.redraw()

    def notes_wanted(self, width: int) -> int:
        """Rows of the sentence under the cards."""
        return len(self._notes(width - 4))

    # -- keys and mouse -----------------------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Select another row."""
        place = min(max(self.cursor + by, 0), len(self._rows) - 1)
        self._selected = cards.key_of(self._rows[place])
        self.redraw()
        self.post_message(self.Moved())

    def action_page(self, by: int) -> None:
        """Move by what one sees."""
        self.action_move(by * max(len(set(self._places)) - 1, 1))

    def action_open(self) -> None:
        """Show all that is known of the card."""
        self.post_message(self.Opened())

    def on_click(self, event: events.Click) -> None:
        """A click selects."""
        line = event.y - 1
        if 0 <= line < len(self._places) and self._places[line] >= 0:
            self.action_move(self._places[line] - self.cursor)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel selects the next one."""
        self.action_move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel selects the one before."""
        self.action_move(-1)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """How many cards there are, and the driver; the age of what is shown where it is old."""
        palette, snapshot = self.palette, self._snapshot
        left = Row("GPUs", self.title_style())
        if snapshot.devices:
            instances = sum(device.instance is not None for device in snapshot.devices)
            left.add(f" {len(snapshot.devices) - instances}", palette.dim)
            left.add(f" · {instances} MIG {plural('instance', instances)}" if instances else "", palette.dim)
        right = Row()
        if (age := age_of(snapshot)) is not None:
            right.add(f"{age:.0f} s old", palette.warn).add(" · " if snapshot.driver_version else "", palette.dim)
        if snapshot.driver_version:
            right.add(f"driver {snapshot.driver_version}", palette.dim)
            right.add(f" · CUDA {snapshot.cuda_version}" if snapshot.cuda_version else "", palette.dim)
        return left, right

    def body(self, width: int, height: int) -> list[Strip]:
        """The rows, and why cards are missing."""
        draw = CardLines(self.palette, age_of(self._snapshot) is not None or self._snapshot.stalled_seconds > 0)
        notes = [Row(line, self.palette.warn if self._snapshot.devices else self.palette.dim).strip(width) for line in self._notes(width)]
        if self.tall:
            return [*self._tall(draw, width), *notes]
        return [*self._compact(draw, width, height - len(notes)), *notes]

    def _tall(self, draw: CardLines, width: int) -> list[Strip]:
        lines: list[Strip] = []
        self._places = []
        host = self._snapshot.host
        columns = cards.columns(width - GUTTER, self._rows, host)
        for place, choice in enumerate(self._rows):
            here = place == self.cursor
            if choice.device is not None:
                new = draw.tall(choice, width, here=here)
            elif len(self._rows) == 1:
                new = draw.host(choice, host, width, here=here)
            else:
                new = [draw.compact(choice, columns, host, width, here=here)]
            new[0] = self._lit(new[0], width, here=here)
            lines += new
            self._places += [place] * len(new)
        return lines

    def _compact(self, draw: CardLines, width: int, height: int) -> list[Strip]:
        """One line each; with the selected one in view, and the others counted, where there are more than lines."""
        columns, room = cards.columns(width - GUTTER, self._rows, self._snapshot.host), max(height - 1, 1)
        count = len(self._rows)
        shown = count if count <= room else max(room - 1, 1)
        self._top = min(max(self._top, self.cursor - shown + 1, 0), self.cursor, count - shown)
        places = range(self._top, self._top + shown)
        lines = [titles(columns, GUTTER, self.palette).strip(width)]
        named = GUTTER + columns[0].width + 1 + columns[1].width
        for place in places:
            here = place == self.cursor
            line = draw.compact(self._rows[place], columns, self._snapshot.host, width, here=here)
            lines.append(self._lit(line, named, here=here))
        self._places = [-1, *places]
        if shown < count:
            lines.append(Row(" " * GUTTER).add(_more(self._top, count - self._top - shown), self.palette.dim).strip(width))
        return lines

    def _lit(self, line: Strip, cells: int, *, here: bool) -> Strip:
        """The selected card's line with its first `cells` marked. Numbers that change have one colour in all rows, which is fewer bytes."""
        if not (here and self.has_focus):
            return line
        return Strip.join([line.crop(0, cells).apply_style(self.palette.track), line.crop(cells)])

    def _notes(self, width: int) -> list[str]:
        sentence = problem_of(self._snapshot)
        return wrap_into(sentence, width, _NOTES_MOST) if sentence else []


def _more(above: int, below: int) -> str:
    return " · ".join(words for words in (f"{above} more above" if above else "", f"{below} more below" if below else "") if words)

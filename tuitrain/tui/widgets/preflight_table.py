"""The preflight's rows to choose from, which fill in one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.tui.strips import PLAIN, Row, fit
from tuitrain.tui.widgets import preflight_lines as lines_of
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap
from tuitrain.words import DATA_NAMES

if TYPE_CHECKING:
    from tuitrain.config import RunConfig
    from tuitrain.session.preflight.measuring import Measuring
    from tuitrain.session.preflight.plans import Plan
    from tuitrain.session.preflight.results import Row as Result

_CALM = "Each row trains a few steps in a process of its own, which takes some seconds. Nothing is kept, and Esc ends it at any moment."
_ASKING = "asking torch which devices there are …"


class PreflightTable(Pane, can_focus=True):
    """The cursor is on the best row until a person moves it.

    Args:
        measuring: has the rows.
        config: what is trained in them.
        steps: how many are timed for each.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Select", key_display="↑↓"),
        Binding("k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]

    class Moved(Message):
        """Another row is selected."""

    def __init__(self, measuring: Measuring, config: RunConfig, steps: int) -> None:
        super().__init__(id="preflight")
        self.first = self.last = True
        self._measuring = measuring
        self._config = config
        self._steps = steps
        self._chosen: Plan | None = None
        self._top = 0
        self._line_rows: list[int | None] = []

    @property
    def selected(self) -> Result | None:
        """The row under the cursor: the one that the person moved to, or the best, or the first."""
        return self._selected(self._measuring.rows)

    def _selected(self, rows: tuple[Result, ...]) -> Result | None:
        """The one of `rows`, which the measuring thread replaces at any moment."""
        chosen = [row for row in rows if row.plan == self._chosen] or [row for row in rows if row.best] or rows
        return chosen[0] if chosen else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to move between once there are rows."""
        return len(self._measuring.plans) > 1 if action == "move" else True

    def action_move(self, by: int) -> None:
        """Select another row."""
        plans, here = self._measuring.plans, self.selected
        if here is not None:
            self._choose(plans[min(max(plans.index(here.plan) + by, 0), len(plans) - 1)])

    def on_click(self, event: events.Click) -> None:
        """A click selects."""
        index = self._line_rows[event.y - 1] if 0 <= event.y - 1 < len(self._line_rows) else None
        if index is not None:
            self._choose(self._measuring.plans[index])

    def _choose(self, plan: Plan) -> None:
        self._chosen = plan
        self.redraw()
        self.post_message(self.Moved())

    # -- drawing ------------------------------------------------------------------------------------------------------

    def heading(self) -> tuple[Row, Row]:
        """The title, and what goes on."""
        measuring, palette, right = self._measuring, self.palette, Row()
        if measuring.busy:
            what = _ASKING if measuring.now is None else f"measuring {measuring.now.title} …"
            right.add(what, palette.primary).add(f" {measuring.seconds:3.0f} s", palette.dim)
        return Row("Preflight", self.title_style()), right

    def body(self, width: int, height: int) -> list[Strip]:
        """What is trained, the rows in view, and what Enter does."""
        rows = self._measuring.rows
        selected = self._selected(rows)
        blank = Strip.blank(width, PLAIN)
        above = [*self._about(rows, width), blank]
        below = [blank, *self._what_next(selected, width)]
        room = max(height - len(above) - len(below), 1)
        document = self._document(rows, selected, width, brief=False)
        if len(document) > room:
            document = self._document(rows, selected, width, brief=True)
        place = None if selected is None else rows.index(selected)
        self._scroll([index for _, index in document], place, room)
        shown = document[self._top : self._top + room]
        self._line_rows = [*(None for _ in above), *(index for _, index in shown)]
        return [*above, *(line for line, _ in shown), *below]

    def _scroll(self, indices: list[int | None], place: int | None, room: int) -> None:
        """Scroll so far that the selected row is in view; with the first row comes what stands above it."""
        if place in indices:
            first = indices.index(place)
            last = first + indices.count(place)
            self._top = 0 if place == 0 else min(max(self._top, last - room), first)
        self._top = min(max(self._top, 0), max(len(indices) - room, 0))

    def _document(self, rows: tuple[Result, ...], selected: Result | None, width: int, *, brief: bool) -> list[tuple[Strip, int | None]]:
        """The table, each line with the row that it belongs to; `brief` has the words of the selected row alone."""
        measuring, palette = self._measuring, self.palette
        document: list[tuple[Strip, int | None]] = []
        if measuring.problem is not None:
            document += [(Row(piece, palette.bad).strip(width), None) for piece in wrap(f"✗ {measuring.problem}", width)]
        if rows:
            document.append((lines_of.head(width, palette), None))
        most = max((row.samples_per_second or 0.0 for row in rows), default=0.0)
        for index, row in enumerate(rows):
            here = row == selected
            drawn = lines_of.row_lines(row, most, measuring.now, width, palette, here=here)
            document += [(line, index) for line in (drawn[:1] if brief and not here else drawn)]
        return [*document, *((line, None) for line in lines_of.left_out_lines(measuring.left_out, width, palette))]

    def _about(self, rows: tuple[Result, ...], width: int) -> list[Strip]:
        """What is trained in each row."""
        data = next((row.measured.data for row in rows if row.measured and row.measured.data), "")
        known = f" · {DATA_NAMES.get(data, data)}" if data else ""
        facts = f"{known} · batch {self._config.batch_size:,} · {self._steps} steps timed for each row"
        title = self._config.title()
        # A long name must leave room for the rows.
        sentence = (title if cell_len(title) <= width else fit(title, width).rstrip()) + facts
        return [Row(piece, self.palette.text).strip(width) for piece in wrap(sentence, width)]

    def _what_next(self, selected: Result | None, width: int) -> list[Strip]:
        """What Enter will do, or that it takes a while."""
        palette = self.palette
        if selected is not None and selected.samples_per_second is not None:
            sentence = f"Enter takes {selected.plan.title} into the launcher"
            return [Row(piece, palette.good).strip(width) for piece in wrap(sentence, width)]
        if self._measuring.busy:
            return [Row(piece, palette.dim).strip(width) for piece in wrap(_CALM, width)]
        return [Row("e ", palette.key).add("measures again", palette.dim).strip(width)]

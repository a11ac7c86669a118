"""A script with line numbers and colours, and marks at the lines that one device would do without."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.text import plural
from tuitrain.tui.code.rows import CodeRow, rows_of
from tuitrain.tui.code.script import Code
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.scrolling import ScrollingView
from tuitrain.tui.wrap import wrap

_GUTTER = 3
"""The mark, a plus sign, a blank."""


class CodeView(ScrollingView):
    """What the script needs for its devices in words, and the script below; a sentence while there is none."""

    DEFAULT_CSS = "CodeView { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "difference(1)", "Next difference", key_display="] ["),
        Binding("greater_than_sign", "difference(1)", show=False),
        Binding("left_square_bracket,less_than_sign", "difference(-1)", show=False),
    ]

    class Moved(Message):
        """Other keys may mean something."""

    def __init__(self) -> None:
        super().__init__(id="code-view")
        self.first = self.last = True
        self.code: Code | None = None
        self._said = ""
        self._wrong = False
        self._at: int | None = None
        """The difference that one looks at."""
        self._marked: dict[int, int] = {}
        """The number of the difference that a line is in."""
        self._rows: list[CodeRow] = []
        self._rows_of: tuple[Code, int] | None = None

    def say(self, sentence: str, *, wrong: bool = False) -> None:
        """Show a sentence in place of a script."""
        self._said, self._wrong = sentence, wrong
        self.redraw()

    def show(self, code: Code) -> None:
        """Show a script from its beginning."""
        self.code, self._top, self._at = code, 0, None
        self._marked = {line: number for number, one in enumerate(code.differences) for line in range(one.start, one.end)}
        self.redraw()

    # -- moving -------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """One scrolls what is longer than the view, and goes to differences where there are some."""
        if action == "difference":
            return self.code is not None and bool(self.code.differences)
        return self.scrolls if action in ("scroll", "page", "jump") else True

    def action_difference(self, by: int) -> None:
        """Go to the next or previous difference, and from the last one to the first."""
        if self.code is None or not self.code.differences:
            return
        count = len(self.code.differences)
        self._at = (0 if by > 0 else count - 1) if self._at is None else (self._at + by) % count
        start = self.code.differences[self._at].start
        first = next(index for index, row in enumerate(self._rows) if row.line == start)
        self._top = first - self.room() // 4
        self.stay_inside()
        self.redraw()

    def line_count(self) -> int:
        """Rows of the script, each a piece of a line."""
        return len(self._rows)

    def room(self) -> int:
        """Rows for the script."""
        return max(self.body_height() - len(self._words(max(self.size.width - 4, 1))), 1)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame; the script is broken into rows again where it or the width is another one, and stays at its line."""
        code = self.code
        if code is not None and self._rows_of != (code, width):
            line = self._rows[self._top].line if self._rows else 0
            self._rows = rows_of(code.lines, width - 4 - _GUTTER - _digits(code) - 1)
            self._rows_of = code, width
            self._top = next(index for index, row in enumerate(self._rows) if row.line == line)
            self.post_message(self.Moved())
        self.stay_inside()
        return super().content(width, height)

    def heading(self) -> tuple[Row, Row]:
        """The title, and where one is."""
        palette, code = self.palette, self.code
        left, right = Row("Code", self.title_style()), Row()
        if code is None:
            return left, right
        left.add(f"  {code.where}", palette.dim)
        if self._at is not None:
            right.add(f"difference {self._at + 1} of {len(code.differences)} · ", palette.dim)
        last = min(self._top + self.room(), len(self._rows))
        if last:
            right.add(f"lines {self._rows[self._top].line + 1}–{self._rows[last - 1].line + 1} of {len(code.lines)}", palette.dim)
        return left, right

    def body(self, width: int, height: int) -> list[Strip]:
        """The sentence, and the rows in view."""
        palette, code = self.palette, self.code
        if code is None:
            style, sign = (palette.bad, "✗ ") if self._wrong else (palette.dim, "")
            return [Row(line, style).strip(width) for line in wrap(sign + self._said, width)]
        words = [Row(line, palette.text).strip(width) for line in self._words(width)[:-1]]
        shown = self._rows[self._top : self._top + height - len(words) - 1]
        return [*words, Row().strip(width), *(self._row(code, row, width) for row in shown)]

    def _words(self, width: int) -> list[str]:
        """What the devices cost in lines, and a blank line."""
        return [] if self.code is None else [*wrap(_sentence(self.code), width), ""]

    def _row(self, code: Code, row: CodeRow, width: int) -> Strip:
        palette, digits = self.palette, _digits(code)
        number = self._marked.get(row.line)
        style = palette.dim if number is None else palette.good
        if number is None:
            line = Row(" " * _GUTTER)
        else:
            here = number == self._at
            line = Row("▸" if here and row.first and row.line == code.differences[number].start else "▌", palette.cursor if here else style)
            line.add("+" if row.first else " ", style).add(" ")
        line.right(str(row.line + 1) if row.first else "", digits, style).add(" " * (row.indent + 1))
        for piece in row.pieces:
            shade: Style = getattr(palette, piece.shade)
            line.add(piece.text, shade)
        return line.strip(width)


def _digits(code: Code) -> int:
    return len(str(len(code.lines)))


def _sentence(code: Code) -> str:
    if not code.differences:
        return f"{code.where}: the script of one device; with more of them, the lines that they need are marked here."
    count = abs(code.more)
    lines = f"{count} {plural('line', count)} {'more' if code.more >= 0 else 'fewer'} than one device"
    gone = f", and {code.gone} fell away" if code.gone else ""
    return f"{code.where} takes {lines}: + marks the {code.new} new ones{gone}."

"""All that the doctor knows of the selected check, beside the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.strip import Strip

from tuitrain.tui.strips import PLAIN, Row
from tuitrain.tui.widgets import doctor_lines as lines_of
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap

if TYPE_CHECKING:
    from tuitrain.devices.doctor.model import Check


class DoctorDetail(Pane):
    """What was looked at, what was found, and what mends it.

    Args:
        selected: gives the check.
    """

    def __init__(self, selected: Callable[[], Check | None]) -> None:
        super().__init__(id="doctor-detail")
        self.first = self.last = True
        self._selected = selected

    def heading(self) -> tuple[Row, Row]:
        """The verdict."""
        check = self._selected()
        if check is None:
            return Row("Check", self.palette.title), Row()
        glyph, style = lines_of.verdict_look(check.verdict, self.palette)
        return Row("Check", self.palette.title), Row(f"{glyph} {check.verdict}", style)

    def body(self, width: int, height: int) -> list[Strip]:
        """The check, and the keys that go on from here."""
        check, palette = self._selected(), self.palette
        if check is None:
            return [Row("The checks come with the report.", palette.dim).strip(width)]
        lines = [Row(piece, palette.strong).strip(width) for piece in wrap(check.title, width)]
        for fact in lines_of.facts(check, width, palette):
            lines += [Strip.blank(width, PLAIN), *fact]
        if check.mend:
            what = "copies the words" if check.command is None else "copies the command" if _alone(check) else "copies the first command"
            lines += [Strip.blank(width, PLAIN), Row("y ", palette.key).add(what, palette.dim).strip(width)]
        return lines


def _alone(check: Check) -> bool:
    return sum(piece.is_command for piece in check.pieces) == 1

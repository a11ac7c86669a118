"""The commands of a screen by name, and the themes."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.command import CommandList, CommandPalette
from textual.events import Click, Mount
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, OptionList

from tuitrain.tui.screens.late_clicks import LateClicks


class _SteadyList(CommandList):
    def on_click(self, event: Click) -> None:
        """A click on a command that is no longer in the list does nothing. Textual's own handler is called after this."""
        option = event.style.meta.get("option")
        if option is not None and option >= self.option_count:
            event.prevent_default()


class SteadyPalette(CommandPalette, LateClicks[None]):
    """Textual's palette, without what raises there: no list that has no room, or has gone, is paged through, filled, or clicked on;
    nor is a place that the terminal has no more."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "escape", show=False, system=True)]

    def compose(self) -> ComposeResult:
        """As Textual's, with a list that takes late clicks."""
        for widget in super().compose():
            yield _SteadyList() if isinstance(widget, CommandList) else widget

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Moving through the list needs a list that is laid out."""
        if action == "command_list":
            return any(found.scrollable_content_region for found in self.query(CommandList))
        return super().check_action(action, parameters)

    def on_click(self, event: Click) -> None:
        """A click beside the list closes it, unless the terminal has become too small for where it was. Textual's own handler is called
        after this."""
        if not self.region.contains(event.screen_x, event.screen_y):
            event.prevent_default()

    def dismiss(self, result: None = None) -> AwaitComplete:
        """Close it, and look for no more commands."""
        self._cancel_gather_commands()
        self._stop_no_matches_countdown()
        self._stop_busy_countdown()
        return super().dismiss(result)

    @on(Mount)
    @on(Input.Changed)
    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _hear(self, message: Message) -> None:
        """What comes when it has been closed finds neither list nor field; Textual's own handlers are called after this."""
        if self not in self.app.screen_stack:
            message.prevent_default()


class Palette(SteadyPalette):
    """A palette whose list follows when the keys of the screen below mean something else, as on a terminal that becomes too small.

    Args:
        below: the screen whose keys it offers.
    """

    def __init__(self, below: Screen[object]) -> None:
        super().__init__()
        self._below = below
        self._offered: list[str] = []

    def on_mount(self) -> None:
        """Listen to the screen below."""
        self._offered = self._offers()
        self._below.bindings_updated_signal.subscribe(self, lambda _: self._look_again())

    def _offers(self) -> list[str]:
        return [command.title for command in self.app.get_system_commands(self._below)]

    def _look_again(self) -> None:
        offers = self._offers()
        if offers != self._offered:
            self._offered = offers
            field = self.query_one(Input)
            # The palette searches anew when its field changes.
            self.post_message(Input.Changed(field, field.value))

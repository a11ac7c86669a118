"""The commands of a screen by name."""

from __future__ import annotations

from textual.command import CommandPalette
from textual.screen import Screen
from textual.widgets import Input


class Palette(CommandPalette):
    """Textual's palette, whose list follows when the keys of the screen below mean something else, as on a terminal that becomes too small.

    Args:
        below: the screen whose keys it offers.
    """

    def __init__(self, below: Screen[object]) -> None:
        super().__init__(id="--command-palette")
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

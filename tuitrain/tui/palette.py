"""The command palette, for keys that come faster than its list."""

from __future__ import annotations

from typing import TypeVar

from textual.app import App
from textual.command import CommandList, CommandPalette
from textual.theme import ThemeProvider

Result = TypeVar("Result")


class Palette(CommandPalette):
    """Textual's own; a list that has no room yet, or none at all, is not paged through, which would raise in Textual."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Moving through the list needs a list that is laid out."""
        if action == "command_list":
            return any(found.scrollable_content_region for found in self.query(CommandList))
        return super().check_action(action, parameters)


class PaletteApp(App[Result]):
    """An app that opens this palette where Textual would open its own."""

    def action_command_palette(self) -> None:
        """Show what the app can do."""
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(Palette(id="--command-palette"))

    def search_themes(self) -> None:
        """Show the themes."""
        self.push_screen(Palette(providers=[ThemeProvider], placeholder="Search for themes…"))

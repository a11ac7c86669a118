"""The bottom line: the keys that work now."""

from __future__ import annotations

from textual.events import Click
from textual.screen import Screen
from textual.strip import Strip

from tuitrain.tui.widgets.lines import Lines
from tuitrain.tui.widgets.strips import Row

# Where the line is too short these stay: the way to all the others, and the way out.
_ALWAYS = ("question_mark", "q", "escape")
_NAMES = {
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "slash": "/",
    "escape": "Esc",
    "enter": "Enter",
    "home": "Home",
    "end": "End",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "tab": "Tab",
    "ctrl+c": "Ctrl+C",
    "ctrl+p": "Ctrl+P",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


def key_name(key: str) -> str:
    """A key as people write it."""
    return _NAMES.get(key, key)


class KeyBar(Lines):
    """One line made of the screen's active bindings; those that do not fit are left out from the right, except help and quit."""

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._places: list[tuple[int, int, str]] = []

    def on_mount(self) -> None:
        """Follow what works on this screen."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, screen: Screen[object]) -> None:
        self.redraw()

    def on_click(self, event: Click) -> None:
        """A click on a key presses it."""
        for start, end, key in self._places:
            if start <= event.x < end:
                self.app.simulate_key(key)

    def content(self, width: int, height: int) -> list[Strip]:
        """The line."""
        items = []
        for key, active in self.screen.active_bindings.items():
            binding = active.binding
            if binding.show and active.enabled and binding.description:
                items.append((key, binding.key_display or key_name(key), binding.description))
        items.sort(key=lambda item: item[0] in _ALWAYS)
        while items and sum(len(shown) + len(text) + 3 for _, shown, text in items) > width:
            index = max((i for i, item in enumerate(items) if item[0] not in _ALWAYS), default=len(items) - 1)
            del items[index]
        row = Row()
        self._places = []
        for key, shown, text in items:
            start = row.width
            row.add(f" {shown} ", self.palette.key).add(f"{text} ", self.palette.dim)
            self._places.append((start, row.width, key))
        return [row.strip(width)]

"""The bottom line: the keys that work now."""

from __future__ import annotations

from textual.events import Click
from textual.screen import Screen
from textual.strip import Strip

from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.lines import Lines

# Where the line is too short these stay: the way to all the others, and the way out.
_ALWAYS = ("question_mark", "q", "escape")
_Item = tuple[str, str, str]
"""A key, how it is written, and what it does."""
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
    "shift+tab": "Shift+Tab",
    "ctrl+c": "Ctrl+C",
    "ctrl+l": "Ctrl+L",
    "ctrl+p": "Ctrl+P",
    "ctrl+z": "Ctrl+Z",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
}


def key_name(key: str) -> str:
    """A key as people write it."""
    return _NAMES.get(key, key)


class KeyBar(Lines):
    """One line made of the screen's active bindings, those first that the screen calls so; help and quit stay, of the others what fits."""

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
        row = Row()
        self._places = []
        for key, shown, text in self._fitting(width):
            start = row.width
            row.add(f" {shown} ", self.palette.key).add(f"{text} ", self.palette.dim)
            self._places.append((start, row.width, key))
        return [row.strip(width)]

    def _fitting(self, width: int) -> list[_Item]:
        """The keys that have room, in the order in which they are shown."""
        items = self._items()
        room, left_out = width, set()
        for item in sorted(items, key=lambda item: item[0] not in _ALWAYS):
            needs = len(item[1]) + len(item[2]) + 3
            if needs > room:
                left_out.add(item)
            else:
                room -= needs
        return [item for item in items if item not in left_out]

    def _items(self) -> list[_Item]:
        """Every key that works now, by its importance."""
        first: tuple[str, ...] = getattr(self.screen, "FIRST", ())
        items = []
        for key, active in self.screen.active_bindings.items():
            binding = active.binding
            if binding.show and active.enabled and binding.description:
                action = binding.action.partition("(")[0].removeprefix("app.")
                place = first.index(action) if action in first else len(first)
                items.append((key in _ALWAYS, place, (key, binding.key_display or key_name(key), binding.description)))
        return [item for _, _, item in sorted(items, key=lambda one: one[:2])]

"""Keys that were pressed faster than a text field can open."""

from __future__ import annotations

from typing import TypeVar
from weakref import WeakKeyDictionary

from textual.app import App
from textual.events import Event, Key
from textual.widget import Widget

Result = TypeVar("Result")


class LateKeysApp(App[Result]):
    """An app in which a key that was pressed after the one that opens a field, and before the field had the keys, gets to the field."""

    def __init__(self) -> None:
        super().__init__()
        self._offered: WeakKeyDictionary[Key, Widget | None] = WeakKeyDictionary()

    async def on_event(self, event: Event) -> None:
        """Remember who got a key first."""
        if isinstance(event, Key) and not event.is_forwarded:
            self._offered[event] = self.focused
        await super().on_event(event)

    def on_key(self, event: Key) -> None:
        """Nobody took the key: it is the field's where the field came after it."""
        field = self.focused
        if field is not None and hasattr(field, "insert_text_at_cursor") and self._offered.get(event, field) is not field:
            event.prevent_default()
            again = Key(event.key, event.character)
            self._offered[again] = field
            field._forward_event(again)

"""Keys that come faster than the screen follows do what they would have done one by one."""

from __future__ import annotations

import time
from collections import deque
from typing import TypeVar

from textual.app import App
from textual.events import Event, Key, Paste

Result = TypeVar("Result")

_ROUNDS = 3
"""A key passes from the focused widget up to the app; then what it made a text field say; then what the field's owner says of that."""
_PATIENCE_SECONDS = 1.0


class KeysInTurnApp(App[Result]):
    """An app in which nobody gets a key, or a pasted text, before the one that was typed before it has done its work.

    Textual gives each at once to the widget that has the focus. A text field takes the characters there, while Backspace, Home or Enter
    are still on their way up to the app, and a key that opens a field has not opened it: over a slow line, where many keys come in one
    piece, `ab⌫c` would become `ab`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[Key | Paste] = deque()
        self._at_work = 0
        """The number of the key that is at work; 0 while none is."""
        self._given = 0
        self._given_at = 0.0

    async def on_event(self, event: Event) -> None:
        """Have what is typed wait for its turn."""
        if isinstance(event, Key | Paste):
            if not self.screen_stack:
                # The app closes, and Textual would raise.
                return
            if not event.is_forwarded:
                self._typed.append(event)
                # Where a widget is stuck, the keys that lead away from it still work.
                if not self._at_work or time.monotonic() - self._given_at > _PATIENCE_SECONDS:
                    await self._give()
                return
        await super().on_event(event)

    async def _give(self) -> None:
        """Let the next ones do their work, up to the first that others have to wait for."""
        while self._typed:
            event, field = self._typed.popleft(), self.focused
            # A text field takes characters in their turn by itself.
            waits = not (isinstance(event, Key) and field is not None and field.check_consume_key(event.key, event.character))
            await super().on_event(event)
            if waits:
                self._given += 1
                self._at_work, self._given_at = self._given, time.monotonic()
                await self._follow(self._given, _ROUNDS)
                return

    async def _follow(self, number: int, rounds: int) -> None:
        """Pass by all on the way of key `number`, behind what each has to do before; after so many rounds it has done its work."""
        way = iter((self.focused or self.screen).ancestors_with_self)

        async def step() -> None:
            # One that is being removed takes nothing any more. The last one is the app.
            if number != self._at_work or any(node.call_later(step) for node in way):
                return
            if rounds > 1:
                await self._follow(number, rounds - 1)
            else:
                self._at_work = 0
                await self._give()

        await step()

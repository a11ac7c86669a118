"""Keys that come faster than the screen follows do what they would have done one by one."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import TypeVar

from textual.app import App
from textual.events import Event, InputEvent, Key, Paste
from textual.screen import Screen
from textual.widget import Widget

Result = TypeVar("Result")

_ROUNDS = 3
"""A key passes from the focused widget up to the app; then what it made a text field say; then what the field's owner says of that."""
_DONE_SECONDS, _PATIENCE_SECONDS = 0.1, 1.0
"""After so long a key has done its work, unless it is seen that it has not; and so long others wait for it then."""


class KeysInTurnApp(App[Result]):
    """An app in which nobody gets a key, or a pasted text, before the one that was typed before it has done its work.

    Textual gives each at once to the widget that has the focus. A text field takes the characters there, while Backspace, Home or Enter
    are still on their way up to the app, and a key that opens a field has not opened it: over a slow line, where many keys come in one
    piece, `ab⌫c` would become `ab`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._typed: deque[Key | Paste] = deque()
        self._number = 0
        """That of the key which was given last."""
        self._given_at = -math.inf
        self._followed = False
        """Whether others wait for it."""
        self._before: tuple[Screen[object], Widget | None] | None = None
        """What one saw when it was given, and what had the focus."""
        self._held = False

    def hold_keys(self) -> None:
        """Let whatever is typed from now on wait for `let_keys_go`."""
        self._held = True

    async def let_keys_go(self) -> None:
        """Let what was typed meanwhile do its work."""
        self._held = False
        await self._give()

    async def on_event(self, event: Event) -> None:
        """Have what is typed wait for its turn."""
        if isinstance(event, InputEvent | Paste) and self._left:
            return
        if isinstance(event, Key | Paste) and not event.is_forwarded:
            self._typed.append(event)
            if self._held:
                return
            # Where a widget is stuck, the keys that lead away from it still work.
            if time.monotonic() - self._given_at > (_PATIENCE_SECONDS if self._followed else _DONE_SECONDS):
                await self._give()
            elif not self._followed:
                await self._follow(self._number)
            return
        await super().on_event(event)

    @property
    def _left(self) -> bool:
        """Whether the app has been left: its widgets can make nothing new any more, and Textual would raise."""
        return not (self.screen_stack and self.screen.is_attached)

    async def _give(self) -> None:
        """Let the next ones do their work, up to the first that others have to wait for."""
        self._followed = False
        if self._left:
            self._typed.clear()
        while self._typed:
            event, focused = self._typed.popleft(), self.focused
            # A text field takes characters in their turn by itself.
            waits = not (isinstance(event, Key) and focused is not None and focused.check_consume_key(event.key, event.character))
            if waits:
                self._number += 1
                self._given_at, self._before = time.monotonic(), (self.screen, focused)
            await super().on_event(event)
            if waits and self._typed:
                await self._follow(self._number)
                return

    async def _follow(self, number: int, round_: int = 1) -> None:
        """Pass by all on the way of key `number`, behind what each has to do before; then it has done its work, and others do theirs."""
        self._followed = True
        way = iter((self.focused or self.screen).ancestors_with_self)

        async def step() -> None:
            if number != self._number or not self._followed:
                return
            for node in way:
                if node.call_later(step):
                    return
            if round_ < _ROUNDS and not self._left and self._may_have_said_more():
                await self._follow(number, round_ + 1)
            else:
                await self._give()

        await step()

    def _may_have_said_more(self) -> bool:
        """Whether the key was a text field's, or led to another screen or focus: that is over only when others have answered."""
        assert self._before is not None
        screen, focused = self._before
        return hasattr(focused, "insert_text_at_cursor") or (screen, focused) != (self.screen, self.focused)

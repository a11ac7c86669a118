"""Values that may take a while, computed in a thread while the screen goes on with what it has."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

import msgspec
from textual.message import Message
from textual.widget import Widget

from tuitrain.runs.errors import RunError

T = TypeVar("T")


class _Value(msgspec.Struct, frozen=True):
    identity: Hashable
    version: Hashable
    value: Any
    trouble: str | None = None


class Arrived(Message, bubble=False):
    """A value is there: `Later.take` it and redraw."""

    def __init__(self, name: str, value: _Value) -> None:
        super().__init__()
        self.name = name
        self.value = value


class Source(Protocol):
    """Whoever has values."""

    def get(self, name: str, identity: Hashable, version: Hashable, work: Callable[[], T], *, at_once: bool) -> T | None:
        """See `Later.get`."""
        ...


class Ahead:
    """Values that a thread computes for a `Later` before it is asked for them."""

    def __init__(self) -> None:
        self.values: dict[str, _Value] = {}

    def get(self, name: str, identity: Hashable, version: Hashable, work: Callable[[], T], *, at_once: bool) -> T | None:
        """The value, computed here and now."""
        self.values[name] = made = _attempt(identity, version, work)
        value: T | None = made.value
        return value


class Later:
    """Values by name, of which the newest wish counts. Only the event loop's thread calls this.

    Args:
        widget: gets an `Arrived` message for each value that was computed in a thread.
    """

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._values: dict[str, _Value] = {}
        self._running: set[str] = set()
        self.arrivals = 0
        """Grows with every value that a thread brought."""

    def get(self, name: str, identity: Hashable, version: Hashable, work: Callable[[], T], *, at_once: bool) -> T | None:
        """The value for `identity`, which may be of an older `version` while a newer one is on its way; `None` while there is none.

        Args:
            name: what the value is for; one thread at a time works for a name.
            identity: what a value has to agree with.
            version: what makes it outdated.
            work: computes it; may raise `RunError` or `OSError`.
            at_once: compute it here, because it is quick.
        """
        held = self._values.get(name)
        if held is not None and (held.identity, held.version) == (identity, version):
            value: T | None = held.value
            return value
        if at_once:
            self._values[name] = held = _attempt(identity, version, work)
        elif name not in self._running:
            self._running.add(name)
            self._widget.run_worker(lambda: self._work(name, identity, version, work), thread=True, exit_on_error=False, group=name)
        return held.value if held is not None and held.identity == identity else None

    def trouble(self, name: str) -> str | None:
        """Why the last value could not be computed; `None` where it was."""
        held = self._values.get(name)
        return None if held is None else held.trouble

    def take_over(self, ahead: Ahead) -> None:
        """Keep what was computed before anybody asked."""
        self._values |= ahead.values

    def take(self, message: Arrived) -> None:
        """Keep what arrived."""
        self._running.discard(message.name)
        self._values[message.name] = message.value
        self.arrivals += 1

    def _work(self, name: str, identity: Hashable, version: Hashable, work: Callable[[], Any]) -> None:
        try:
            value = _attempt(identity, version, work)
        except Exception as error:  # without an answer the name would stay busy for ever
            value = _Value(identity, version, None, f"this could not be read: {error}")
        self._widget.post_message(Arrived(name, value))


def _attempt(identity: Hashable, version: Hashable, work: Callable[[], Any]) -> _Value:
    try:
        return _Value(identity, version, work())
    except (RunError, OSError) as error:
        return _Value(identity, version, None, str(error))

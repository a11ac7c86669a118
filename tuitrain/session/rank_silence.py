"""Ranks that give no sign: that is told, and one that hangs is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuitrain.events import Notice
from tuitrain.session.ranks import Ranks

_STILL_SECONDS = 2.0


@dataclass(frozen=True)
class Bounds:
    """How long ranks may be silent, in seconds, until that is said, and until one is killed; and how long they have to obey a stop."""

    silent: float = 10.0
    hung: float = 60.0
    stop: float = 25.0


class Silence:
    """Watches the ranks of a group on this machine.

    Args:
        ranks: they.
        bounds: for those that hang.

    Attributes:
        killed: what there is to say of the rank that was killed; whoever says it takes it out, and before that no other one is killed.
    """

    def __init__(self, ranks: Ranks, bounds: Bounds) -> None:
        self.killed: str | None = None
        self._ranks, self._bounds = ranks, bounds
        self._looked = time.monotonic()

    def look(self, devices: Mapping[int, str]) -> Iterator[Notice]:
        """Look at all ranks now, and tell of those that have become silent; `devices` by rank."""
        now = time.monotonic()
        still, self._looked = now - self._looked, now
        for peer in (*self._ranks.peers, *self._ranks.expected):
            if still > _STILL_SECONDS:
                # This process stood still itself, as a suspended job does, and the ranks likely with it.
                peer.heard = now
            silent = now - peer.heard
            if peer.number is None or silent < self._bounds.silent:
                continue
            who = f"rank {peer.number} ({devices[peer.number]}, pid {peer.pid})"
            if not peer.named:
                peer.named = True
                does = "has not answered" if peer.line else "was started and has not said a word"
                yield Notice(level="warning", text=f"{who} {does} for {silent:.0f} s; the others wait for it.")
            if silent >= self._bounds.hung and self.killed is None:
                self.killed = f"{who} did not answer for {silent:.0f} s and was killed"
                self._ranks.kill(peer)

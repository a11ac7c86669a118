"""The control socket of a run: other terminals of the same user watch it and give it commands.

One JSON object a line. A client sends `{"command": …}` with one of `WORDS` and gets `{"ok": true}` or `{"error": "a sentence"}`; after
`watch` the public events follow, the run's start and its state first, and the connection counts as a screen. When the run has ended or has
gone to another process, the connection is closed.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from tuitrain.events import Clock, Command, ReplicaStats, Step

Word = Literal[Command, "watch"]
WORDS: tuple[Word, ...] = get_args(Word)
FREQUENT = (Step, ReplicaStats, Clock)
"""Events that come all the time and change nothing that a person waits for."""


class Order(msgspec.Struct, frozen=True):
    """What a client sends."""

    command: Word


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What it gets: `ok`, or `error`, which is a sentence."""

    ok: bool = False
    error: str | None = None

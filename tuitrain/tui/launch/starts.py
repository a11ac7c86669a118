"""Starts in this app: what is on its way, what is remembered of it when it has begun, and what is said where it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from tuitrain.config import RunConfig
from tuitrain.text import clean
from tuitrain.tui.run_view import RunView


class Start(msgspec.Struct, frozen=True):
    """A new run, or with a folder one that goes on."""

    config: RunConfig
    resume: Path | None = None

    def refused(self, reason: str) -> str:
        """The sentence that says what was refused, and why."""
        if self.resume is None:
            return clean(f"{self.config.title()} was not started: {reason}")
        run = self.resume.name
        # Nobody has typed RUN on a screen, and the run is named already.
        about = reason.removeprefix(f"RUN: {run} ")
        return clean(f"{run} does not go on: {reason if about == reason else f'it {about}'}")


class Origin(Protocol):
    """Where starts come from."""

    def launched(self, config: RunConfig) -> None:
        """A run of `config` has begun: remember it."""
        ...

    def took(self, config: RunConfig, devices: Sequence[str]) -> None:
        """The devices on which it has begun."""
        ...

    def refuse(self, config: RunConfig | None, reason: str, sentence: str) -> None:
        """Show the reason beside its field where `config` is still what is shown, or else the sentence."""
        ...


class Starts:
    """One start at a time, as the session has one run at a time; the last one counts.

    Args:
        run: the run of the app's own session.
        origin: hears what becomes of it.
    """

    def __init__(self, run: RunView, origin: Origin) -> None:
        self._run = run
        self._origin = origin
        self._last: Start | None = None
        self._launch: RunConfig | None = None
        """What is to be remembered when it has begun; going on is no launch."""

    def start(self, start: Start) -> None:
        """Ask the session for it.

        Raises:
            ConfigError: the session cannot start it.
        """
        self._run.session.start(start.config, resume=start.resume)
        self._last, self._launch = start, start.config if start.resume is None else None

    def look(self) -> str | None:
        """Tell whoever asked for it what became of the start; the sentence where it was refused."""
        record, refusal = self._run.record, self._run.session.refusal
        if record is not None and record.started is not None and self._launch is not None:
            self._origin.launched(self._launch)
            self._origin.took(self._launch, record.started.device)
            self._launch = None
        if self._last is None or record is not None or refusal is None:
            return None
        sentence = self._last.refused(refusal)
        self._origin.refuse(self._launch, refusal, sentence)
        return sentence

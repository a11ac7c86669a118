"""The script of a run, or of what the launcher holds, and which of its lines one device would do without."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tuitrain.config import RunConfig, parse_device
from tuitrain.device_names import in_words
from tuitrain.events import RunStarted
from tuitrain.text import clean
from tuitrain.tui.code.colours import Piece, coloured

WriteScript = Callable[[RunConfig, RunStarted | None, Mapping[str, Any]], str]
"""Writes the script of a configuration, of a run that has started where there is one, and of what else its numbers depend on.

It imports torch, so it is called from threads only.
"""
Subject = RunConfig | Path
"""What a script is of: a configuration, or the folder of a run."""
Name = Callable[[RunConfig], RunConfig]
"""Names the devices and the strategy that a start would take now: of a configuration that has not been started, and of a run that waits."""


class Difference(msgspec.Struct, frozen=True):
    """Lines [start, end) of a script, from 0, that the one-device script does not have."""

    start: int
    end: int


class Code(msgspec.Struct, frozen=True):
    """A script and how it differs from that of the same configuration on one device.

    Attributes:
        name: what a file of it could be called.
        where: "split over cpu, cpu".
        text: the script.
        lines: the same for the screen, in colours.
        differences: what is marked, in order; none where it is the one-device script.
        new: how many of these lines say something.
        gone: how many lines of the one-device script, blank ones apart, it does not have.
    """

    name: str
    where: str
    text: str
    lines: tuple[tuple[Piece, ...], ...]
    differences: tuple[Difference, ...] = ()
    new: int = 0
    gone: int = 0

    @property
    def more(self) -> int:
        """How many lines more than on one device."""
        return self.new - self.gone


def code_of(subject: Subject, name_devices: Name, write: WriteScript) -> Code:
    """The script of `subject`; it waits for the disk and for `write`.

    Raises:
        ConfigError: the run cannot be read, or its data is not there.
    """
    if isinstance(subject, Path):
        from tuitrain.runs.for_script import for_script

        config, started, environment = for_script(subject)
        name = subject.name
    else:
        config, started, environment = subject, None, {}
        name = config.recipe
    config = name_devices(config)
    text = write(config, started, environment)
    plain = write(on_one_device(config), started, environment)
    differences, new, gone = _compare(text.split("\n"), plain.split("\n"))
    return Code(f"{name}-{config.strategy}.py", _where(config), text, coloured(text), differences, new, gone)


def on_one_device(config: RunConfig) -> RunConfig:
    """The same on the first of its devices."""
    first = _names(config)[0]
    return msgspec.structs.replace(
        config, device=first, strategy="single", output_device=None, even_split=False, nnodes="1", rdzv_endpoint=None
    )


def _names(config: RunConfig) -> tuple[str, ...]:
    devices = parse_device(config.device)
    return devices if isinstance(devices, tuple) else ("cpu",)


def _where(config: RunConfig) -> str:
    names = _names(config)
    several = f" on each of {config.nnodes.replace(':', ' to ')} machines" if config.rdzv_endpoint is not None else ""
    return clean(f"{config.strategy} {'on' if len(names) == 1 else 'over'} {in_words(names)}{several}")


def _compare(lines: list[str], plain: list[str]) -> tuple[tuple[Difference, ...], int, int]:
    """What is in `lines` and not in `plain`; how many lines are new and how many are gone, blank ones apart."""
    differences, new, gone = [], 0, 0
    for kind, plain_start, plain_end, start, end in difflib.SequenceMatcher(None, plain, lines, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        gone += _told(plain[plain_start:plain_end])
        if found := _told(lines[start:end]):
            new += found
            while not lines[start].strip():
                start += 1
            while not lines[end - 1].strip():
                end -= 1
            differences.append(Difference(start, end))
    return tuple(differences), new, gone


def _told(lines: list[str]) -> int:
    return sum(1 for line in lines if line.strip())

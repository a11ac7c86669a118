"""The locale as the person named it, which the environment of a Python process may no longer say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# What Python sets LC_CTYPE to, for itself and its children, where the locale is C or one that the machine does not have (PEP 538).
_OF_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")


def named_locale(environment: Mapping[str, str], given: Mapping[str, str] | None = None) -> str:
    """What the characters of a terminal are called in `environment`; empty where nothing is said. LC_ALL goes first, as POSIX has it.

    The value of LC_CTYPE alone does not tell whether the person or Python set it: `LC_CTYPE=C.UTF-8 LANG=C` is a UTF-8 terminal when
    a person says it, and with LANG=C alone Python makes the same of it. What this process was given does tell, except where the process
    that started it is a Python that did so already. On a system without /proc such an LC_CTYPE is taken as Python's: where a UTF-8
    terminal is taken for another one some glyphs are plain, and the other way round none can be read.

    Args:
        environment: the process's own.
        given: what the process was given when it started, where that is known already.
    """
    characters = environment.get("LC_CTYPE", "")
    if characters in _OF_PYTHON:
        characters = (_given() if given is None else given).get("LC_CTYPE", "")
    return environment.get("LC_ALL") or characters or environment.get("LANG") or ""


def _given() -> Mapping[str, str]:
    """The environment that this process was given; empty where the system does not tell."""
    try:
        lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    return {name: value for name, _, value in (os.fsdecode(line).partition("=") for line in lines)}

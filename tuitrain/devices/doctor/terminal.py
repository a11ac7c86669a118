"""Checks of the terminal that the app is drawn on."""

from __future__ import annotations

import re

from tuitrain.devices.doctor.facts import Facts
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject

COLOURS = Subject("terminal-colours", "Colours of the terminal", "TERM and COLORTERM")
UNICODE = Subject("terminal-unicode", "Characters of the terminal", "TERM, LC_ALL, LC_CTYPE, LANG and Python's output encoding")
SIZE = Subject("terminal-size", "Size of the terminal", "the terminal's own answer")
_TMUX = "`echo 'set -g default-terminal tmux-256color' >> ~/.tmux.conf && tmux source-file ~/.tmux.conf`, then open a new window in it."
_SCREEN = "`echo 'term screen-256color' >> ~/.screenrc`, then start screen anew."
LEAST_COLUMNS, LEAST_ROWS = 72, 20


def colours(facts: Facts) -> Check | None:
    """How many colours curves and bars have."""
    terminal = facts.terminal
    if not terminal.is_one:
        return None
    inside = " inside tmux" if terminal.tmux else " inside screen" if terminal.screen else ""
    if terminal.term in ("dumb", "unknown"):
        return COLOURS.warning(f"TERM is {terminal.term}: the app cannot draw on such a terminal", "`export TERM=xterm-256color`")
    if not terminal.term:
        return COLOURS.warning("16 or fewer (TERM is not set)", "`export TERM=xterm-256color`")
    if terminal.colorterm in ("truecolor", "24bit") or re.search(r"direct|truecolor|kitty|ghostty", terminal.term):
        return COLOURS.ok(f"16 million ({terminal.term}{inside})")
    if "256" in terminal.term:
        return COLOURS.ok(f"256 ({terminal.term}{inside})")
    if terminal.tmux or terminal.screen:
        return COLOURS.warning(f"16 or fewer ({terminal.term}{inside})", _TMUX if terminal.tmux else _SCREEN)
    # The console of Linux has no more, and the app has colours for it.
    return COLOURS.ok(f"16 ({terminal.term}); enough, and a terminal with 256 shows more")


def unicode(facts: Facts) -> Check | None:
    """Whether curves can be drawn with braille."""
    terminal = facts.terminal
    if not terminal.is_one:
        return None
    if terminal.term == "linux":
        return UNICODE.ok("the console of Linux: curves are drawn with plain characters")
    encoding = terminal.encoding.lower().replace("-", "").replace("_", "")
    named = terminal.locale.lower().replace("-", "")
    if encoding not in ("utf8", "ascii") or (named and "utf8" not in named):
        return UNICODE.warning(
            f"the locale is {terminal.locale or terminal.encoding}, not UTF-8: curves are drawn with plain characters",
            "`export LC_ALL=C.UTF-8`",
        )
    return UNICODE.ok(f"UTF-8 ({terminal.locale or 'no locale set'})")


def size(facts: Facts) -> Check | None:
    """Whether the screens fit."""
    terminal = facts.terminal
    if not terminal.is_one or not terminal.columns:
        return None
    measured = f"{terminal.columns}×{terminal.rows}"
    if terminal.columns < LEAST_COLUMNS or terminal.rows < LEAST_ROWS:
        return SIZE.warning(f"{measured}; the app needs {LEAST_COLUMNS}×{LEAST_ROWS}", "Make the window larger, or the font smaller.")
    return SIZE.ok(measured)

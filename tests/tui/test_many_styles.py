"""Pictures on a terminal with all colours: thousands of styles, and a frame that is made at once."""

from __future__ import annotations

import pytest
from rich.color import Color
from rich.console import Console
from rich.style import Style

from tuitrain.tui.terminal import sequences
from tuitrain.tui.terminal.sequences import Output


def test_the_work_grows_with_the_styles_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted is how often a change of styles is looked at: on a screen of 120x40 it took seconds."""
    changes: list[Style] = []
    change = sequences._change
    monkeypatch.setattr(sequences, "_change", lambda old, new, system: (changes.append(new), change(old, new, system))[1])
    styles = [Style(color=Color.from_rgb(red, green, 7)) for red in range(50) for green in range(40)]
    runs = [(0, row, [("▀", style) for style in styles[50 * row : 50 * (row + 1)]]) for row in range(40)]
    text = Output(Console(force_terminal=True, color_system="truecolor"), 50, None).text(runs)
    assert text.count("▀") == len(styles)
    assert len(changes) < 6 * len(styles)

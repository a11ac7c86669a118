"""The lines of the analysis: a bar for each phase of a step, a bar for each replica, and facts with a label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.style import Style
from textual.strip import Strip

from tuitrain import words
from tuitrain.events import Phases, StepTimes
from tuitrain.tui import analysis
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import PLAIN, Row, bar
from tuitrain.tui.wrap import wrap

GLYPHS = {"data": "░", "forward": "█", "backward": "▒", "communication": "▄", "update": "◆", "other": "·"}
"""What a phase is drawn with in a bar of several: they differ without colour too, and in ASCII."""

_NAME = 18
_TIME = 11
_SHARE = 7
_LABEL = 13
_COLUMNS = {"forward": 11, "backward": 11, "communication": 15}
"""The numbers of each replica, and how wide they are."""
_SLOWEST = "▾ slowest"
_GAP = 2


def milliseconds(seconds: float, whole: float) -> str:
    """`seconds` with as many decimals as a step of `whole` seconds has, so that a column keeps its digits."""
    decimals = 0 if whole >= 1 else 1 if whole >= 0.02 else 2
    return f"{seconds * 1000:,.{decimals}f} ms"


def phase_styles(palette: Palette) -> dict[str, Style]:
    """The colour of each phase."""
    blue, orange, pink, _, _, tan, green, *_ = palette.series
    return {"data": pink, "forward": blue, "backward": green, "communication": orange, "update": tan, "other": palette.dim}


def phase_lines(times: StepTimes, width: int, palette: Palette) -> Iterator[Strip]:
    """A bar for each phase of a step, and the sum."""
    step, share, styles = analysis.step_seconds(times), analysis.shares(times.phases), phase_styles(palette)
    bars = max(width - 2 - _NAME - _TIME - _SHARE - 1, 0)
    for name in analysis.names(times):
        row = Row(f"{GLYPHS[name]} ", styles[name]).left(analysis.PHASES[name], _NAME, palette.text)
        row.join(bar(share[name], bars, styles[name], palette.track, parts=2)).add(" ")
        row.right(milliseconds(getattr(times.phases, name) / times.steps, step), _TIME, palette.text)
        yield row.right(words.percent(share[name] * 100), _SHARE, palette.strong).strip(width)
    row = Row("  ").left("a step", _NAME, palette.dim).add(" " * (bars + 1))
    yield row.right(milliseconds(step, step), _TIME, palette.strong).right("100 %", _SHARE, palette.dim).strip(width)


def replica_lines(times: StepTimes, width: int, palette: Palette) -> Iterator[Strip]:
    """A bar for each replica with its own phases in it, as long as its share of a step; none where nobody measures them apart."""
    if len(times.replicas) < 2:
        return
    columns = [name for name in _COLUMNS if name != "communication" or times.strategy == "ddp"]
    left = len(str(len(times.replicas) - 1)) + 1 + max(len(device) for device in times.devices) + _GAP
    bars = max(width - left - sum(map(_COLUMNS.__getitem__, columns)) - _SHARE - 1, 0)
    yield _replica_head(times, columns, left + bars + 1, width, palette)
    step, slow = analysis.step_seconds(times), analysis.slow_replica(times)
    for index, (device, part) in enumerate(zip(times.devices, times.replicas, strict=False)):
        row = Row(f"{index:>{len(str(len(times.replicas) - 1))}} ", palette.dim).add(device, palette.strong).pad_to(left)
        is_slow = slow is not None and slow.index == index
        drawn = stacked(part, times.phases.seconds, bars - (len(_SLOWEST) + 1) * (slow is not None), palette)
        row.join(drawn).add(f" {_SLOWEST}" if is_slow else "", palette.warn).pad_to(left + bars + 1)
        for name in columns:
            row.right(milliseconds(getattr(part, name) / times.steps, step), _COLUMNS[name], palette.text)
        own = (part.forward + part.backward) / times.phases.seconds if times.phases.seconds > 0 else 0.0
        yield row.right(words.percent(own * 100), _SHARE, palette.strong).strip(width)


def stacked(part: Phases, whole: float, width: int, palette: Palette) -> Row:
    """The phases of `part` behind each other in `width` cells, which are `whole` seconds."""
    seconds = [getattr(part, name) for name in GLYPHS]
    ends = [round(min(end / whole, 1.0) * width) if whole > 0 else 0 for end in accumulate(seconds)]
    row, styles = Row(), phase_styles(palette)
    for (name, glyph), start, end in zip(GLYPHS.items(), [0, *ends], ends, strict=False):
        row.add(glyph * (end - start), styles[name])
    return row.add(" " * (width - row.width), palette.track)


def facts(found: Sequence[tuple[str, str]], width: int, palette: Palette) -> Iterator[Strip]:
    """A label and a text for each fact, wrapped under itself."""
    for label, text in found:
        for place, piece in enumerate(wrap(text, max(width - _LABEL, 2))):
            yield Row().left("" if place else label, _LABEL, palette.dim).add(piece, palette.text).strip(width)


def sentences(found: Sequence[str], width: int, palette: Palette) -> Iterator[Strip]:
    """Each sentence behind a mark."""
    for sentence in found:
        for place, piece in enumerate(wrap(sentence, max(width - 2, 2))):
            yield Row("  " if place else "• ", palette.accent).add(piece, palette.strong).strip(width)


def blank(width: int) -> Strip:
    """An empty line."""
    return Strip.blank(width, PLAIN)


def _replica_head(times: StepTimes, columns: Sequence[str], left: int, width: int, palette: Palette) -> Strip:
    how = "one after the other" if analysis.in_turn(times) else "side by side"
    row = Row().left(f"{'Ranks' if times.strategy == 'ddp' else 'Replicas'}, {how}", left, palette.dim)
    for name in columns:
        row.right(name, _COLUMNS[name], palette.dim)
    return row.right("own", _SHARE, palette.dim).strip(width)

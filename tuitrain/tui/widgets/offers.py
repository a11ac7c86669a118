"""The lines under the launcher's form: what else can be pressed there, how far the download is, and the equal command line."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from tuitrain.tui.launch.fetch import Fetch
from tuitrain.tui.launch.last import LastLaunch, describe
from tuitrain.tui.look import Palette
from tuitrain.tui.strips import Row, rail
from tuitrain.tui.wrap import wrap

_RAIL = 20
_LAST = "uses the last launch: "
_COPIES = "  y copies"


def fetch_offer(palette: Palette, *, typing: bool) -> Row:
    """That CIFAR-10 can be had; dim while letters are text."""
    return Row("f ", _key(palette, typing)).add("fetches CIFAR-10, 170 MB", palette.dim if typing else palette.text)


def fetch_progress(fetch: Fetch, palette: Palette, *, typing: bool) -> Row:
    """How far the download is, and how to end it."""
    if fetch.state == "cancelling":
        return Row("cancelling the download…", palette.warn)
    progress = fetch.progress
    if progress is None or not progress.total:
        row = Row("CIFAR-10: connecting…" if progress is None else f"{progress.phase}…", palette.primary)
    else:
        row = Row(f"{progress.phase} ", palette.primary)
        row.join(rail(progress.done / progress.total, _RAIL, palette.primary, palette.faint))
        total = f"{progress.total / 1e6:.0f}"
        row.right(f"{progress.done / 1e6:.0f}", len(total) + 1, palette.text).add(f"/{total} MB", palette.text)
    return row.add(" · ", palette.dim).add("f ", _key(palette, typing)).add("cancels", palette.dim)


def last_offer(last: LastLaunch, palette: Palette, width: int, *, typing: bool) -> Row:
    """That the last launch can be had again, and what it was."""
    words = describe(last, width - 2 - cell_len(_LAST))
    return Row("u ", _key(palette, typing)).add(_LAST, palette.dim if typing else palette.text).add(words, palette.dim)


def command_lines(command: str, width: int, most: int, palette: Palette, *, ready: bool, typing: bool) -> list[Strip]:
    """The command line in at most `most` lines, and the key that copies all of it."""
    pieces = wrap(command, width - 2)
    if cell_len(pieces[-1]) + 2 + len(_COPIES) > width:
        pieces = wrap(command, width - 2 - len(_COPIES))
    if len(pieces) > most:
        pieces = wrap(command, width - 4 - len(_COPIES))[:most]
        pieces[-1] += " …"
    style = palette.primary if ready else palette.dim
    rows = [Row("  " if index else "$ ", palette.dim).add(piece, style) for index, piece in enumerate(pieces)]
    rows[-1].add("  y ", _key(palette, typing)).add("copies", palette.dim)
    return [row.strip(width) for row in rows]


def _key(palette: Palette, typing: bool) -> Style:
    return palette.dim if typing else palette.key

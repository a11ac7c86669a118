"""Every parameter of the network: name, shape, count and its share, device, and whether it is trained."""

from __future__ import annotations

from collections import Counter

import msgspec
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from tuitrain import words
from tuitrain.events import Parameter, Parameters
from tuitrain.text import clean, plural
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.strips import PLAIN, Row, bar, end_of
from tuitrain.tui.widgets.scrolling import ScrollingView
from tuitrain.tui.wrap import wrap

_GAP = 2
_BAR = 16
_LEAST_BAR = 4
_LEAST_SHARE = 6
_LEAST_NAME = 12
_TRAINED = 7
_BYTES = {"fp64": 8, "fp32": 4}


class _Columns(msgspec.Struct, frozen=True):
    """Cells of each column, the bar's with the blank one behind it; 0 leaves it out."""

    name: int
    shape: int
    count: int
    bar: int
    share: int
    device: int
    trained: int


class ParameterTable(ScrollingView):
    """Warnings, then the table under its header, which stays in view; the sum below."""

    DEFAULT_CSS = "ParameterTable { height: 1fr; }"

    def __init__(self, run: RunLike) -> None:
        super().__init__(id="parameter-table")
        self.first = self.last = True
        self._run = run
        self._made_of: object = None
        self._table: list[Strip] = []
        self._header_at = 0
        self._sum: list[Strip] = []

    @property
    def parameters(self) -> Parameters | None:
        """What is shown; `None` where it is not known."""
        record = self._run.record
        return record.parameters if record is not None else None

    def line_count(self) -> int:
        """Lines above the sum."""
        return len(self._table)

    def room(self) -> int:
        """Lines above the sum and the blank one before it."""
        return max(self.body_height() - len(self._sum) - 1, 1)

    def page_rows(self) -> int:
        """The header takes the place of one."""
        return max(self.room() - 2, 1)

    # -- drawing ------------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the table, which is made again only where something could look different."""
        parameters = self.parameters
        made_of = (parameters, width, self.app.theme)
        if parameters is not None and made_of != self._made_of:
            self._made_of = made_of
            self._make(parameters, width - 4)
        self.stay_inside()
        return super().content(width, height)

    def heading(self) -> tuple[Row, Row]:
        """The title, and what one sees where not everything fits."""
        left, right = Row("Parameters", self.palette.title), Row()
        parameters, room = self.parameters, self.room()
        if parameters is not None:
            left.add(f"  {len(parameters.rows):,} {plural('tensor', len(parameters.rows))}", self.palette.dim)
            if self.scrolls:
                right.add(f"lines {self._top + 1:,}–{self._top + room:,} of {len(self._table):,}", self.palette.dim)
        return left, right

    def body(self, width: int, height: int) -> list[Strip]:
        """The lines in view, and the sum."""
        if self.parameters is None:
            return [Row(line, self.palette.text).strip(width) for line in wrap(_waiting(self._run), width)]
        room = self.room()
        shown = self._table[self._top : self._top + room]
        if self._top > self._header_at:
            shown[0] = self._table[self._header_at]
        blanks = [Strip.blank(width, PLAIN)] * (height - len(shown) - len(self._sum))
        return [*shown, *blanks, *self._sum]

    def _make(self, parameters: Parameters, width: int) -> None:
        palette, rows = self.palette, parameters.rows
        self._table = [line for sentence in parameters.warnings for line in _warning(sentence, width, palette.warn)]
        if self._table:
            self._table.append(Strip.blank(width, PLAIN))
        self._header_at = len(self._table)
        if rows:
            columns, devices = _columns(rows, width), _devices(rows)
            self._table.append(self._header(columns).strip(width))
            shares = zip(rows, _shares(rows), strict=True)
            self._table += [self._line(row, columns, share, devices[0][0]).strip(width) for row, share in shares]
        else:
            self._table.append(Row("The network has no parameters that torch knows of.", palette.text).strip(width))
        self._sum = self._make_sum(rows, width)

    def _header(self, columns: _Columns) -> Row:
        dim = self.palette.dim
        row = Row().left("name", columns.name, dim).add(" " * _GAP).left("shape", columns.shape, dim)
        row.add(" " * _GAP).right("count", columns.count, dim).add(" " * _GAP)
        if columns.share:
            row.right("share", columns.bar + columns.share, dim).add(" " * _GAP)
        row.left("device", columns.device, dim)
        return row.add(f"{' ' * _GAP}trained", dim) if columns.trained else row

    def _line(self, parameter: Parameter, columns: _Columns, share: float, device: str) -> Row:
        palette = self.palette
        style = palette.text if parameter.trainable else palette.dim
        row = Row(end_of(clean(parameter.name), columns.name), style).pad_to(columns.name).add(" " * _GAP)
        row.left(words.shape(parameter.shape), columns.shape, style).add(" " * _GAP)
        row.right(f"{parameter.count:,}", columns.count, style).add(" " * _GAP)
        if columns.bar:
            row.join(bar(share, columns.bar - 1, palette.primary, PLAIN)).add(" ")
        if columns.share:
            row.right(_percent(share), columns.share, style).add(" " * _GAP)
        if parameter.device == device:
            row.left(parameter.device, columns.device, palette.dim)
        else:
            row.left(f"! {parameter.device}", columns.device, palette.warn)
        if columns.trained:
            row.add(" " * _GAP).add("yes" if parameter.trainable else "frozen", style)
        return row

    def _make_sum(self, rows: tuple[Parameter, ...], width: int) -> list[Strip]:
        palette, devices = self.palette, _devices(rows)
        count, frozen = sum(row.count for row in rows), sum(row.count for row in rows if not row.trainable)
        record = self._run.record
        precision = "fp64" if record is not None and record.config.precision == "fp64" else "fp32"
        text = f"{count:,} {plural('parameter', count)}, {_size(count * _BYTES[precision])} in {precision}"
        text += f" · {frozen:,} of them frozen" if frozen else " · all are trained" if rows else ""
        text += f" · all on {devices[0][0]}" if len(devices) == 1 else ""
        lines = [Row(line, palette.strong).strip(width) for line in wrap(text, width)]
        if len(devices) > 1:
            parts = ", ".join(f"{size:,} on {device}" for device, size in devices)
            lines += _warning(f"The network is on {len(devices)} devices: {parts}.", width, palette.warn)
        return lines


def _warning(sentence: str, width: int, style: Style) -> list[Strip]:
    lines = wrap(clean(sentence), width - 2)
    return [Row("  " if place else "! ", style).add(line, style).strip(width) for place, line in enumerate(lines)]


def _devices(rows: tuple[Parameter, ...]) -> list[tuple[str, int]]:
    """How many parameters each device holds, the fullest first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[clean(row.device)] += row.count
    return counts.most_common()


def _columns(rows: tuple[Parameter, ...], width: int) -> _Columns:
    """Whole names as long as that is possible: first the bars make room, then the last column where it says the same of all, then the
    shares."""
    name = max(cell_len("name"), *(cell_len(clean(row.name)) for row in rows))
    shape = max(len("shape"), *(len(words.shape(row.shape)) for row in rows))
    count = max(len("count"), *(len(f"{row.count:,}") for row in rows))
    marks = 2 if len(_devices(rows)) > 1 else 0
    device = max(len("device"), *(cell_len(clean(row.device)) + marks for row in rows))
    trained, share = _TRAINED, max(_LEAST_SHARE, *(len(_percent(share)) for share in _shares(rows)))
    spare = width - name - shape - count - share - device - trained - 5 * _GAP
    if spare < 0 and all(row.trainable for row in rows):
        spare, trained = spare + trained + _GAP, 0
    if spare < 0:
        spare, share = spare + share + _GAP, 0
    bars = min(spare, _BAR) if share and spare >= _LEAST_BAR else 0
    return _Columns(max(name + min(spare, 0), min(name, _LEAST_NAME)), shape, count, bars, share, device, trained)


def _shares(rows: tuple[Parameter, ...]) -> list[float]:
    """What part of all parameters each row has."""
    total = max(sum(row.count for row in rows), 1)
    return [row.count / total for row in rows]


def _percent(share: float) -> str:
    percent = share * 100
    return f"{percent:.1f} %" if percent >= 0.1 or not percent else "<0.1 %"


def _size(size: int) -> str:
    """Bytes with a unit, also few ones."""
    if size < 1024:
        return f"{size} bytes"
    return words.size(size) if size >= 2**20 / 10 else f"{size / 1024:.0f} KiB"


def _waiting(run: RunLike) -> str:
    """Why there is nothing to see."""
    record = run.record
    if record is None:
        return "No run yet: n begins one."
    if run.ended:
        return "The parameters of this run are not kept."
    return "The parameters come when the run starts." if record.started is None else "The parameters of this run are not known here."

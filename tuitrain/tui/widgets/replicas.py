"""What each replica of the network gets and gives: its shapes, loss, time and memory."""

from __future__ import annotations

from textual.strip import Strip

from tuitrain.events import Replica, ReplicaStat
from tuitrain.tui import format as words
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row


class Replicas(Pane):
    """One line for each replica, from the real tensors of training; the ones that do not fit are counted."""

    def __init__(self, view: RunLike) -> None:
        super().__init__(id="replicas")
        self._view = view

    def rows_wanted(self) -> int:
        """Lines for all replicas."""
        record = self._view.record
        return max(len(record.replicas.replicas) if record and record.replicas else 1, 1)

    def heading(self) -> tuple[Row, Row]:
        """The title, and the whole batch's shape."""
        record = self._view.record
        right = Row()
        if record and record.replicas:
            right.add("batch ", self.palette.dim).add(words.shape(record.replicas.batch), self.palette.text)
            if record.replicas.gathered:
                right.add(f" → {words.shape(record.replicas.gathered)}", self.palette.text)
        return Row("Replicas", self.palette.title), right

    def body(self, width: int, height: int) -> list[Strip]:
        """The table."""
        record = self._view.record
        if record is None or record.replicas is None:
            return [Row("shapes come with the first step", self.palette.dim).strip(width)]
        replicas = record.replicas.replicas
        stats = {stat.index: stat for stat in record.replica_stats.replicas} if record.replica_stats else {}
        shown = replicas if len(replicas) <= height else replicas[: max(height - 1, 0)]
        widths = (
            max(len(replica.device) for replica in replicas),
            max(len(_shapes(replica.input, replica.inputs)) for replica in replicas),
            max(len(_shapes(replica.output, replica.outputs)) for replica in replicas),
        )
        lines = [self._line(replica, stats.get(replica.index), widths, width) for replica in shown]
        if len(shown) < len(replicas):
            lines.append(Row(f"{len(replicas) - len(shown)} more", self.palette.dim).strip(width))
        return lines

    def _line(self, replica: Replica, stat: ReplicaStat | None, widths: tuple[int, int, int], width: int) -> Strip:
        palette = self.palette
        row = Row(f"{replica.index} ", palette.dim).add(f"{replica.device:<{widths[0]}}  ", palette.strong)
        if replica.input is None:
            return row.add("idle: the batch has no part for it", palette.dim).strip(width)
        row.add(f"{_shapes(replica.input, replica.inputs):<{widths[1]}}", palette.text).add(" → ", palette.dim)
        row.add(f"{_shapes(replica.output, replica.outputs):<{widths[2]}}", palette.text)
        loss = stat.loss if stat and stat.loss is not None else replica.loss
        row.add("  ").right(words.number(loss), 6, palette.train)
        row.add("  ").right(words.milliseconds(stat.step_seconds) if stat else "-", 7, palette.text)
        memory = words.size(stat.memory) if stat and stat.memory is not None else ""
        return row.add("  ").right(memory, 8, palette.text).strip(width)


def _shapes(first: tuple[int, ...] | None, several: tuple[tuple[int, ...], ...] | None) -> str:
    return " ".join(words.shape(sizes) for sizes in several) if several else words.shape(first)

"""The list of processes as one looks at it: of all cards or of one, in an order that can be turned round."""

from __future__ import annotations

from tuitrain.tui.gpus.process_rows import SORTS, ProcessRow, arranged
from tuitrain.tui.row_list import RowList


class ProcessList(RowList[ProcessRow]):
    """The processes, card by card where no other order is chosen."""

    def __init__(self) -> None:
        super().__init__(SORTS)
        self.card: str | None = None
        """The key of the only card that is shown, `None` for all."""

    def arranged(self) -> list[ProcessRow]:
        """The processes of the card that the filter leaves, in order."""
        return arranged(self.all or [], self.sort, reverse=self.reverse, sought=self.sought, card=self.card)

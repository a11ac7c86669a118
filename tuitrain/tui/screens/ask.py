"""Questions before something is lost or left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.tui.screens.dialog import Answer, Dialog
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.widgets.strips import Row
from tuitrain.tui.widgets.wrap import wrap

_WIDTH = 68
_HINT = "Enter takes it · Esc goes back"


class _Box(Pane, can_focus=True):
    """A sentence, and answers of which the cursor begins on the first."""

    def __init__(self, title: str, answers: Sequence[str], sentence: str) -> None:
        super().__init__()
        self.first = self.last = True
        self.cursor = 0
        self._title = title
        self._answers = answers
        self._sentence = wrap(sentence, _WIDTH - 4) if sentence else []
        narrow = max(max(map(cell_len, answers)) + 8, cell_len(title) + cell_len(_HINT) + 12)
        self.styles.width = _WIDTH if sentence else narrow
        self.styles.height = len(self._sentence) + bool(sentence) + len(answers) + 2
        self._says_how = cell_len(title) + cell_len(_HINT) + 10 <= (_WIDTH if sentence else narrow)

    def move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = (self.cursor + by) % len(self._answers)
        self.redraw()

    async def on_click(self, event: events.Click) -> None:
        """A click takes the answer that it is on."""
        index = event.y - (1 + len(self._sentence) + bool(self._sentence))
        if 0 <= index < len(self._answers):
            self.move(index - self.cursor)
            await self.run_action("screen.take")

    def heading(self) -> tuple[Row, Row]:
        """The title, and how to answer."""
        return Row(self._title, self.palette.title_focus), Row(_HINT, self.palette.dim) if self._says_how else Row()

    def body(self, width: int, height: int) -> list[Strip]:
        """The sentence and a gap where there is one, and a line for each answer."""
        palette = self.palette
        lines = [Row(line, palette.text).strip(width) for line in self._sentence]
        if lines:
            lines.append(Strip.blank(width))
        for index, answer in enumerate(self._answers):
            here = index == self.cursor
            lines.append(Row("▸ " if here else "  ", palette.cursor).add(answer, palette.strong if here else palette.text).strip(width))
        return lines


class Question(Dialog[Answer, _Box], Generic[Answer]):
    """Asks, and gives what the chosen answer stands for. Enter takes the first answer at once.

    Args:
        title: the question in a few words.
        answers: what each is called, and what it stands for.
        back: what Esc stands for.
        sentence: what there is to know before one answers.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take"),
        Binding("up,shift+tab", "move(-1)", show=False),
        Binding("down,tab", "move(1)", show=False),
        Binding("escape", "leave", "Back"),
        Binding("q", "leave", show=False),
    ]

    def __init__(self, title: str, answers: Sequence[tuple[str, Answer]], *, back: Answer, sentence: str = "") -> None:
        super().__init__(_Box(title, [text for text, _ in answers], sentence))
        self._answers = [answer for _, answer in answers]
        self._back = back

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self._box.move(by)

    def action_take(self) -> None:
        """Take the answer under the cursor."""
        self.dismiss(self._answers[self._box.cursor])

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(self._back)


class Ask(Question[bool]):
    """Asks whether to do something that cannot be taken back; gives `True` for yes. The answer that Enter takes at once is no.

    Args:
        title: the question in a few words.
        sentence: what would be lost.
        yes: what doing it is called.
        no: what leaving it is called.
    """

    def __init__(self, title: str, sentence: str, *, yes: str, no: str) -> None:
        super().__init__(title, ((no, False), (yes, True)), back=False, sentence=sentence)


class QuitDialog(Question[str]):
    """Asks what becomes of the run that trains, or is `paused`; gives "stop", "background" or "stay"."""

    def __init__(self, *, paused: bool) -> None:
        keep = "Go on in the background" if paused else "Keep running in the background"
        answers = (("Stop and save", "stop"), (keep, "background"), ("Cancel", "stay"))
        super().__init__("A run is paused" if paused else "A run is training", answers, back="stay")


class QueueDialog(Question[str | None]):
    """Asks whether a run waits until devices are free; gives "queue", "beside" or `None`.

    Args:
        devices: what it would take, in words.
        sentence: who uses them.
    """

    def __init__(self, devices: str, sentence: str) -> None:
        answers = ((f"Queue it (starts when {devices} is free)", "queue"), ("Start it beside", "beside"), ("Cancel", None))
        super().__init__(f"{devices} is in use", answers, back=None, sentence=sentence)


class Patience(Dialog[None, "_Words"]):
    """Says what is being done; whoever shows it takes it away.

    Args:
        title: it in a few words.
        sentence: what comes of it.
    """

    def __init__(self, title: str, sentence: str) -> None:
        super().__init__(_Words(title, sentence))


class _Words(Pane):
    def __init__(self, title: str, sentence: str) -> None:
        super().__init__()
        self.first = self.last = True
        self._title = title
        self._sentence = wrap(sentence, _WIDTH - 4)
        self.styles.width, self.styles.height = _WIDTH, len(self._sentence) + 2

    def heading(self) -> tuple[Row, Row]:
        """The title."""
        return Row(self._title, self.palette.title_focus), Row()

    def body(self, width: int, height: int) -> list[Strip]:
        """The sentence."""
        return [Row(line, self.palette.text).strip(width) for line in self._sentence]

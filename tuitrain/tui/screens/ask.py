"""Questions before something is lost or left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.strip import Strip

from tuitrain.tui.run_view import ENDED
from tuitrain.tui.screens.dialog import WIDTH, Answer, Box, Dialog
from tuitrain.tui.strips import Row
from tuitrain.tui.wrap import wrap, wrap_into

_HINT = "Enter takes it · Esc goes back"


class _Choices(Box, can_focus=True):
    """A sentence, and answers of which the cursor begins on the first."""

    def __init__(self, title: str, answers: Sequence[str], sentence: str) -> None:
        super().__init__()
        self.cursor = 0
        self._title = title
        self._answers = answers
        self._sentence = sentence
        self._said: list[str] = []

    def ask_instead(self, title: str, answers: Sequence[str], cursor: int) -> None:
        """Another question, with other answers."""
        self._title, self._answers, self.cursor = title, answers, cursor
        self.place_in(*self.app.size)

    def place_in(self, width: int, height: int) -> None:
        """Of the sentence as much as there is room for over the answers."""
        wanted = WIDTH if self._sentence else max(max(map(cell_len, self._answers)) + 8, cell_len(self._title) + cell_len(_HINT) + 12)
        width = min(wanted, width)
        room = height - len(self._answers) - 3
        self._said = wrap_into(self._sentence, width - 4, room) if self._sentence and room > 0 else []
        self.styles.width, self.styles.height = width, len(self._said) + bool(self._said) + len(self._answers) + 2
        self.redraw()

    def move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = (self.cursor + by) % len(self._answers)
        self.redraw()

    async def on_click(self, event: events.Click) -> None:
        """A click takes the answer that it is on."""
        index = event.y - (1 + len(self._said) + bool(self._said))
        if 0 <= index < len(self._answers):
            self.move(index - self.cursor)
            await self.run_action("screen.take")

    def heading(self) -> tuple[Row, Row]:
        """The title, and how to answer."""
        says_how = cell_len(self._title) + cell_len(_HINT) + 10 <= self.size.width
        return Row(self._title, self.palette.title_focus), Row(_HINT, self.palette.dim) if says_how else Row()

    def body(self, width: int, height: int) -> list[Strip]:
        """The sentence and a gap where there is one, and a line for each answer."""
        palette = self.palette
        lines = [Row(line, palette.text).strip(width) for line in self._said]
        if lines:
            lines.append(Strip.blank(width))
        for index, answer in enumerate(self._answers):
            here = index == self.cursor
            lines.append(Row("▸ " if here else "  ", palette.cursor).add(answer, palette.strong if here else palette.text).strip(width))
        return lines


class Question(Dialog[Answer, _Choices], Generic[Answer]):
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
        super().__init__(_Choices(title, [text for text, _ in answers], sentence))
        self._answers = [answer for _, answer in answers]
        self._back = back

    def ask_instead(self, title: str, answers: Sequence[tuple[str, Answer]]) -> None:
        """Another question; the cursor stays on its answer where that is still one of them."""
        meant = self._answers[self._box.cursor]
        self._answers = [answer for _, answer in answers]
        cursor = self._answers.index(meant) if meant in self._answers else 0
        self._box.ask_instead(title, [text for text, _ in answers], cursor)

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
    """Asks what becomes of a run; gives "stop", "at once", "background", "leave" or "stay".

    Args:
        state: the word for what the run does.
        stalled: whether it makes no steps.
    """

    def __init__(self, state: str, *, stalled: bool) -> None:
        title, answers = _about_leaving(state, stalled=stalled)
        super().__init__(title, answers, back="stay")
        self._about = state, stalled

    def follow(self, state: str, *, stalled: bool) -> None:
        """The run does something else by now, or nothing any more."""
        if (state, stalled) != self._about:
            self._about = state, stalled
            self.ask_instead(*_about_leaving(state, stalled=stalled))


def _about_leaving(state: str, *, stalled: bool) -> tuple[str, Sequence[tuple[str, str]]]:
    stay, at_once = ("Cancel", "stay"), ("Leave now: what is not saved is lost", "at once")
    if state == "idle" or state in ENDED:
        return "No run is training any more", (("Leave", "leave"), stay)
    if state == "stopping":
        # What it is in the midst of may never end, as in a model of one's own that waits for something.
        return "A run is stopping", (("Leave when it has stopped", "stop"), at_once, stay)
    if state == "preparing":
        answers = (("Stop: there is nothing to save yet", "stop"), ("Keep running in the background", "background"), stay)
        return "A run is being prepared", answers
    paused = state == "paused"
    keep = "Keep it paused in the background" if paused else "Keep running in the background"
    if stalled:
        return "A run hangs in a step", (("Stop and save when the step ends", "stop"), at_once, stay)
    return "A run is paused" if paused else "A run is training", (("Stop and save", "stop"), (keep, "background"), stay)


class QueueDialog(Question[str | None]):
    """Asks whether a run waits until devices are free; gives "queue", "beside" or `None`.

    Args:
        devices: what it would take.
        sentence: who uses them.
    """

    def __init__(self, devices: Sequence[str], sentence: str) -> None:
        several = len(devices) > 1
        title = "The devices are not all free" if several else f"{devices[0]} is in use"
        queue = f"Queue it (starts when {'all are' if several else f'{devices[0]} is'} free)"
        answers = ((queue, "queue"), ("Start it beside", "beside"), ("Cancel", None))
        super().__init__(title, answers, back=None, sentence=f"{', '.join(devices)}: {sentence}" if several else sentence)


class Patience(Dialog[None, "_Words"]):
    """Says what is being done; whoever shows it takes it away.

    Args:
        title: it in a few words.
        sentence: what comes of it.
    """

    def __init__(self, title: str, sentence: str) -> None:
        super().__init__(_Words(title, sentence))


class _Words(Box):
    def __init__(self, title: str, sentence: str) -> None:
        super().__init__()
        self._title = title
        self._sentence = sentence

    def place_in(self, width: int, height: int) -> None:
        """As large as the sentence needs."""
        self.styles.width = min(WIDTH, width)
        self.styles.height = len(wrap(self._sentence, min(WIDTH, width) - 4)) + 2

    def heading(self) -> tuple[Row, Row]:
        """The title."""
        return Row(self._title, self.palette.title_focus), Row()

    def body(self, width: int, height: int) -> list[Strip]:
        """The sentence."""
        return [Row(line, self.palette.text).strip(width) for line in wrap(self._sentence, width)]

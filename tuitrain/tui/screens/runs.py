"""The runs that are kept: looked through, compared, named, deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.worker import get_current_worker

from tuitrain.config import RunConfig
from tuitrain.tui.browse import run_changes
from tuitrain.tui.browse.run_changes import Outcome
from tuitrain.tui.browse.run_list import RunList
from tuitrain.tui.browse.run_rows import RunRow, as_it_is
from tuitrain.tui.browse.runs_reader import Reading, RunsReader, Wish, Wishes
from tuitrain.tui.messages import GoOn, OpenRun
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.base import NEW_LIKE, NEW_LIKE_KEYS, Help, PaneScreen
from tuitrain.tui.widgets.run_detail import RunDetail, rows_in
from tuitrain.tui.widgets.runs_table import RunsTable

if TYPE_CHECKING:
    from tuitrain.runs.silence import Wait
    from tuitrain.runs.summary import RunSummary
    from tuitrain.tui.hosts.outside import Outside

_LIST_EVERY_BEATS = 2
_EDIT_KEYS = {"name": "e", "note": "a"}


class RunsScreen(PaneScreen):
    """The table, and what is known of the selected run.

    Args:
        run: the run of this app; its numbers come from memory.
        runs_dir: where the runs are kept.
        outside: the processes of those that wait in the queue.
        runs: the list as it was left.
    """

    AUTO_FOCUS = "#runs-table"
    ABOUT = "Every run that is kept, also those of other programs and terminals."
    FIRST: ClassVar[tuple[str, ...]] = ("open", "take_out", "stop", "mark", "resume", "overlay", "search", "clear_search", "sort")
    KEYS: ClassVar[Help] = (
        ("Enter", "open the run"),
        ("↑ ↓ PgUp PgDn", "move; also j k Home End"),
        ("space", "mark the run, or take the mark away"),
        ("v", "overlay the curves of the marked runs"),
        ("/", "show only runs that hold these words, such as resnet18 adam, or settings such as lr=0.01; Esc shows all"),
        ("s  S", "sort: newest, name, state, steps, loss, accuracy, longest; reversed"),
        ("e  a", "another name, a note"),
        ("o  w  p  i", "open its log, parameters, predictions, analysis"),
        ("R", "go on with it, in the background while one trains here"),
        NEW_LIKE_KEYS,
        ("x", "stop it (asks), or take it out of the queue"),
        ("D", "delete it or all marked (asks)"),
        ("y", "copy the equal tuitrain run line"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "overlay", "Overlay"),
        Binding("R", "resume", "Resume", tooltip="Go on with this run"),
        Binding("R", "say_why_not", show=False),
        *NEW_LIKE,
        Binding("x", "take_out", "Take out", tooltip="Take this run out of the queue"),
        Binding("x", "stop", "Stop", tooltip="Stop this run, with a checkpoint"),
        Binding("x", "say_why_no_stop", show=False),
        Binding("e", "edit('name')", "Rename"),
        Binding("a", "edit('note')", "Note"),
        Binding("D", "delete", "Delete"),
        Binding("D", "say_why_kept", show=False),
        Binding("y", "copy", "Copy command"),
        Binding("o", "look('log')", "Log"),
        Binding("w", "look('parameters')", "Parameters"),
        Binding("p", "look('predictions')", "Predictions"),
        Binding("i", "look('analysis')", "Analysis", tooltip="Where the time of the steps went"),
        Binding("escape", "leave", "Close"),
        Binding("r", "leave", "Close", show=False),
    ]

    class Read(Message, bubble=False):
        """The thread has read what was wished for, or the newest runs before it."""

        def __init__(self, reading: Reading) -> None:
            super().__init__()
            self.reading = reading

    class Told(Message, bubble=False):
        """A change was made, or could not be; `typed` is what it was to keep."""

        def __init__(self, outcome: Outcome, typed: RunDetail.Edited | None = None) -> None:
            super().__init__()
            self.outcome = outcome
            self.typed = typed

    def __init__(self, run: RunLike, runs_dir: Path, *, outside: Outside, runs: RunList) -> None:
        super().__init__(run)
        self._outside = outside
        self._reader = RunsReader(runs_dir)
        self._table = RunsTable(runs)
        self._detail = RunDetail()
        self._beats = 0
        self._wishes = Wishes()
        self._listed: list[RunRow] | None = None
        self._own_state: object = None
        self._unsaved: str | None = None

    def shown_run(self) -> Path | RunConfig | None:
        """The selected run."""
        row = self._table.list.selected
        return super().shown_run() if row is None else row.summary.path

    def panes(self) -> Iterable[Widget]:
        """The table over the detail."""
        return (self._table, self._detail)

    def place_panes(self, width: int, height: int) -> None:
        """The table gets what the detail leaves; without a run there is nothing to detail, but what is being typed keeps its field."""
        self._detail.display = not self._table.empty or self._detail.editing
        rows = rows_in(height)
        self._detail.styles.height = rows
        self._table.styles.height = height - rows if self._detail.display else height
        self._table.place(first=True, last=not self._detail.display)

    def on_mount(self) -> None:
        """Begin to read."""
        self._look(listing=True)

    def on_screen_resume(self) -> None:
        """Another screen was closed: what it changed shows at once."""
        if self._table.list.all is not None:
            self._look(listing=True)

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """The own run's numbers each second, the list every other."""
        self._beats += 1
        self._table.redraw_own(partial(as_it_is, run=self.run))
        self._detail.show(self._table.list.selected)
        self._look(listing=self._beats % _LIST_EVERY_BEATS == 0)

    def run_changed(self) -> None:
        """The own run has another state or folder: it shows at once."""
        record = self.run.record
        seen = (record and record.run, self.run.state)
        if seen != self._own_state:
            self._own_state = seen
            self._header.redraw()
            self._listed = None
            self._look(listing=True)

    def _look(self, *, listing: bool) -> None:
        """Read the list, and the curves in view where they have gained steps; one thread at a time."""
        runs = self._table.list
        seen = Wish(
            rows=tuple(runs.in_view),
            cells=self._table.curve_cells,
            selected=runs.selected,
            sketched=self._detail.sketched,
            listing=listing,
            settings=bool(runs.sought.strip()),
        )
        wish = self._wishes.add(seen, busy=self._busy)
        if wish is None:
            return
        own = self.run.record

        def read() -> None:
            if wish.listing and (newest := self._reader.newest()) is not None:
                self.post_message(self.Read(newest))
            self.post_message(self.Read(self._reader.read(wish, own)))

        self._read_apart(read)

    def on_runs_screen_read(self, message: Read) -> None:
        """Show what was read."""
        reading, was_empty = message.reading, self._table.empty
        self._busy = reading.unread > 0
        if reading.rows is not None and reading.rows is not self._listed:
            self._listed = reading.rows
            self._table.show([as_it_is(row, self.run) for row in reading.rows], reading.problem, reading.unread)
            if self._table.empty != was_empty:
                self.rearrange()
        self._unsaved = reading.unsaved
        if reading.settings is not None:
            self._table.know(reading.settings)
        self._table.show_read(reading.curves, reading.changes)
        self._selection_changed()
        selected = self._table.list.selected
        if selected is not None and reading.sketched == selected.key:
            self._detail.sketch, self._detail.changed = reading.sketch, " · ".join(reading.changes.get(selected.key, ()))
            self._detail.redraw()

    def on_runs_table_moved(self, message: RunsTable.Moved) -> None:
        """Another run is selected, or others are in view."""
        self._selection_changed()

    def _selection_changed(self) -> None:
        self._detail.show(self._table.list.selected)
        self.refresh_bindings()
        self._look(listing=False)

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs a run needs one; nothing but typing while something is typed."""
        row = self._table.list.selected
        if action in ("overlay", "look", "edit", "copy", "new_like"):
            return row is not None and not self._typing
        if action in ("delete", "say_why_kept"):
            return row is not None and self._trains(row) == (action == "say_why_kept") and not self._typing
        if action in ("resume", "say_why_not"):
            return row is not None and (row.resumable and row.key != self._unsaved) == (action == "resume") and not self._typing
        if action in ("take_out", "stop"):
            return row is not None and not row.ended and row.summary.waits == (action == "take_out") and not self._typing
        if action == "say_why_no_stop":
            return row is not None and row.ended and not self._typing
        return not self._typing if action == "leave" else True

    def _trains(self, row: RunRow) -> bool:
        """Whether all that would be deleted is a run that trains."""
        return row.summary.live and not row.summary.waits and not any(one is not row for one in self._table.list.chosen)

    @property
    def _typing(self) -> bool:
        return self._detail.editing or self._table.searching

    async def on_runs_table_opened(self, message: RunsTable.Opened) -> None:
        """Enter, or a double click."""
        await self.action_look()

    async def action_look(self, what: str | None = None) -> None:
        """Open the selected run, and over it a screen about it. The own run has its screen; the others are opened from their folders."""
        row = self._table.list.selected
        if row is None:
            return
        if not row.own:
            self.post_message(OpenRun(row.summary.path, row.title, what))
            return
        await self.run_action("app.training")
        if what is not None:
            await self.app.run_action(what)

    def action_resume(self) -> None:
        """Go on with the selected run."""
        if (row := self._table.list.selected) is not None:
            self.post_message(GoOn(row.summary.path))

    def action_say_why_not(self) -> None:
        """Going on with a run that trains or waits is refused with a sentence."""
        self.action_resume()

    def action_say_why_no_stop(self) -> None:
        """There is nothing to stop."""
        if (row := self._table.list.selected) is not None:
            self._tell(Outcome(f"{row.title} does not train any more ({row.state}): there is nothing to stop.", wrong=True))

    def action_say_why_kept(self) -> None:
        """Deleting a run that trains is refused with a sentence."""
        self.action_delete()

    def action_overlay(self) -> None:
        """Lay the curves of the marked runs over each other."""
        from tuitrain.tui.curve.compare import MOST
        from tuitrain.tui.screens.compare import CompareScreen

        marked = self._table.list.chosen
        if len(marked) < 2:
            self.notify("Mark two runs or more with space; v then lays their curves over each other.", severity="warning")
        elif len(marked) > MOST:
            self.notify(f"{len(marked)} runs are marked, and {MOST} at most are compared.", severity="warning")
        else:
            self.app.push_screen(CompareScreen(self.run, [row.summary.path for row in marked]))

    def action_edit(self, field: str) -> None:
        """Type another name or note."""
        self._detail.edit("name" if field == "name" else "note")

    def action_delete(self) -> None:
        """Delete the selected run, or the marked ones, after a question; a live one is refused."""
        from tuitrain.tui.screens.ask import Ask

        row, marked = self._table.list.selected, self._table.list.chosen
        if row is None:
            return
        if any(one is not row for one in marked):
            self._delete_marked(marked, row)
            return
        run = row.summary
        checked = run_changes.outcome(partial(run_changes.check_deletable, run))
        if checked.wrong:
            self._tell(checked)
            return
        question = Ask(f"Delete {row.title}?", run_changes.what_is_deleted(run), yes="Delete it", no="Keep it")

        def delete() -> Outcome:
            return run_changes.delete(run, self._outside, self._watching())

        self.app.push_screen(question, lambda yes: self._change(delete) if yes else None)

    def _delete_marked(self, rows: Sequence[RunRow], selected: RunRow) -> None:
        """Ask about the marked runs; the selected one, where it is none of them, may be meant alone."""
        from tuitrain.tui.browse.deletion import Marked, delete_each, refusal
        from tuitrain.tui.screens.ask import Question

        marked = Marked.of(rows, self._table.list.rows)
        if not marked.going:
            self._tell(Outcome(f"None of the {len(rows)} marked runs can be deleted. {refusal(marked.staying[0])}", wrong=True))
            return
        answers = [("Keep them", ()), (f"Delete {len(marked.going)} marked", marked.going)]
        if selected not in rows and refusal(selected.summary) is None:
            answers.append((f"Delete only the selected one: {selected.title}", (selected.summary,)))

        def delete(runs: Sequence[RunSummary]) -> Outcome:
            worker = get_current_worker()
            return delete_each(runs, self._outside, self._watching(), lambda: worker.is_cancelled)

        question = Question(marked.title, answers, back=(), sentence=marked.sentence)
        self.app.push_screen(question, lambda runs: self._change(partial(delete, runs)) if runs else None)

    def action_take_out(self) -> None:
        """Take the selected run out of the queue; it stays in the list as stopped."""
        if (row := self._table.list.selected) is not None:
            self._change(lambda: run_changes.take_out(row.summary, self._outside, self._watching()))

    def action_stop(self) -> None:
        """Stop the selected run after a question: it may not be the one that was meant."""
        from tuitrain.tui.screens.ask import Question

        if (row := self._table.list.selected) is None:
            return
        run = row.summary
        sentence = f"{run.run}: it stops at the next step, with a checkpoint, and R goes on with it."
        question = Question(f"Stop {row.title}?", (("Stop it", True), ("Let it train", False)), back=False, sentence=sentence)
        self.app.push_screen(question, lambda yes: self._change(partial(run_changes.stop, run, self._outside)) if yes else None)

    def action_copy(self) -> None:
        """Copy the equal command line."""
        if (row := self._table.list.selected) is not None:
            self._change(partial(run_changes.copy_command, row.summary))

    def on_run_detail_edited(self, message: RunDetail.Edited) -> None:
        """Write the new name or note."""
        row, field, text = message.run, message.field, message.text
        record = self.run.record if message.run.own else None

        def edit() -> Outcome:
            outcome = run_changes.edit(row.summary, field, text)
            if record is not None and (field == "note" or text.strip()):
                record.config = msgspec.structs.replace(record.config, **{field: text.strip()})
            return outcome

        self._change(edit, message)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Whoever leaves the name or note by Tab or by mouse leaves it as it was."""
        if event.widget is self._table and self._detail.editing:
            self._detail.action_leave()

    def on_run_detail_left(self, message: RunDetail.Left) -> None:
        """Back to the table."""
        self._table.focus()
        self.rearrange()
        self._selection_changed()

    def _change(self, change: Callable[[], Outcome], typed: RunDetail.Edited | None = None) -> None:
        """Do in a thread what waits for the disk."""

        def run() -> None:
            self.post_message(self.Told(run_changes.outcome(change), typed))

        self.run_worker(run, thread=True, exit_on_error=False, group="change")

    def _watching(self) -> Wait:
        """For a change, which asks for it in its thread: it is given up when the app ends, which would wait for the thread."""
        worker = get_current_worker()
        return run_changes.watching(lambda outcome: self.post_message(self.Told(outcome)), lambda: worker.is_cancelled)

    def on_runs_screen_told(self, message: Told) -> None:
        """Say what became of a change, and show it."""
        outcome, typed = message.outcome, message.typed
        if outcome.wrong and typed is not None:
            self._detail.have_again(typed)
            outcome = msgspec.structs.replace(outcome, sentence=f"{outcome.sentence} {_EDIT_KEYS[typed.field]} shows what was typed again.")
        self._tell(outcome)
        self._look(listing=True)

    def _tell(self, outcome: Outcome) -> None:
        if outcome.copied is not None:
            self.copy(outcome.copied)
        if outcome.sentence:
            self.notify(outcome.sentence, severity="warning" if outcome.wrong else "information", markup=False, timeout=5)

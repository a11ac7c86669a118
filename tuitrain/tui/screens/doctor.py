"""What is wrong with this machine's GPUs, and what mends it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from tuitrain.tui.examination import Doctor, Examination, MachineDoctor
from tuitrain.tui.messages import News
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.save import save_text
from tuitrain.tui.screens.ask import Question
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.doctor_detail import DoctorDetail
from tuitrain.tui.widgets.doctor_report import DoctorReport
from tuitrain.tui.widgets.save_prompt import SavePrompt

_WIDE = 120
_JOIN_SECONDS = 1.0
_ALL_REDUCE = (
    "Two processes add numbers with one another, one on each of two GPUs, or on the CPU where there are fewer. It shows whether "
    "training on several GPUs can work here, takes 30 seconds at most, and leaves a run alone that trains meanwhile."
)


class _Body(Horizontal):
    """The report, and beside it the selected check."""

    DEFAULT_CSS = "_Body { height: 1fr; }"


class DoctorScreen(PaneScreen):
    """The report of an examination that begins when the screen opens and ends at the latest when it closes.

    Args:
        run: the run of the app, for the header.
        sampler: says what the devices do.
        runs_dir: where the runs are kept, whose disk is looked at too.
    """

    AUTO_FOCUS = "#doctor-report"
    ABOUT = "How many GPUs are left at each step from the bus to torch, what is wrong, and what mends it."
    FIRST: ClassVar[tuple[str, ...]] = ("open", "copy_mend", "copy_report", "examine", "all_reduce", "save")
    KEYS: ClassVar[Help] = (
        ("↑ ↓ PgUp PgDn", "select a check; ↑ on the first one shows the conclusion"),
        ("Enter", "what was looked at, what was found, what mends it"),
        ("y", "copy the command that mends the selected check, or the words where none does"),
        ("Y", "copy the whole report, to paste into a forum"),
        ("s", "save the report to a file"),
        ("e", "examine again"),
        ("a", "test how the GPUs talk to one another (asks first)"),
        ("d  Esc", "close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "copy_mend", "Copy mend", tooltip="Copy the command that mends the selected check"),
        Binding("Y", "copy_report", "Copy all", tooltip="Copy the whole report"),
        Binding("s", "save", "Save", tooltip="Save the report to a file"),
        Binding("e", "examine", "Again", tooltip="Examine again"),
        Binding("a", "all_reduce", "All-reduce", tooltip="Test how the GPUs talk to one another"),
        Binding("d", "leave", show=False),
        Binding("escape", "leave", "Close"),
    ]

    class Changed(News, bubble=False):
        """The examination has something new."""

    def __init__(self, run: RunLike, sampler: SamplerLike, runs_dir: Path) -> None:
        super().__init__(run)
        self._doctor: Doctor = MachineDoctor()
        self._examination = Examination(self._doctor, sampler, runs_dir, self._heard)
        self._report = DoctorReport(self._examination)
        self._detail = DoctorDetail(lambda: self._report.selected)
        self._prompt = SavePrompt()

    def panes(self) -> Iterable[Widget]:
        """The report and the check, and the line that asks where to save."""
        return (_Body(self._report, self._detail), self._prompt)

    def on_mount(self) -> None:
        """Begin to examine."""
        self._examination.examine()
        self._redraw()

    async def on_unmount(self) -> None:
        """End what is under way: the thread ends the processes that it started."""
        self._examination.stop()
        await asyncio.to_thread(self._examination.join, _JOIN_SECONDS)

    def place_panes(self, width: int, height: int) -> None:
        """Side by side where there is room for two columns of words."""
        wide = width >= _WIDE
        self._report.styles.height = self._detail.styles.height = "100%"
        self._report.styles.width = width - width * 4 // 9 if wide else "100%"
        self._detail.styles.width = width * 4 // 9
        self._detail.display = self._report.beside = wide
        self._prompt.display = self._prompt.editing

    def beat(self) -> None:
        """The seconds go on while something is under way."""
        if self._examination.busy:
            self._report.redraw()

    def _heard(self) -> None:
        """From the examination's thread: say that there is something new, and nothing else."""
        self.post_message(self.Changed())

    def on_doctor_screen_changed(self, message: Changed) -> None:
        """Show it."""
        self._redraw()

    def on_doctor_report_moved(self, message: DoctorReport.Moved) -> None:
        """Show the other check."""
        self._detail.redraw()
        self.refresh_bindings()

    def on_save_prompt_closed(self, message: SavePrompt.Closed) -> None:
        """The report has the keys again."""
        self._report.focus()
        self.refresh_bindings()

    def _redraw(self) -> None:
        self._report.redraw()
        self._detail.redraw()
        self.refresh_bindings()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What needs a report waits for it."""
        busy, report, check = self._examination.busy, self._examination.report, self._report.selected
        typing = self._prompt.editing
        works = {
            "copy_mend": check is not None and bool(check.mend) and not typing,
            "copy_report": report is not None and not typing,
            "save": report is not None and not typing,
            "examine": not busy and not typing,
            "all_reduce": report is not None and not busy and not typing,
        }
        return works.get(action, True)

    def action_copy_mend(self) -> None:
        """Copy the command that mends the selected check, so that it can be pasted as it is; the words where none does."""
        check = self._report.selected
        mend = None if check is None else check.command or check.plain_mend
        if mend:
            self.copy(mend)

    def action_copy_report(self) -> None:
        """Copy the whole report."""
        if self._examination.report is not None:
            self.copy(self._doctor.as_text(self._examination.report))

    def action_save(self) -> None:
        """Ask for the file's name."""
        if self._examination.report is not None:
            self._prompt.ask_where("tuitrain-doctor.txt", partial(save_text, text=self._doctor.as_text(self._examination.report)))
            self.refresh_bindings()

    def action_examine(self) -> None:
        """Look at everything again."""
        self._examination.examine()
        self._redraw()

    def action_all_reduce(self) -> None:
        """Ask whether to test how the GPUs talk to one another."""
        answers = (("Test it, 30 s at most", True), ("Not now", False))
        self.app.push_screen(Question("How do the GPUs talk?", answers, back=False, sentence=_ALL_REDUCE), self._all_reduce_answered)

    def _all_reduce_answered(self, yes: bool | None) -> None:
        if yes:
            self._examination.all_reduce()
            self._redraw()

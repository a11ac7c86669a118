"""What the network says of the test samples: pictures with the worst mistakes first, and which classes it takes for which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tuitrain.events import Predictions
from tuitrain.tui.browse.results import Cell, Results, Which
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.screens.base import Help, PaneScreen
from tuitrain.tui.widgets.confusions import Confusions
from tuitrain.tui.widgets.images import Images
from tuitrain.tui.widgets.matrix import Matrix

_COPY = ("y", "copy the picture's path in the data folder")
_OF_A_LIST = {
    "m  Tab": "between the pictures and the largest confusions",
    "Enter  space": "in the list: pictures of one of them",
}
"""What keys do where there is no matrix."""
_View = Literal["pictures", "matrix", "largest"]
_FILTERS: tuple[Which, ...] = ("all", "mistakes", "right")
_ABOUT = {"all": "worst first", "mistakes": "mistakes", "right": "right ones"}
_NONE = {
    "all": "This evaluation kept no samples to look at; m shows its confusion matrix.",
    "mistakes": "There is no mistake among the samples that are kept; f shows the others.",
    "right": "There is no right answer among the samples that are kept; f shows the others.",
}


class PredictionsScreen(PaneScreen):
    """Follows the evaluations of the run; one looks at pictures or at the cells of the confusion matrix."""

    ABOUT = "What the network says of the test samples."
    KEYS: ClassVar[Help] = (
        ("← → ↑ ↓", "select another picture or cell"),
        ("PgUp  PgDn", "move by what one sees"),
        ("Home  End", "first and last"),
        ("m  Tab", "pictures, confusion matrix, largest confusions"),
        ("f", "all, only mistakes, only right answers"),
        ("Enter  space", "in the matrix and the list: pictures of one cell"),
        ("Esc", "from one cell back to all pictures; close"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(0,-1)", "Move", key_display="↑↓←→"),
        Binding("down", "move(0,1)", show=False),
        Binding("left", "move(-1,0)", show=False),
        Binding("right", "move(1,0)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "jump(False)", show=False),
        Binding("end", "jump(True)", show=False),
        Binding("enter", "open_cell", "Open cell"),
        Binding("space", "open_cell", show=False),
        Binding("enter,space", "open_empty_cell", show=False),
        Binding("m", "look('matrix')", "Matrix"),
        Binding("m", "look('largest')", "Confusions"),
        Binding("m", "look('pictures')", "Pictures"),
        Binding("tab", "switch(1)", show=False),
        Binding("shift+tab", "switch(-1)", show=False),
        Binding("f", "filter", "Filter"),
        Binding("y", "copy_file", "Copy path"),
        Binding("escape", "all_pictures", "All pictures"),
        Binding("escape", "back", show=False),
        Binding("p", "leave", "Close"),
    ]

    def __init__(self, run: RunLike) -> None:
        super().__init__(run)
        self._images = Images()
        self._matrix = Matrix()
        self._largest = Confusions()
        self._view: _View = "pictures"
        self._which: Which = "all"
        self._cell: Cell | None = None
        self._shown: Predictions | None = None
        self._results: Results | None = None

    def panes(self) -> Iterable[Widget]:
        """Pictures, the matrix and the list; one of them shows."""
        return (self._images, self._matrix, self._largest)

    def place_panes(self, width: int, height: int) -> None:
        """The one that is looked at takes everything."""
        for pane in (self._images, self._matrix, self._largest):
            pane.display = pane is self._pane

    def help_lines(self) -> Help:
        """With the key for files where samples are such, and with what stands for the matrix."""
        *keys, closes = self.KEYS
        if self._results is not None and not self._results.counted:
            keys = [(key, _OF_A_LIST.get(key, words)) for key, words in keys]
        return (*keys, _COPY, closes) if self._results is not None and self._results.named else (*keys, closes)

    # -- keeping up ---------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Show what there is."""
        self._follow()

    def beat(self) -> None:
        """The sentence that stands in for the first evaluation follows the run."""
        self._follow()

    def run_changed(self) -> None:
        """A new evaluation."""
        super().run_changed()
        self._follow()

    def _follow(self) -> None:
        record = self.run.record
        predictions = record.predictions if record is not None else None
        if predictions is None:
            self._forget()
            self._images.say(_waiting(self.run))
        elif predictions is not self._shown:
            self._shown, self._results = predictions, Results(predictions, _accuracy(self.run, predictions.step))
            if self._view not in self._views:
                self._view = "largest"
            if self._results.counted:
                self._matrix.show(self._results)
            self._largest.show(self._results)
            self._show_pictures(self._results)
            self._look(self._view)

    def _forget(self) -> None:
        """Another run has begun in the place of the one that was shown."""
        if self._shown is None:
            return
        self._shown = self._results = self._cell = None
        self._look("pictures")

    def _show_pictures(self, results: Results) -> None:
        samples, cell = results.chosen(self._which, self._cell), self._cell
        about, sentence, kept = _ABOUT[self._which], _NONE[self._which], ""
        if cell is not None:
            about, count = "in this cell", results.count(cell)
            kept = f"{len(samples):,} of {count:,} kept"
            why = f"no sample of these {count:,} is kept" if count else "there is no such sample"
            sentence = f"{results.verdict(cell)}: {why}. Esc shows all pictures, m the {'matrix' if results.counted else 'list'}."
        self._images.show(results, samples, about, sentence, kept)

    def _look(self, view: _View) -> None:
        self._view = view
        self.rearrange()
        self.refresh_bindings()

    # -- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Which keys mean something now."""
        there = self._results is not None
        pictures = self._view == "pictures"
        one_cell = there and pictures and self._cell is not None
        some = self._results is not None and (self._view == "matrix" or (self._view == "largest" and bool(self._results.largest)))
        works = {
            "move": there,
            "look": there and parameters == (self._beside(1),),
            "switch": there,
            "open_cell": some and self._cells.kept,
            "open_empty_cell": some and not self._cells.kept,
            "filter": there and pictures and self._cell is None,
            "copy_file": pictures and self._images.file is not None,
            "all_pictures": one_cell,
            "back": not one_cell,
        }
        return works.get(action, True)

    @property
    def _views(self) -> tuple[_View, ...]:
        """What one can look at, in the order of the key."""
        return ("pictures", "matrix", "largest") if self._results is not None and self._results.counted else ("pictures", "largest")

    def _beside(self, by: int) -> _View:
        """What comes `by` places after what one looks at."""
        return self._views[(self._views.index(self._view) + by) % len(self._views)]

    @property
    def _cells(self) -> Matrix | Confusions:
        """Where one chooses a cell."""
        return self._matrix if self._view == "matrix" else self._largest

    @property
    def _pane(self) -> Images | Matrix | Confusions:
        return self._images if self._view == "pictures" else self._cells

    def action_move(self, columns: int, rows: int) -> None:
        """Move the cursor."""
        self._pane.move(columns, rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by what one sees."""
        self._pane.page(pages)

    def action_jump(self, last: bool) -> None:
        """To the first or the last one."""
        self._pane.jump(last)

    def action_look(self, view: _View) -> None:
        """Look at another one."""
        self._look(view)

    def action_switch(self, by: int) -> None:
        """Look at the next or the previous one."""
        self._look(self._beside(by))

    def action_open_cell(self) -> None:
        """Look at the pictures of the cell under the cursor."""
        self._choose(self._which, self._cells.cursor)
        self._images.jump(last=False)

    def action_open_empty_cell(self) -> None:
        """Say at length why there are none; no key is offered for that."""
        self.action_open_cell()

    def action_all_pictures(self) -> None:
        """Look at the pictures of all cells again."""
        self._choose(self._which, None)

    def action_filter(self) -> None:
        """The next filter."""
        self._choose(_FILTERS[(_FILTERS.index(self._which) + 1) % len(_FILTERS)], None)

    def action_copy_file(self) -> None:
        """Copy where the selected picture is in the data folder."""
        if self._images.file is not None:
            self.copy(self._images.file)

    def _choose(self, which: Which, cell: Cell | None) -> None:
        self._which, self._cell = which, cell
        if self._results is not None:
            self._show_pictures(self._results)
            self._look("pictures")

    def action_back(self) -> None:
        """Esc, where there is nothing nearer to leave."""
        self.dismiss()


def _accuracy(run: RunLike, step: int) -> float | None:
    """The accuracy of the evaluation at `step`, 0 to 1."""
    record = run.record
    evals = () if record is None else record.evals
    return next((one.accuracy for one in reversed(evals) if one.step == step), None)


def _waiting(run: RunLike) -> str:
    """Why there is nothing to see yet, and when there will be."""
    record = run.record
    if record is None:
        return "No run yet: n begins one."
    started = record.started
    if started is not None and not started.test_samples:
        return "This run has no test data, so there is nothing that the network could be asked."
    if started is not None and started.targets == "numbers":
        return "The targets of this run are numbers, of which none is simply right: there are no answers to look at."
    if started is not None and started.targets == "positions":
        return "Each sample of this run has several classes, one for each of its positions; such answers are not shown here."
    if run.ended:
        if record.evals:
            return "The answers of this run are not kept."
        return "This run ended before its first evaluation."
    if started is None:
        doing = "waits in the queue" if run.state == "queued" else "is being prepared"
        return f"The run {doing}; after its first epoch the network is asked about the test data, and its answers come here."
    ordinal = "next" if record.evals else "first"
    if record.phase is not None and "evaluat" in record.phase.phase:
        return "The network is being asked about the test data; its answers come in a moment."
    step = started.next_evaluation(record.step)
    return f"The {ordinal} evaluation comes after step {step:,}; then the network's answers to the test data come here."

"""The devices: what each one does now, and which of them the next run takes. The monitor is the selector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tuitrain.devices import Choice, choices, free_cuda_devices
from tuitrain.tui.gpus.sample import age_of, problem_of
from tuitrain.tui.launch.hints import Machine
from tuitrain.tui.launch.selection import Names, one_less, one_more, toggled
from tuitrain.tui.own_memory import OwnCards
from tuitrain.tui.sampler import SamplerLike
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets.device_rows import DeviceRows, label, name_width
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap


class Devices(Pane, can_focus=True):
    """One row for each device, and how many replicas of the network it gets.

    Args:
        sampler: says what the devices do.
        own: splits the memory of the cards that the app's own run uses.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("space", "pick", "Choose", show=True),
        Binding("plus", "another", "Another replica", show=False),
        Binding("minus", "fewer", "A replica less", show=False),
    ]

    class Picked(Message):
        """The person chose devices for the next run, one for each replica; none means auto."""

        def __init__(self, devices: Names) -> None:
            super().__init__()
            self.devices = devices

    def __init__(self, sampler: SamplerLike, own: OwnCards) -> None:
        super().__init__(id="devices")
        self._sampler = sampler
        self._own = own
        self._snapshot = sampler.latest()
        self.picked: Names = ()
        """What the configuration names; none where it says auto."""
        self.taken: Names = ()
        """What a start would take now, also where the configuration says auto; the screen sets both."""
        self.in_use: Names | None = None
        """The devices of the run that is shown, which are then the ones marked."""
        self.run_host: int | None = None
        """The process that trains the run that is shown, where that is not this one."""
        self.barred = ""
        """Why no run can take any GPU, where that is known."""
        self.cursor = 0
        self._shown_rows: list[int] = []
        """Which device each line is about, for the mouse."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The rows."""
        return choices(self._snapshot, self.barred)

    @property
    def chosen(self) -> Names:
        """The marked devices, one for each replica."""
        return self.in_use if self.in_use is not None else self.picked or self.taken

    @property
    def machine(self) -> Machine:
        """What there is to choose from."""
        free = [] if self.barred else free_cuda_devices(self._snapshot, training=self._own.training)
        return Machine(self.choices, tuple(f"cuda:{ordinal}" for ordinal in free), self._snapshot.host.cores, self.barred)

    def look(self) -> None:
        """Take in the newest sample, for whoever then says what a start would take of it and redraws."""
        self._snapshot = self._sampler.latest()
        self._own.note(self._snapshot)

    def sample(self) -> None:
        """Look at the newest sample and redraw."""
        self.look()
        self.redraw()

    def rows_wanted(self, width: int) -> tuple[int, int, int]:
        """Rows of all devices with their bars and who holds the memory, with their bars, and at one line each; the sentence under them
        included."""
        rows, notes, draw = self.choices, len(self._problem(width)), self._rows()
        tall = sum(map(draw.height, rows)) + notes
        return tall + sum(len(draw.split(choice, width)) for choice in rows), tall, len(rows) + notes

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + by, 0), len(self.choices) - 1)
        self.redraw()

    def action_pick(self) -> None:
        """Choose the device under the cursor, or no longer, and go on to the next GPU."""
        if self._pick():
            later = range(self.cursor + 1, len(self.choices))
            self.cursor = next((row for row in later if self._is_gpu(row)), self.cursor)
            self.redraw()

    def action_another(self) -> None:
        """Another replica on the device under the cursor."""
        choice = self._here()
        if self._allowed(choice):
            # What auto took is marked, and counts.
            base = self.chosen if choice.name in self.chosen else self.picked
            self.post_message(self.Picked(one_more(base, choice.name, self._order())))

    def action_fewer(self) -> None:
        """A replica less on the device under the cursor."""
        if (fewer := one_less(self.picked, self._here().name)) != self.picked:
            self.post_message(self.Picked(fewer))

    def take_next(self) -> None:
        """One more than are marked: the GPU with most free memory of the others; on a machine without GPUs another replica on the cpu."""
        machine = self.machine
        others = [name for name in machine.freest if name not in self.chosen]
        if others or not machine.cards:
            self.post_message(self.Picked(one_more(self.chosen, others[0] if others else "cpu", self._order())))
        else:
            text = "The only GPU is" if len(machine.cards) == 1 else f"All {len(machine.cards)} GPUs are"
            self.notify(f"{text} chosen; + on a row of Devices puts another replica there.", severity="warning")

    def drop_last(self) -> None:
        """One less than were chosen; auto where none is left."""
        if self.picked:
            self.post_message(self.Picked(self.picked[:-1]))

    def _pick(self) -> bool:
        choice = self._here()
        if not self._allowed(choice):
            return False
        self.post_message(self.Picked(toggled(self.picked, choice.name, self._order())))
        return True

    def _allowed(self, choice: Choice) -> bool:
        if not choice.selectable:
            self.notify(f"{choice.name}: {choice.reason}", severity="warning", markup=False)
        return choice.selectable

    def _here(self) -> Choice:
        rows = self.choices
        return rows[min(self.cursor, len(rows) - 1)]

    def _is_gpu(self, row: int) -> bool:
        choice = self.choices[row]
        return choice.selectable and choice.device is not None

    def _order(self) -> list[str]:
        return [choice.name for choice in self.choices]

    def on_click(self, event: events.Click) -> None:
        """A click chooses; not while a run is shown, whose devices are fixed."""
        line = event.y - 1
        index = self._shown_rows[line] if 0 <= line < len(self._shown_rows) else None
        if self.can_focus and index is not None:
            self.cursor = index
            self._pick()
            self.redraw()

    def on_focus(self) -> None:
        """Begin at the chosen row."""
        names = [choice.name for choice in self.choices]
        self.cursor = next((names.index(name) for name in self.chosen if name in names), 0)
        super().on_focus()

    def heading(self) -> tuple[Row, Row]:
        """The title; at the right the age of what is shown where it is old, else whether the person chose."""
        right = Row()
        if (age := age_of(self._snapshot)) is not None:
            right.add(f"{age:.0f} s old", self.palette.warn)
        elif self.in_use is None and not self.picked:
            right.add("auto", self.palette.dim)
        return Row("Devices", self.title_style()), right

    def body(self, width: int, height: int) -> list[Strip]:
        """The rows, with bars where there is room for them."""
        rows = self.choices
        self.cursor = min(self.cursor, len(rows) - 1)
        problem = [Row(line, self.palette.dim).strip(width) for line in self._problem(width)]
        draw = self._rows()
        splits = any(draw.split(choice, width) for choice in rows)
        for split in (True, False) if splits else (False,):
            tall = [(index, line) for index, choice in enumerate(rows) for line in draw.tall(choice, width, split=split)]
            if len(tall) + min(len(problem), 1) <= height:
                self._shown_rows = [index for index, _ in tall]
                return [*(line for _, line in tall), *problem]
        return self._window(rows, draw, width, height, problem)

    def _window(self, rows: Sequence[Choice], draw: DeviceRows, width: int, height: int, problem: list[Strip]) -> list[Strip]:
        """One line each: the chosen ones first, or those around the cursor; the others are counted."""
        sentence = self._sentence()
        if len(rows) + min(len(problem), 1) <= height:
            self._shown_rows = list(range(len(rows)))
            lines = [draw.compact(choice, width) for choice in rows]
            return [*lines, *problem][:height]
        if self.has_focus:
            first = min(max(self.cursor - height // 2, 0), len(rows) - height + 1)
            shown = list(rows[first : first + height - 1])
            if rows[self.cursor] not in shown:
                shown = list(rows[first + 1 : first + height])
        else:
            shown = sorted(rows, key=lambda choice: choice.name not in self.chosen)[: max(height - 1, 1)]
        self._shown_rows = [rows.index(choice) for choice in shown]
        lines = [draw.compact(choice, width) for choice in shown]
        if height > 1:
            more = [f"{hidden} more"] if (hidden := len(rows) - len(shown)) else []
            lines.append(Row(f"  {' · '.join([*more, sentence] if sentence else more)}", self.palette.dim).strip(width))
        return lines

    def _problem(self, width: int) -> list[str]:
        sentence = self._sentence()
        return wrap(sentence, width) if sentence else []

    def _sentence(self) -> str | None:
        """What is wrong with the cards as a whole."""
        unused = self.barred and any(choice.well and not choice.selectable for choice in self.choices)
        return problem_of(self._snapshot) or (f"no run takes a GPU: {self.barred}; d explains" if unused else None)

    def _rows(self) -> DeviceRows:
        rows, replicas = self.choices, Counter(self.chosen)
        return DeviceRows(
            palette=self.palette,
            host=self._snapshot.host,
            history=self._sampler.history,
            run_host=self.run_host,
            own=self._own,
            replicas=replicas,
            name_width=name_width(label(choice.name, replicas[choice.name]) for choice in rows),
            cursor=self._here().name if self.has_focus else None,
            stale=age_of(self._snapshot) is not None,
            bare=not self._snapshot.devices,
        )

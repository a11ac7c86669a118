"""The two lines that say how far the run is and how it does, and the sentence when something is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.strip import Strip

from tuitrain import words
from tuitrain.device_names import short
from tuitrain.events import BYTES
from tuitrain.tui.look import state_look
from tuitrain.tui.run_view import RunLike, hangs
from tuitrain.tui.strips import Row, cell_width, fit, rail
from tuitrain.tui.widgets.lines import Pane
from tuitrain.tui.wrap import wrap_into

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

_RULE_MARKS = 10  # corners, spaces and a piece of the rule between the two ends of a heading
_LEAST_RAIL = 3
_LEAST_TITLE = 16
_NEXT = {
    "paused": "space goes on",
    "stopping": "a last checkpoint is written",
    "finished": "n trains again",
    "stopped": "R goes on",
    "interrupted": "R goes on",
    "failed": "n changes the settings and tries again · o shows the log",
    "lost": "R goes on from its newest checkpoint",
}
_NEVER_SAVED = {**_NEXT, "stopped": "n starts it anew", "interrupted": "n starts it anew"}
_UNBEGUN = "nothing to save yet"
"""Of a run without a step in this process that stops."""


class Progress(Pane):
    """Epoch, bar, step and ETA; samples per second, losses and accuracy; the clock of a run with a target accuracy; why it failed.

    Args:
        view: the run.
    """

    def __init__(self, view: RunLike) -> None:
        super().__init__(id="progress")
        self._view = view
        self.hints: Mapping[str, str] | None = None
        """What to say beside a state; `None` for what this app's own run needs."""
        self.log_shows = True
        """Whether the log stands beside it; elsewhere its newest warning has to be told here."""

    def notes(self, width: int) -> int:
        """Rows that the clock and the sentence under the two lines need in a pane `width` cells wide."""
        lines = len(self._sentence(max(width - 4, 10)))
        return len(self._target()) + len(self._beside(width - 4)) + (lines + 1 if lines else 0)

    def heading(self) -> tuple[Row, Row]:
        """What is trained, on what, and the state where it is not simply running."""
        palette, record, state = self.palette, self._view.record, self._view.state
        if record is None:
            return Row("No run", palette.title), Row()
        title, subject, right = record.config.title(), _subject(record), Row()
        spare = self.size.width - cell_width(title) - cell_width(subject) - _RULE_MARKS
        if state != "running":
            glyph, style = state_look(state, palette)
            right.add(f"{glyph} {state}", style)
            next_ = self._next(record)
            hint = f" · {next_}" if record.error is None and next_ else ""
            if right.width + cell_width(hint) <= spare:
                right.add(hint, palette.dim)
            elif right.width > spare >= 0:
                # The screen's first line has the state too, and what it trains on stands only here.
                right = Row()
        room = self.size.width - right.width - _RULE_MARKS
        # What it learns from has to be seen, however long its name is.
        left = Row(_shortened(title, max(room - cell_width(subject), _LEAST_TITLE)), palette.title).add(subject, palette.dim)
        return Row.of(left.strip(room)) if left.width > room > 0 else left, right

    def body(self, width: int, height: int) -> list[Strip]:
        """The lines."""
        record = self._view.record
        if record is None:
            return [Row("press n, then Enter", self.palette.dim).strip(width)]
        sentence = [Row(line, self.palette.bad).strip(width) for line in self._sentence(width)]
        if sentence:
            hint = self._next(record) or self._hints(record).get("failed", "")
            sentence.append(Row(hint, self.palette.dim).strip(width))
        first = self._phase_line(record, width) if self._in_phase(record) else self._step_line(record, width)
        more = [row.strip(width) for row in (*self._target(), *self._beside(width))]
        return [first, self._numbers(record, width), *more, *sentence]

    def _next(self, record: RunRecord) -> str:
        """What comes of the state, or what to press; under the reason of a failure the one of its state, or of `failed`."""
        state = self._view.state
        return _UNBEGUN if state == "stopping" and record.started is None else self._hints(record).get(state, "")

    def _hints(self, record: RunRecord) -> Mapping[str, str]:
        if self.hints is not None:
            return self.hints
        return _NEXT if record.saved else _NEVER_SAVED

    def _in_phase(self, record: RunRecord) -> bool:
        return record.phase is not None or (record.step == 0 and not self._view.ended)

    def _makes_first_step(self, record: RunRecord) -> bool:
        return record.makes_steps and record.step == 0

    def _phase_line(self, record: RunRecord, width: int) -> Strip:
        palette, phase = self.palette, record.phase
        if phase is None:
            return Row("making the first step…" if self._makes_first_step(record) else "preparing…", palette.primary).strip(width)
        row = Row(f"{phase.phase}…", palette.primary).add("  ")
        if not phase.total:
            done = f"{phase.done:,} {phase.unit}".rstrip() if phase.done else ""
            return row.add(done, palette.dim).strip(width)
        counted = _counted(phase.done, phase.total, phase.unit)
        length = max(min(width - row.width - len(counted) - 2, 40), 4)
        return (
            row.join(rail(phase.done / phase.total, length, palette.primary, palette.faint)).add(f"  {counted}", palette.text).strip(width)
        )

    def _step_line(self, record: RunRecord, width: int) -> Strip:
        palette, plan = self.palette, record.plan
        if plan is None and record.step == 0:
            return Row("It ended before its first step.", palette.dim).strip(width)
        total = plan.total_steps if plan else max(record.step, 1)
        epochs = -(-total // plan.steps_per_epoch) if plan else record.config.epochs
        row = Row("epoch ", palette.dim).add(f"{max(record.epoch, 1):>{len(str(epochs))}}/{epochs}", palette.text).add(" ")
        steps = Row("step ", palette.dim).add(f"{record.step:>{len(f'{total:,}')},}/{total:,}", palette.text)
        end = Row()
        if self._view.ended:
            end.add("took ", palette.dim).add(words.clock(record.running_seconds), palette.text)
        else:
            end.add("ETA ", palette.dim).right(words.remaining(record.eta_seconds()), 7, palette.text)
        length = width - row.width - steps.width - end.width - len("  ") - len("   ")
        if length < _LEAST_RAIL:
            # Numbers say more than a bar that is too short to say anything.
            return row.join(steps).add(" ").join(end).strip(width)
        _, style = state_look(self._view.state, palette)
        bar = rail(record.step / total, length, style, palette.faint)
        return row.join(bar).add("  ", palette.dim).join(steps).add("   ", palette.dim).join(end).strip(width)

    def _numbers(self, record: RunRecord, width: int) -> Strip:
        if record.step == 0 and hangs(self._view):
            return Row(_no_step(record), self.palette.warn).strip(width)
        if record.step == 0:
            waiting = "its loss comes when it is made" if self._makes_first_step(record) else "the first steps come when this is done"
            return Row(waiting if self._view.alive else "", self.palette.dim).strip(width)
        row = self._numbers_row(record, width, " samples/s", "accuracy")
        return (row if row.width <= width else self._numbers_row(record, width, "/s", "acc")).strip(width)

    def _numbers_row(self, record: RunRecord, width: int, per_second: str, accuracy: str) -> Row:
        """The numbers with these words for two of them."""
        palette, row = self.palette, Row()
        if hangs(self._view):
            row.add(_no_step(record), palette.warn).add(" · ", palette.faint)
        elif not self._view.ended:
            speed = words.rate(record.samples_per_second) if self._view.state == "running" else "-"
            row.right(speed, 7, palette.strong).add(per_second, palette.dim).add(" · ", palette.faint)
        row.add("loss ", palette.dim).right(words.number(record.last_loss), 6, palette.train)
        last = record.evals[-1] if record.evals else None
        row.add(" · ", palette.faint).add("test ", palette.dim).right(words.number(last.loss) if last else "-", 6, palette.test)
        if record.has_accuracy:
            share = f"{last.accuracy * 100:.1f} %" if last else "-"
            row.add(" · ", palette.faint).add(f"{accuracy} ", palette.dim).right(share, 6, palette.strong)
        if self._view.ended and (best := _best(record)):
            row.add(f"  best {best}", palette.dim)
        elif width > 76 and record.lr is not None:
            row.add(" · ", palette.faint).add(f"lr {record.lr:g}", palette.dim)
        return row

    def _target(self) -> list[Row]:
        """Without a target accuracy nothing; else one line, from the first moment on so that nothing jumps: clock, target, when crossed."""
        record, palette = self._view.record, self.palette
        if record is None or record.config.target_accuracy is None:
            return []
        clock, target = record.clock, words.target(record.config.target_accuracy)
        row = Row("clock ", palette.dim).right(words.trained(clock.seconds) if clock else "-", 7, palette.strong)
        row.add(" of training", palette.dim).add(" · ", palette.faint)
        if clock is not None and clock.crossed_seconds is not None:
            crossed = f" crossed at epoch {clock.crossed_epoch}, {words.trained(clock.crossed_seconds)}"
            return [row.add(target, palette.strong).add(crossed, palette.good)]
        row.add("target ", palette.dim).add(target, palette.strong)
        return [row.add(" not reached" if self._view.ended else " not reached yet", palette.dim)]

    def _beside(self, width: int) -> list[Row]:
        """In a step that hangs what the keys do, and else a line with the newest warning of the log, where that does not show."""
        record, palette = self._view.record, self.palette
        if self.hints is None and hangs(self._view):
            row = Row("space, c and x wait for the step to end", palette.dim)
            if record is not None and _may_wait_for_samples(record):
                row = Row("space and c wait", palette.dim).add(" · ", palette.faint)
                row.add("x ", palette.key).add("ends a wait for samples", palette.dim)
            return [row.add(" · ", palette.faint).add("q ", palette.key).add("leaves without it", palette.dim)]
        if self.log_shows or record is None or record.error is not None or (line := record.log.warning) is None:
            return []
        row = Row(f"! {time.strftime('%H:%M', time.gmtime(line.time))} ", palette.warn)
        more = Row("  o ", palette.key).add("log", palette.dim)
        return [row.add(fit(line.text, max(width - row.width - more.width, 1)), palette.text).join(more)]

    def _sentence(self, width: int) -> list[str]:
        record = self._view.record
        if record is None or record.error is None:
            return []
        return wrap_into(record.error, width, 2)


def _best(record: RunRecord) -> str:
    """The best test result; empty where there is none."""
    if record.best_accuracy is not None:
        return f"{record.best_accuracy * 100:.1f} %"
    least = record.evaluations.losses.least
    return "" if record.has_accuracy or least is None else words.number(least[1])


def _may_wait_for_samples(record: RunRecord) -> bool:
    """Whether a step may wait for what others read, and can be ended there; ranks take each step together."""
    started = record.started
    return started is not None and started.readers > 0 and started.strategy != "ddp"


def _no_step(record: RunRecord) -> str:
    return f"no step for {words.lasting(record.stalled_seconds)}"


def _subject(record: RunRecord) -> str:
    """` · CIFAR-10 (50,000) · cpu`, as far as it is known."""
    started = record.started
    if started is None:
        asked = (words.DATA_NAMES.get(record.config.data, record.config.data), short(record.config.device))
        # What "auto" stands for is found at the start.
        return "".join(f" · {what}" for what in asked if what != "auto")
    data = words.DATA_NAMES[started.data]
    count = len(started.device)
    where = f"{started.device[0]} · {started.strategy}" if count == 1 else f"{started.strategy} over {count}"
    return f" · {data} ({started.train_samples:,}) · {where}"


def _shortened(text: str, room: int) -> str:
    return fit(text, room) if cell_width(text) > room else text


def _counted(done: int, total: int, unit: str) -> str:
    """How far a phase is, as wide as at its end."""
    if unit == BYTES:
        megabytes = f"{total / 1e6:.0f}"
        return f"{done / 1e6:>{len(megabytes)}.0f}/{megabytes} MB"
    return f"{done:>{len(f'{total:,}')},}/{total:,} {unit}".rstrip()

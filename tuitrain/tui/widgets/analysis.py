"""How the time of a run's steps went, in bars, in facts and in words."""

from __future__ import annotations

from textual.strip import Strip

from tuitrain import words
from tuitrain.events import StepTimes
from tuitrain.runs.one_device import LEAST_STEPS, OneDevice
from tuitrain.runs.record import RunRecord
from tuitrain.text import plural
from tuitrain.tui import analysis
from tuitrain.tui.balance import imbalance
from tuitrain.tui.run_view import RunLike
from tuitrain.tui.strips import Row
from tuitrain.tui.widgets import analysis_lines as lines_of
from tuitrain.tui.widgets.scrolling import ScrollingView
from tuitrain.tui.wrap import wrap

_NO_RUN = "There is no run yet: n starts one, and its first second of steps fills this screen."
_NOT_YET = "The times come within the first second of steps."
_QUEUED = "The run waits in the queue; the times come within its first second of steps."
_NOT_KEPT = "Where the time went is not recorded for this run: it ended too early for that, or an older tuitrain made it."


class AnalysisPane(ScrollingView):
    """The phases of a step, what to make of them, the facts beside them, and each replica. It scrolls where there is no room for all.

    Attributes:
        one_device: the run that this one is compared with.
        searched: whether one was looked for.
    """

    DEFAULT_CSS = "AnalysisPane { height: 1fr; }"

    def __init__(self, run: RunLike) -> None:
        super().__init__(id="analysis")
        self.first = self.last = True
        self.one_device: OneDevice | None = None
        self.searched = False
        self._run = run
        self._all: list[Strip] = []

    @property
    def times(self) -> StepTimes | None:
        """What is shown; `None` where nothing was measured."""
        record = self._run.record
        times = record.step_times if record is not None else None
        return times if times is not None and times.steps and times.phases.seconds > 0 else None

    def line_count(self) -> int:
        """Lines at the width that the pane has."""
        return len(self._all)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is something to scroll where not everything fits."""
        return self.scrolls if action in ("scroll", "page", "jump") else True

    # -- drawing ------------------------------------------------------------------------------------------------------

    def content(self, width: int, height: int) -> list[Strip]:
        """The frame with the lines in it."""
        self._all = self._everything(max(width - 4, 1))
        self.stay_inside()
        return super().content(width, height)

    def heading(self) -> tuple[Row, Row]:
        """The title and what was measured; which lines one sees where not all fit."""
        palette, times, room = self.palette, self.times, self.body_height()
        left, right = Row("Analysis", palette.title), Row()
        if times is not None:
            left.add(f"  {_how(times)}", palette.dim)
            right.add(f"{times.steps:,} {plural('step', times.steps)} measured", palette.dim)
            if self.scrolls:
                right.add(f" · lines {self._top + 1}–{min(self._top + room, len(self._all))} of {len(self._all)}", palette.dim)
        return left, right

    def body(self, width: int, height: int) -> list[Strip]:
        """The lines in view."""
        return self._all[self._top : self._top + height]

    def _everything(self, width: int) -> list[Strip]:
        palette, record, times = self.palette, self._run.record, self.times
        if record is None or times is None:
            return [Row(line, palette.text).strip(width) for line in wrap(self._waiting(), width)]
        speedup = _speedup(times, self.one_device)
        training = analysis.training_share(times, record.step, record.running_seconds)
        lines = [*lines_of.phase_lines(times, width, palette), lines_of.blank(width)]
        readers = 0 if record.plan is None else record.plan.readers
        advice = analysis.advice(times, record.config, readers=readers, speedup=speedup, training=training)
        lines += lines_of.sentences(advice, width, palette)
        lines.append(lines_of.blank(width))
        lines += lines_of.facts(self._facts(record, times, training), width, palette)
        replicas = [*lines_of.replica_lines(times, width, palette)]
        return [*lines, lines_of.blank(width), *replicas] if replicas else lines

    def _waiting(self) -> str:
        """Why there is nothing to see."""
        record = self._run.record
        if record is None:
            return _NO_RUN
        return _NOT_KEPT if self._run.ended else _QUEUED if self._run.state == "queued" else _NOT_YET

    # -- facts --------------------------------------------------------------------------------------------------------

    def _facts(self, record: RunRecord, times: StepTimes, training: float | None) -> list[tuple[str, str]]:
        speed = f"{words.rate(analysis.samples_per_second(times))} samples/s while training, {times.samples / times.steps:.0f} a step"
        found = [("speed", speed)]
        if training is not None:
            found.append(("running", f"{words.clock(record.running_seconds)}, {words.percent(training * 100)} of it in training steps"))
        if len(times.devices) > 1:
            found.append(("one device", self._against_one(times)))
        if memory := _memory(record, times):
            found.append(("memory", memory))
        if energy := _energy(record):
            found.append(("energy", energy))
        if times.strategy == "dp":
            found.append(("dp", "copying the model, scattering and gathering are part of forward and backward: they cannot be told apart"))
        return found

    def _against_one(self, times: StepTimes) -> str:
        one = self.one_device
        if one is None:
            if not self.searched:
                return "looking for a run to compare with …"
            none = f"no run of this training on one such device, with {LEAST_STEPS} measured steps or more, is kept to compare with"
            return f"{none}: start one, or let p in the launcher measure it"
        speedup = _speedup(times, one) or 0.0
        ratio = f"{speedup:.2f}×" if speedup < 10 else f"{speedup:.1f}×"
        beside = f" ({words.rate(one.samples_per_second)} samples/s on {one.device} in {one.run})"
        if analysis.shared(times):
            return f"{ratio} its speed{beside}; the {'ranks' if times.strategy == 'ddp' else 'replicas'} share a device"
        return f"{ratio} its speed, {words.percent(speedup / len(times.devices) * 100)} of ideal{beside}"


def _how(times: StepTimes) -> str:
    count = len(times.devices)
    return f"{times.strategy} over {count}" if count > 1 else f"{times.strategy} on {times.devices[0]}"


def _speedup(times: StepTimes, one: OneDevice | None) -> float | None:
    return None if one is None else analysis.samples_per_second(times) / one.samples_per_second


def _memory(record: RunRecord, times: StepTimes) -> str:
    """What torch's tensors take on each device, and whether one takes more; nothing on the CPU, where torch does not count."""
    stats, replicas = record.replica_stats, record.replicas
    held = {} if stats is None else {one.index: one.memory for one in stats.replicas if one.memory is not None}
    if stats is None or replicas is None or not held:
        return ""
    uneven = imbalance(replicas.replicas, stats.replicas, times.strategy, record.config)
    if uneven is not None:
        who, why = uneven
        return f"{who} than the others: {why}" if why else f"{who} than the others"
    least, most = min(held.values()), max(held.values())
    each = words.size(most) if words.size(least) == words.size(most) else f"{words.size(least)} to {words.size(most)}"
    return f"{each} of tensors at most" + (", about the same on each device" if len(held) > 1 else "")


def _energy(record: RunRecord) -> str:
    """What the run's GPUs took, by their power each second; nothing where nobody knows it."""
    known = [device for device in record.devices.values() if device.joules is not None and device.powered_seconds > 0]
    joules = sum(device.joules or 0.0 for device in known)
    if not known or joules <= 0:
        return ""
    watts = sum((device.joules or 0.0) / device.powered_seconds for device in known)
    spent = f"{joules / 3600:,.1f} Wh" if joules >= 3600 else f"{joules:,.0f} J"
    return f"about {spent}, {watts:,.0f} W on average: power summed up each second, evaluation and pauses too"

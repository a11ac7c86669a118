"""`tuitrain bench`: some steps on the CPU and on each GPU, and the strategies side by side, as a table or as JSON."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.session.preflight.plans import LeftOut, Plan, left_out, plans, pool_of, spec_of
from tuitrain.session.preflight.results import Row, compare
from tuitrain.session.preflight.trials import Trials
from tuitrain.text import cut, plural
from tuitrain.wire import Measured

NONE = "n/a"
_INDENT = " " * 9


class Bench(msgspec.Struct, frozen=True):
    """All that was measured: `alone` has one row for each device, `shared` one for each strategy over several."""

    config: RunConfig
    steps: int
    alone: tuple[Row, ...]
    shared: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def failed(self) -> bool:
        """Nothing could be measured."""
        return all(row.samples_per_second is None for row in (*self.alone, *self.shared))

    @property
    def data(self) -> str:
        """What was trained on: "synthetic", "cifar10"; empty where nothing was."""
        return next((row.measured.data for row in (*self.alone, *self.shared) if row.measured and row.measured.data), "")


def bench(trials: Trials, config: RunConfig, steps: int, say: Callable[[str], None]) -> Bench:
    """Measure everything, each plan once.

    Args:
        config: what is trained; its device says between which devices to share the work.
        say: gets what is being done.

    Raises:
        ConfigError: a device that the configuration names cannot be used.
    """
    stop = threading.Event()
    say("asking torch which devices there are")
    # With the devices of `auto` where there is no GPU: the CPU.
    found = trials.devices(msgspec.structs.replace(config, device=spec_of(config.device)), stop)
    if found.error is not None:
        raise ConfigError(found.error)
    pool = pool_of(found.devices)
    alone = tuple(Plan("single", (name,)) for name in ("cpu", *(f"cuda:{ordinal}" for ordinal in range(found.gpus))))
    sharing = plans(pool)
    measured: dict[Plan, Measured] = {}
    for plan in dict.fromkeys((*alone, *sharing)):
        say(f"measuring {plan.title}")
        measured[plan] = trials.measure(config, plan, stop)
    rows = tuple(compare((plan,), measured)[0] for plan in alone)
    return Bench(config, steps, rows, compare(sharing, measured), left_out(pool))


# -- for scripts ----------------------------------------------------------------------------------------------------------


def as_json(found: Bench) -> str:
    """One JSON object: seconds, samples per second, bytes; `null` where not known."""
    return msgspec.json.encode(
        {
            "recipe": found.config.recipe,
            "data": found.data,
            "batch_size": found.config.batch_size,
            "steps": found.steps,
            "comparison": [_json(row) for row in found.alone],
            "strategies": [_json(row) | {"speedup": row.speedup, "efficiency": row.efficiency, "best": row.best} for row in found.shared],
            "left_out": [msgspec.to_builtins(one) for one in found.left_out],
        }
    ).decode()


def _json(row: Row) -> dict[str, Any]:
    measured = row.measured or Measured()
    return {
        "strategy": row.plan.strategy,
        "device": row.plan.devices,
        "steps": measured.steps,
        "seconds": measured.seconds,
        "step_seconds": measured.step_seconds,
        "samples_per_second": measured.samples_per_second,
        "memory": measured.memory or tuple(None for _ in row.plan.devices),
        "largest_batch": measured.largest,
        "error": measured.error,
    }


# -- for people -----------------------------------------------------------------------------------------------------------


def as_text(found: Bench, width: int = 80) -> str:
    """Two tables of `width` columns."""
    head = f"{found.config.recipe}, batch {found.config.batch_size:,}" + (f", {found.data} data" if found.data else "")
    steps = f"{found.steps:,} {plural('step', found.steps)} of {head}"
    lines = [steps, "", f"{'device':<10} {'steps':>6} {'seconds':>8} {'ms a step':>10} {'samples/s':>10}"]
    lines += [line for row in found.alone for line in _alone(row, width)]
    lines += _fastest(found.alone)
    lines += ["", "The same batch shared by several devices", ""]
    lines.append(f"{'strategy':<8} {'device':<21} {'samples/s':>10} {'ms a step':>10} {'memory GiB':>12} {'of ideal':>8}")
    for row in found.shared:
        lines += _shared(row, width)
    for one in found.left_out:
        lines += textwrap.wrap(f"{one.strategy:<8} {one.reason}.", width, subsequent_indent=_INDENT)
    return "\n".join(line.rstrip() for line in lines)


def _alone(row: Row, width: int) -> list[str]:
    measured = row.measured
    if measured is None or measured.error is not None:
        return textwrap.wrap(f"{row.plan.device:<10} {row.error}", width, subsequent_indent=" " * 11)
    numbers = f"{_number(measured.seconds, 2):>8} {_ms(measured):>10} {_number(measured.samples_per_second):>10}"
    return [f"{row.plan.device:<10} {measured.steps:>6,} {numbers}"]


def _fastest(alone: Sequence[Row]) -> list[str]:
    """How much faster the fastest GPU is than the CPU."""
    speeds = {row.plan.device: speed for row in alone if (speed := row.samples_per_second) is not None}
    cpu = speeds.pop("cpu", None)
    if cpu is None or not speeds:
        return []
    name = max(speeds, key=lambda device: speeds[device])
    return [f"{name} does {speeds[name] / cpu:.1f}× the samples of the CPU."]


def _shared(row: Row, width: int) -> list[str]:
    plan, measured = row.plan, row.measured
    lines = []
    if measured is not None and measured.error is None:
        ideal = NONE if row.efficiency is None else f"{row.efficiency * 100:.0f} %"
        numbers = f"{_number(measured.samples_per_second):>10} {_ms(measured):>10} {_memory(measured):>12} {ideal:>8}"
        lines.append(f"{plan.strategy:<8} {cut(plan.device, 21):<21} {numbers}{'  best' if row.best else ''}")
    else:
        lines.append(f"{plan.strategy:<8} {cut(plan.device, max(width - 9, 1))}")
    largest = row.largest_words()
    words = row.words() + (f"; largest batch: {largest}" if largest else "")
    return [*lines, *textwrap.wrap(words, width, initial_indent=_INDENT, subsequent_indent=_INDENT)]


def _ms(measured: Measured) -> str:
    return _number(None if measured.step_seconds is None else measured.step_seconds * 1000, 1)


def _memory(measured: Measured) -> str:
    """The peaks of the devices, each once, the first two of them."""
    peaks = list(dict(zip(measured.devices, measured.memory, strict=False)).values())
    if not peaks or any(peak is None for peak in peaks):
        return NONE
    shown = "/".join(_gib(peak) for peak in peaks[:2] if peak is not None)
    return shown + ("/…" if len(peaks) > 2 else "")


def _gib(size: int) -> str:
    """Bytes as GiB in at most four signs: a small network takes hundredths of one, a large one a hundred."""
    gib = size / 2**30
    return f"{gib:.{2 if gib < 9.995 else 1 if gib < 99.95 else 0}f}"


def _number(value: float | None, decimals: int = 0) -> str:
    return NONE if value is None else f"{value:,.{decimals}f}"

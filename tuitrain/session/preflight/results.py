"""What was measured, compared with one device, in numbers and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tuitrain.session.preflight.plans import Plan
from tuitrain.wire import Measured

NOISE = 0.03
"""Rows this near to the fastest are as fast: the one with the fewest devices is then the best."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A plan and what came of it.

    Attributes:
        measured: `None` until it was measured.
        speedup: samples per second against one device; `None` where one of the two is not known.
        efficiency: the same divided by the number of replicas: 1 is ideal.
        best: nothing that was measured so far is clearly faster.
    """

    plan: Plan
    measured: Measured | None = None
    speedup: float | None = None
    efficiency: float | None = None
    best: bool = False

    @property
    def samples_per_second(self) -> float | None:
        """`None` where the trial failed, or was not done yet."""
        return None if self.measured is None else self.measured.samples_per_second

    @property
    def error(self) -> str | None:
        """Why there are no numbers, in one sentence."""
        return None if self.measured is None else self.measured.error

    def words(self) -> str:
        """What the numbers mean, in one sentence; empty before there are any."""
        if self.measured is None:
            return ""
        if self.measured.error is not None:
            return self.measured.error
        if self.plan.strategy == "single":
            return "one device: what the others are compared with"
        if self.speedup is None or self.efficiency is None:
            return "nothing to compare with: one device alone could not be measured"
        speed = f"{self.speedup:.1f}×" if round(self.speedup, 1) != 1 else f"{self.speedup:.2f}×"
        if self.plan.shared and self.plan.strategy == "ddp":
            return f"{speed} of one process; they share the CPU's cores"
        if self.plan.shared:
            no_speed = "" if self.speedup > 1 + NOISE else ", so this shows how splitting works and brings no speed"
            return f"{speed} of one replica; they share a device{no_speed}"
        return f"{speed} of one device, {self.efficiency * 100:.0f} % of ideal"

    def largest_words(self) -> str:
        """The largest batch that fits, in words; empty before it is known."""
        measured = self.measured
        if measured is None or measured.error is not None:
            return ""
        if measured.largest is None:
            return "not limited here" if "cpu" in self.plan.devices else "not looked for"
        return {
            "memory": f"about {measured.largest:,} fit",
            "data": f"all {measured.largest:,} training samples fit",
        }.get(measured.largest_by or "", f"{measured.largest:,} fit, perhaps more")


def compare(plans: Sequence[Plan], measured: Mapping[Plan, Measured]) -> tuple[Row, ...]:
    """A row for each plan, in their order, with the best of those that were measured marked."""
    one = next((rate(measured.get(plan)) for plan in plans if plan.strategy == "single"), None)
    best = best_of(plans, measured)
    return tuple(_row(plan, measured.get(plan), one, best=plan == best) for plan in plans)


def best_of(plans: Sequence[Plan], measured: Mapping[Plan, Measured]) -> Plan | None:
    """The first plan that is as fast as the fastest, but for noise; `None` where nothing was measured."""
    rates = {plan: speed for plan in plans if (speed := rate(measured.get(plan))) is not None}
    fastest = max(rates.values(), default=0.0)
    return next((plan for plan, speed in rates.items() if speed >= fastest * (1 - NOISE)), None)


def rate(measured: Measured | None) -> float | None:
    """Samples per second, where there are any."""
    return None if measured is None else measured.samples_per_second


def _row(plan: Plan, measured: Measured | None, one: float | None, *, best: bool) -> Row:
    speed = rate(measured)
    speedup = None if speed is None or not one else speed / one
    efficiency = None if speedup is None else speedup / len(plan.devices)
    return Row(plan=plan, measured=measured, speedup=speedup, efficiency=efficiency, best=best)

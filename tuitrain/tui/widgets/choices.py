"""Devices and strategy of the next run: the launcher's form holds them, the panes beside it show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuitrain.config import parse_device
from tuitrain.tui.launch.strategies import why_not
from tuitrain.tui.widgets.devices import Devices
from tuitrain.tui.widgets.launcher import Launcher
from tuitrain.tui.widgets.strategy import Strategy

if TYPE_CHECKING:
    from tuitrain.session.preflight.plans import Plan


class Choices:
    """Keeps the three panes in agreement."""

    def __init__(self, devices: Devices, strategy: Strategy, launcher: Launcher) -> None:
        self._devices = devices
        self._strategy = strategy
        self._form = launcher.form
        self._panes = (devices, strategy, launcher)

    def take_devices(self, devices: tuple[str, ...]) -> str | None:
        """Train on these, or on what is free where there are none; why the strategy is auto again, where it does not fit them."""
        strategy = self._form.config.strategy
        reason = why_not(strategy, devices or self._devices.machine.freest[:1] or ("cpu",))
        changed = self._form.choose_devices(devices, "auto" if reason else strategy)
        return reason if changed else None

    def take_strategy(self, strategy: str) -> None:
        """Train with this one."""
        self._form.set_text("strategy", strategy)

    def take_plan(self, plan: Plan) -> None:
        """Train as a preflight has found it."""
        self._form.take(plan.applied(self._form.config))

    def follow(self) -> None:
        """Tell the panes beside the launcher what the form holds, and what a start would take now."""
        config = self._form.config
        named, taken = parse_device(config.device), self._devices.machine.takes(config)
        self._devices.picked, self._devices.taken = named if isinstance(named, tuple) else (), taken
        self._strategy.picked, self._strategy.devices = config.strategy, taken

    def redraw(self) -> None:
        """Show it."""
        self.follow()
        for pane in self._panes:
            pane.redraw()

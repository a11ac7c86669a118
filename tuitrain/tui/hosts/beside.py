"""Runs beside the app's own: started in processes of their own, and kept ones that go on, here or there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tuitrain.config import ConfigError, RunConfig
from tuitrain.tui.hosts.going_on import GoesOn, More, look
from tuitrain.tui.hosts.in_thread import in_thread
from tuitrain.tui.hosts.outside import Outside
from tuitrain.tui.run_view import RunView

if TYPE_CHECKING:
    from tuitrain.runs.summary import RunSummary
    from tuitrain.tui.hosts.going_on import Plan


class Front(Protocol):
    """The app, as far as it is needed here; everything is called on the event loop."""

    def say(self, sentence: str, *, wrong: bool = False) -> None:
        """Tell the person."""
        ...

    def unsay(self, message: str) -> None:
        """What was told does not hold any more."""
        ...

    def go_on_here(self, config: RunConfig, path: Path) -> None:
        """Go on with the run in folder `path` in this app, and show it."""
        ...

    def ask_to_queue(self, devices: Sequence[str], sentence: str) -> Awaitable[str | None]:
        """Ask whether a run is to wait for `devices`, which are in use: "queue", "beside", or `None` where the person goes back."""
        ...

    def ask_for_more(self, more: More) -> Awaitable[int | None]:
        """Ask how much longer a finished run is to train; `None` where the person goes back."""
        ...


class Beside:
    """Starts in the background, and goes on with kept runs. Its coroutines say what came of it and raise nothing.

    Args:
        front: the app.
        view: the run of the app's own session.
        outside: other processes.
        runs_dir: where the runs are kept.
    """

    def __init__(self, front: Front, view: RunView, outside: Outside, runs_dir: Path) -> None:
        self._front = front
        self._view = view
        self._outside = outside
        self._runs_dir = runs_dir
        self.starting = 0
        """How many runs are on their way: their processes import torch and read the data, and end with this one until they have begun."""
        self._asked: list[RunConfig | Path] = []
        """What a key has asked for, until it has begun or is refused: the key pressed twice, or held down, asks for it once."""

    async def start(
        self, config: RunConfig, devices: tuple[str, ...], began: Callable[[RunConfig], None], refused: Callable[[str], None]
    ) -> None:
        """Start a run in a process of its own, or let it wait for its devices where the person prefers that.

        Args:
            config: what to train.
            devices: what it would take now.
            began: gets `config` when it trains, or waits.
            refused: gets the sentence that says why it is not started.
        """
        if config in self._asked:
            if self.starting:
                self._front.say(f"{config.title()} is being started already.")
            return
        with self._once(config):
            await self._start(config, devices, began, refused)

    async def _start(
        self, config: RunConfig, devices: tuple[str, ...], began: Callable[[RunConfig], None], refused: Callable[[str], None]
    ) -> None:
        try:
            answer = await self._how(devices)
            if answer is None:
                return
            waits = answer == "queue"
            with self._saying(f"{'Queueing' if waits else 'Starting'} {config.title()} in the background…"):
                run = await self._started(config, None, queue=waits)
        except ConfigError as error:
            self._front.say(f"{config.title()} was not started: {error.reason}", wrong=True)
            refused(str(error))
        else:
            began(config)
            self._front.say(f"Queued {run}: r shows what it waits for." if waits else f"Started {run} in the background.")

    async def _how(self, devices: tuple[str, ...]) -> str | None:
        """Start beside those that use the devices, or queue: asked where there are such runs."""
        from tuitrain.runs import queue

        busy = await in_thread(partial(queue.on_devices, self._runs_dir, devices))
        if not busy:
            return "beside"
        return await self._front.ask_to_queue(tuple(dict.fromkeys(devices)), _who(busy))

    async def revive(self) -> None:
        """Let queued runs wait again whose processes have gone, as after the machine has started anew."""
        with suppress(ConfigError):
            revived = await in_thread(partial(self._outside.revive, self._runs_dir))
            if revived:
                who = "A queued run waits" if len(revived) == 1 else f"{len(revived)} queued runs wait"
                self._front.say(f"{who} for a free device again: r shows more.")

    async def go_on(self, path: Path) -> None:
        """Go on with the run in folder `path`: a paused one where it is, an ended one here, or beside the run that trains here."""
        if path in self._asked:
            return
        try:
            if not self._own(path):
                with self._once(path):
                    await self._go_on(path)
        except ConfigError as error:
            self._front.say(error.reason, wrong=True)

    def _own(self, path: Path) -> bool:
        """Whether it is the run that this app trains now; then what there is to do is done."""
        record, session = self._view.record, self._view.session
        if record is None or record.path != path or not self._view.alive:
            return False
        if session.state == "paused":
            session.resume()
        else:
            self._front.say(f"It is {self._view.state} in this app: t shows it.")
        return True

    async def _go_on(self, path: Path) -> None:
        found = await in_thread(partial(look, path, self._outside))
        if isinstance(found, More):
            count = await self._front.ask_for_more(found)
            if count is None:
                return
            found = await in_thread(partial(look, path, self._outside, found.changes(count)))
        if isinstance(found, GoesOn):
            self._front.say(found.sentence)
        elif not isinstance(found, More):
            await self._take_up(path, found)

    async def _take_up(self, path: Path, plan: Plan) -> None:
        if not self._view.alive:
            self._front.go_on_here(plan.config, path)
            return
        with self._saying(f"Going on with {plan.run} in the background…"):
            await self._started(plan.config, path)
        self._front.say(f"{plan.run} goes on in the background.")

    @contextmanager
    def _saying(self, sentence: str) -> Iterator[None]:
        """Say what is being done, until it is."""
        self._front.say(sentence)
        try:
            yield
        finally:
            self._front.unsay(sentence)

    @contextmanager
    def _once(self, asked: RunConfig | Path) -> Iterator[None]:
        """Note what is asked for, for as long as it is on its way."""
        self._asked.append(asked)
        try:
            yield
        finally:
            self._asked.remove(asked)

    async def _started(self, config: RunConfig, resume: Path | None, *, queue: bool = False) -> str:
        self.starting += 1
        try:
            return await in_thread(partial(self._outside.start, config, self._runs_dir, resume=resume, queue=queue))
        finally:
            self.starting -= 1


def _who(busy: Sequence[RunSummary]) -> str:
    """Who trains on devices, and how many wait for them."""
    there = [run.run for run in busy if not run.waits]
    waiting = len(busy) - len(there)
    parts = [f"{there[0]} trains there" + (f", and {len(there) - 1} more" if len(there) > 1 else "")] if there else []
    if waiting:
        parts.append(f"{waiting} queued run{' waits' if waiting == 1 else 's wait'}")
    return f"{'; '.join(parts)}."

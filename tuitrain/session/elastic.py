"""The elastic group: hosts one run as a process for each device, with torch's own launcher; from outside it is like any other training.

Of several machines the one that `rdzv_endpoint` names hosts the run. On each other one the group has no `RunStarted`: it says that it
joined a run, and how that ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import EndState, Event, Notice, Progress, Request, RunEnded, RunStarted, State, Stays, reached
from tuitrain.session.control import Control
from tuitrain.session.deaths import Deaths
from tuitrain.session.rank_output import LOGS, RankOutput
from tuitrain.session.rank_silence import Bounds, Silence
from tuitrain.session.ranks import Peer, Ranks
from tuitrain.wire import (
    LOST_PEER,
    Alive,
    Ask,
    Begin,
    Died,
    Folder,
    Hello,
    Joined,
    Met,
    RankFailed,
    Recorded,
    Refused,
    Regroup,
    Resolved,
    Saving,
)

_RECEIVE_SECONDS = 0.1
_GOODBYE_SECONDS = 5.0
_UNSAVED = "what came after the last checkpoint is not saved."
_MEETING = "; waiting for the machines to meet again."


def elastic_train(
    config: RunConfig, control: Control, *, agent: str, rank: str, bounds: Bounds | None = None, ahead: Ranks | None = None
) -> Iterator[Event]:
    """Train as `config` says, on a process for each of the devices that it names.

    Args:
        config: its strategy is ddp, and its devices are named.
        control: the host's side of the run.
        agent, rank: the modules that the launcher and each rank run.
        bounds: for ranks that hang.
        ahead: the ranks, where they were started for such a `config` already.

    Raises:
        ConfigError: before `RunStarted`: the ranks cannot train with it.
    """
    where = f"; waiting for the other machines at {config.rdzv_endpoint}" if config.rdzv_endpoint else ""
    count = len(config.device.split(","))
    yield Progress(phase=f"starting {count} {'process' if count == 1 else 'processes'}{where}")
    try:
        ranks = ahead or Ranks(agent, rank, config)
    except OSError as error:
        raise ConfigError(f"strategy: ddp cannot start its processes: {error.strerror or error}; use split.") from None
    group = _Group(config, control, ranks, bounds or Bounds())
    try:
        yield from group.events()
    finally:
        ranks.close()
        group.keep_output()


class _Group:
    """One run of a group: what the ranks say becomes the run's events, what is asked for goes to rank 0."""

    def __init__(self, config: RunConfig, control: Control, ranks: Ranks, bounds: Bounds) -> None:
        self._config, self._control, self._ranks, self._bounds = config, control, ranks, bounds
        self._devices = dict(enumerate(config.device.split(",")))
        """By rank, of this machine's ranks."""
        self._several = config.rdzv_endpoint is not None
        self._joined: Joined | None = None
        self._requests: list[Request] = []
        self._asked_to_end: tuple[Request, float] | None = None
        self._started = self._ended = self._dead = self._hears = self._paused = False
        self._step = 0
        self._silence = Silence(ranks, bounds)
        self._restarted: str | None = None
        self._failed: str | None = None
        self._output = RankOutput()
        self._deaths = Deaths()

    def events(self) -> Iterator[Event]:
        """Everything until the run has ended."""
        while not self._ended:
            for peer, message in self._ranks.receive(_RECEIVE_SECONDS):
                yield from self._take(peer, message)
                if self._ended:
                    return
            self.keep_output()
            self._forward()
            yield from self._silence.look(self._devices)
            if self._ranks.process.poll() is not None:
                yield from self._launcher_gone()
            yield from self._end_in_time()

    def keep_output(self) -> None:
        """What the ranks printed goes to the run's log, and to a file for each rank in the run folder, once there is one."""
        lines, self._ranks.output = self._ranks.output, []
        for line in lines:
            self._control.output(line)
        self._output.take(lines)
        if self._started and self._control.folder.is_absolute():
            self._output.keep(self._control.folder / LOGS)

    def _take(self, peer: Peer, message: Event) -> Iterator[Event]:
        match message:
            case Hello():
                folder = str(self._control.folder) if self._control.folder.is_absolute() else None
                self._ranks.send(peer, Begin(config=self._config, folder=folder))
            case Alive():
                peer.named = False
            case Met():
                self._dead = False
                self._devices = dict(zip(sorted(message.pids), self._devices.values(), strict=True))
                self._ranks.expect(message.pids)
            case Regroup():
                yield from self._regroup(gone=message.gone)
            case Joined():
                yield from self._join(message)
            case Resolved():
                self._control.resolved, self._control.environment = message.config, message.environment
            case Refused():
                if not self._started:
                    raise ConfigError(message.text)
                yield self._end("failed", message.text)
            case RankFailed():
                yield from self._rank_failed(peer, message)
            case Stays():
                if self._asked_to_end is not None and self._asked_to_end[0] == "leave":
                    self._asked_to_end = None
                self._control.stay()
                yield message
            case Saving():
                self._control.recorded()
                self._ranks.send(peer, Recorded(number=message.number))
            case Died():
                yield from self._died(message)
            case RunStarted():
                yield from self._begin(peer, message)
            case RunEnded():
                yield from self._finish(message)
            case State():
                self._paused = message.state == "paused"
                yield message
            case _:
                self._step = reached(self._step, message)
                yield message

    def _rank_failed(self, peer: Peer, message: RankFailed) -> Iterator[Event]:
        """Rank 0 waits for the one that failed, and has losses to tell: it learns from the end of their connection that nothing comes."""
        self._step = max(self._step, message.step)
        self._failed = self._failed or message.text
        if self._started and self._ranks.rank(0) is not None:
            self._ranks.kill(peer)
        else:
            yield self._end("failed", self._failed)

    def _begin(self, peer: Peer, event: RunStarted) -> Iterator[Event]:
        if self._restarted is not None:
            where = f"from step {event.resumed_from}" if event.resumed_from else "from the beginning"
            yield Notice(level="warning", text=self._restarted.format(where=where))
            self._restarted = None
        new = not self._control.folder.is_absolute()
        yield event
        self._step = reached(self._step, event)
        self._started = self._hears = True
        if new:
            # The host has made the folder when it asks for the next event.
            self._ranks.send(peer, Folder(path=str(self._control.folder)))

    def _join(self, message: Joined) -> Iterator[Event]:
        self._joined, self._restarted = message, None
        self._started = self._hears = True
        first, last = min(self._devices), max(self._devices)
        ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
        where = f"the run {PurePath(message.folder).name} on {message.host} as {ranks}"
        yield Notice(text=f"Joined {where}.")
        yield message
        yield Progress(phase=f"training in {where}; its curve is there")

    def _heard_out(self) -> Iterator[Event]:
        """What has come from the ranks and is not taken yet, and the end of the run where one of them has failed."""
        for peer, message in list(self._ranks.receive(0)):
            if not self._ended:
                yield from self._take(peer, message)
        if not self._ended and self._failed is not None:
            yield self._end("failed", self._failed)

    def _finish(self, event: RunEnded) -> Iterator[Event]:
        if self._failed is not None:
            yield self._end("failed", self._failed)
            return
        self._ended = True
        if self._joined is not None:
            event = msgspec.structs.replace(event, run=PurePath(self._joined.folder).name)
        if not self._started and self._asked_to_end is not None:
            event = RunEnded(state=_end_state(self._asked_to_end[0]), step=0)
        if event.state != "failed":
            self._ranks.wait(_GOODBYE_SECONDS)
        yield event

    def _died(self, message: Died) -> Iterator[Event]:
        if self._failed is not None:
            yield from self._heard_out()
            return
        self._group_ends()
        what = self._silence.killed or f"rank {message.rank} ({self._devices[message.rank]}) died ({self._deaths.how(message.exitcode)})"
        if self._several and message.exitcode == LOST_PEER:
            what = "A rank on another machine has gone"
        self._silence.killed = None
        if self._asked_to_end is not None:
            yield Notice(level="warning", text=f"{what} before the run had stopped; {_UNSAVED}")
            yield self._end(_end_state(self._asked_to_end[0]))
        elif message.restart:
            self._restarted = f"{what}; the group started again {{where}}, restart {message.restart} of {self._config.max_restarts}."
            yield Progress(phase="starting the group again")
            if self._several:
                yield Notice(level="warning", text=f"{what}{_MEETING}")
        else:
            most = self._config.max_restarts
            used = f"all {most} restarts are used up" if most else "max_restarts is 0"
            self._ranks.wait(_GOODBYE_SECONDS)
            self.keep_output()
            if not self._started:
                self._control.lost_output(self._output.unkept)
            last, crash = self._output.last_words(message.rank), self._output.crash(message.rank)
            said = f" It said last: {last}" if last and message.exitcode > 0 else ""
            said = f" It crashed: {crash}." if crash and message.exitcode < 0 else said
            yield self._end("failed", f"{what}, and {used}.{said}")

    def _regroup(self, *, gone: bool) -> Iterator[Event]:
        self._group_ends()
        what = "A machine has gone" if gone else "Another machine came"
        self._restarted = f"{what}; the group started again {{where}}."
        yield Notice(level="warning" if gone else "info", text=f"{what}{_MEETING}")
        if self._started and self._joined is None:
            yield Progress(phase="starting the group again")

    def _group_ends(self) -> None:
        """All ranks of this machine are dead, or will be in a moment."""
        self._dead, self._hears = True, False
        self._ranks.forget_numbers()
        if self._paused:
            # New ranks begin by training; what was asked for since comes after it.
            self._paused = False
            self._requests.insert(0, "pause")

    def _forward(self) -> None:
        while (request := self._control.take(wait=False)) is not None:
            self._requests.append(request)
            asked = self._asked_to_end and self._asked_to_end[0]
            if (request in ("stop", "interrupt") and asked in (None, "leave")) or (request == "leave" and asked is None):
                self._asked_to_end = (request, time.monotonic())
        leader = self._ranks.rank(min(self._devices))
        # Before they have begun, also for a second time, ranks hear no request.
        if leader is not None and self._hears:
            for request in self._requests:
                self._ranks.send(leader, Ask(request=request))
            self._requests = []

    def _launcher_gone(self) -> Iterator[Event]:
        yield from self._heard_out()
        if self._ended:
            return
        self._ranks.read_rest()
        self.keep_output()
        how = self._deaths.how(self._ranks.process.returncode)
        text = f"the launcher of the processes died ({how})"
        if self._started:
            yield self._end("failed", f"{text}; the ranks were ended.")
        else:
            said = self._output.unkept
            self._control.lost_output(said)
            raise ConfigError(f"strategy: {text} before the run began: {said[-1] if said else 'it said nothing'}.")

    def _end_in_time(self) -> Iterator[Event]:
        """A stop while there are no ranks is obeyed at once; one that the ranks do not obey, after a while."""
        if self._asked_to_end is None or self._ended:
            return
        request, since = self._asked_to_end
        if not self._started or self._dead:
            if self._started and self._joined is None:
                text = f"The run ended while its group was starting again; {_UNSAVED}"
                yield Notice(level="warning", text=text)
            yield self._end(_end_state(request))
        elif request != "leave" and time.monotonic() - since > self._bounds.stop:
            seconds = self._bounds.stop
            text = f"The ranks did not stop within {seconds:.0f} s and were ended; {_UNSAVED}"
            yield Notice(level="warning", text=text)
            yield self._end(_end_state(request))

    def _end(self, state: EndState, error: str | None = None) -> RunEnded:
        self._ended = True
        run = PurePath(self._joined.folder).name if self._joined else ""
        return RunEnded(run=run, state=state, step=self._step, error=error)


def _end_state(request: Request) -> EndState:
    return "interrupted" if request == "interrupt" else "stopped"

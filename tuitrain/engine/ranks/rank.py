"""What each process of a group runs: it hears from its host what to train, trains its part, and on rank 0 tells what happens.

It speaks to its host before it imports torch: that takes seconds, in which neither of the two may be gone unseen.
"""

from __future__ import annotations

import os
import queue
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event, Request, RunEnded, RunStarted
from tuitrain.python import crashes_to, lasting_imports, leave_at_once
from tuitrain.text import print_error
from tuitrain.wire import (
    ADDRESS,
    LOST_PEER,
    Alive,
    Ask,
    Begin,
    Folder,
    Hello,
    RankFailed,
    Recorded,
    Refused,
    Resolved,
    Saving,
    Unpacker,
    pack,
)

if TYPE_CHECKING:
    from tuitrain.engine.ranks.world import World

BEAT_SECONDS = 1.0
GOODBYE_SECONDS = 20.0
RECORDED_SECONDS = 5.0
"""Longer than the host tries: it answers, unless it stands still."""

Message = TypeVar("Message", bound=Event)


class Line:
    """The connection to the host. When the host or the launcher has gone, the process ends.

    Attributes:
        asked: called with each request, from a thread of the line's own.
    """

    def __init__(self, address: str, rank: int, agent: int) -> None:
        self.asked: Callable[[Request], None] = lambda request: None
        self._folder, self._rank, self._agent = Path(address).parent, rank, agent
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._recorded: queue.SimpleQueue[Recorded] = queue.SimpleQueue()
        self._saves = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        self.send(Hello(rank=rank, pid=os.getpid()))
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._beat, daemon=True).start()

    def send(self, message: Event) -> None:
        """Tell the host."""
        try:
            with self._lock:
                self._socket.sendall(pack(message))
        except OSError:
            self._leave()

    def wait_for(self, kind: type[Message]) -> Message:
        """The next message of this kind from the host."""
        while not isinstance(message := self._inbox.get(), kind):
            pass
        return message

    def recorded(self) -> None:
        """Wait until the host has written what it was told, at most `RECORDED_SECONDS`; for the one thread that saves."""
        self._saves += 1
        self.send(Saving(number=self._saves))
        end = time.monotonic() + RECORDED_SECONDS
        with suppress(queue.Empty):
            # An answer that came too late for an earlier one is not this one's.
            while self._recorded.get(timeout=max(end - time.monotonic(), 0)).number != self._saves:
                pass

    def _read(self) -> None:
        try:
            self._take_all()
        except msgspec.DecodeError as error:
            # The host is of the version that was installed when the run began, and a rank that is started again of the one that is now.
            reason = f"rank {self._rank} is of another version of tuitrain than its host, and does not understand it"
            self.send(Refused(text=f"strategy: {reason} ({str(error).rstrip('.')}); resume the run, or start it anew."))
            time.sleep(GOODBYE_SECONDS)
        self._leave()

    def _take_all(self) -> None:
        """Everything that the host says, until it has gone."""
        unpacker = Unpacker()
        with open(self._socket.fileno(), "rb", buffering=0, closefd=False) as file:
            while piece := file.read(1 << 16):
                for message in unpacker.feed(piece):
                    if isinstance(message, Ask):
                        self.asked(message.request)
                    elif isinstance(message, Recorded):
                        self._recorded.put(message)
                    else:
                        self._inbox.put(message)

    def _beat(self) -> None:
        while os.getppid() == self._agent:
            self.send(Alive())
            time.sleep(BEAT_SECONDS)
        leave_at_once(1)

    def _leave(self) -> None:
        """The host has gone: whoever sees it takes away what it left."""
        shutil.rmtree(self._folder, ignore_errors=True)
        leave_at_once(1)


class RankControl:
    """The host's side of the run, as `engine.control.Control` says; what is asked for is obeyed when all ranks have agreed on it."""

    def __init__(self, folder: str | None, recorded: Callable[[], None]) -> None:
        self.recorded = recorded
        self.folder = Path(folder or "")
        self.resolved: RunConfig | None = None
        self.environment: dict[str, Any] = {}
        self.free_cuda_devices: Callable[[], Sequence[int] | None] = list
        self._ends = self._leaves = False
        self._asked: queue.SimpleQueue[Request] = queue.SimpleQueue()

    def placed(self, devices: Sequence[str]) -> None:
        """The host has seen to the priority: processes inherit it."""

    def raised(self, error: BaseException) -> None:
        """The host keeps what ranks print."""
        print_error(error)

    def take(self, *, wait: bool) -> Request | None:
        """The next request."""
        try:
            return self._asked.get(block=wait)
        except queue.Empty:
            return None

    def ask(self, request: Request) -> None:
        """The host asks; from the line's thread."""
        self._asked.put(request)
        self._ends |= request in ("stop", "interrupt")
        self._leaves |= request == "leave"

    def stay(self) -> None:
        """See `engine.control.Control`."""
        self._leaves = False

    @property
    def ending(self) -> bool:
        """See `engine.control.Control`."""
        return self._ends or self._leaves


def main() -> None:
    """One rank, from the first word of the host to the end of the run."""
    crashes_to("process", sys.stderr)
    line = Line(os.environ[ADDRESS], int(os.environ["RANK"]), int(os.environ["TUITRAIN_AGENT"]))
    code = 0
    try:
        _train(line, line.wait_for(Begin))
    except Exception as error:  # whatever it is, the launcher sees the code and the log has the rest
        from tuitrain.engine.failures import first_line, first_line_and_place
        from tuitrain.engine.group import is_lost_peer

        code = LOST_PEER if is_lost_peer(error) else 1
        if code == LOST_PEER:
            print(f"another rank has gone: {first_line(error)}", file=sys.stderr)
        else:
            print_error(error)
            # The last line is what the host tells of it, and that of a traceback may be the end of a message.
            print(f"{type(error).__name__}: {first_line_and_place(error)}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter's own end would wait for threads that wait for ranks.
    leave_at_once(code)


def _train(line: Line, begin: Begin) -> None:
    with lasting_imports():
        import torch

        from tuitrain.engine.ranks.world import World

    device = torch.device(begin.config.device.split(",")[int(os.environ["LOCAL_RANK"])])
    control = RankControl(begin.folder, line.recorded)
    line.asked = control.ask
    try:
        world = World(begin.config, control, device)
        for event in world.events():
            _tell(line, control, world, event, new=begin.folder is None)
    except ConfigError as error:
        line.send(Refused(text=str(error)))
        time.sleep(GOODBYE_SECONDS)


def _tell(line: Line, control: RankControl, world: World, event: Event, *, new: bool) -> None:
    failed = isinstance(event, RunEnded) and event.state == "failed"
    if isinstance(event, RunStarted):
        assert control.resolved is not None
        line.send(Resolved(config=control.resolved, environment=control.environment))
    if isinstance(event, RunEnded) and failed and not world.group.leads:
        line.send(RankFailed(rank=world.group.rank, step=event.step, text=event.error or "it failed"))
    elif world.group.leads or world.group.local_rank == 0:
        line.send(event)
    if isinstance(event, RunStarted) and new:
        control.folder = Path(line.wait_for(Folder).path)
    elif failed:
        time.sleep(GOODBYE_SECONDS)  # the others would take an end for a death; the host ends all ranks


if __name__ == "__main__":
    main()

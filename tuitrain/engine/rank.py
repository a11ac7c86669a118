"""What each process of a group runs: it hears from its host what to train, trains its part, and on rank 0 tells what happens."""

from __future__ import annotations

import os
import queue
import shutil
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, cast

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.checkpoint import forget_after, newest
from tuitrain.engine.control import Request
from tuitrain.engine.failures import first_line
from tuitrain.engine.group import Group, is_lost_peer
from tuitrain.engine.train import train
from tuitrain.events import Event, RunEnded, RunStarted, Step
from tuitrain.wire import ADDRESS, LOST_PEER, Alive, Ask, Begin, Folder, Hello, RankFailed, Refused, Resolved, Unpacker, pack

BEAT_SECONDS = 1.0
# Longer than any evaluation or save of rank 0, for which the others wait. Whoever hangs is seen by the host.
PATIENCE = timedelta(days=1)
GOODBYE_SECONDS = 20.0

Message = TypeVar("Message", bound=Event)


class Line:
    """The connection to the host. When the host or the launcher has gone, the process ends.

    Attributes:
        step: the step that was told last, for the heartbeat.
        asked: called with each request, from a thread of the line's own.
    """

    def __init__(self, address: str, rank: int, agent: int) -> None:
        self.step = 0
        self.asked: Callable[[Request], None] = lambda request: None
        self._folder, self._rank, self._agent = Path(address).parent, rank, agent
        self._lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
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

    def _read(self) -> None:
        unpacker = Unpacker()
        with open(self._socket.fileno(), "rb", buffering=0, closefd=False) as file:
            while piece := file.read(1 << 16):
                for message in unpacker.feed(piece):
                    if isinstance(message, Ask):
                        self.asked(cast(Request, message.request))
                    else:
                        self._inbox.put(message)
        self._leave()

    def _beat(self) -> None:
        while os.getppid() == self._agent:
            self.send(Alive(rank=self._rank, step=self.step))
            time.sleep(BEAT_SECONDS)
        os._exit(1)

    def _leave(self) -> None:
        """The host has gone: whoever sees it takes away what it left."""
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(1)


class RankControl:
    """The host's side of the run, as `engine.control.Control` says; requests are obeyed when all ranks have agreed on them."""

    def __init__(self, group: Group, folder: str | None) -> None:
        self.folder = Path(folder or "")
        self.resolved: RunConfig | None = None
        self.environment: dict[str, Any] = {}
        self.free_cuda_devices: Callable[[], Sequence[int]] = list
        self.ending = False
        self._group = group

    def placed(self, devices: Sequence[str]) -> None:
        """The host has seen to the priority: processes inherit it."""

    def take(self, *, wait: bool) -> Request | None:
        """The next request that all ranks know of."""
        if self._group.agreed:
            return self._group.agreed.popleft()
        return self._group.wait_for_request() if wait else None

    def ask(self, request: Request) -> None:
        """The host asks; from the line's thread."""
        self._group.ask(request)
        if request in ("stop", "interrupt"):
            self.ending = True


def main() -> None:
    """One rank, from the first word of the host to the end of the run."""
    line = Line(os.environ[ADDRESS], int(os.environ["RANK"]), int(os.environ["TUITRAIN_AGENT"]))
    code = 0
    try:
        _train(line, line.wait_for(Begin))
    except Exception as error:  # whatever it is, the launcher sees the code and the log has the rest
        code = LOST_PEER if is_lost_peer(error) else 1
        if code == LOST_PEER:
            print(f"another rank has gone: {first_line(error)}", file=sys.stderr)
        else:
            traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without the interpreter's own end, which waits for threads that wait for ranks.
    os._exit(code)


def _train(line: Line, begin: Begin) -> None:
    cuda = "cuda" in begin.config.device
    if cuda:
        import torch

        torch.cuda.set_device(begin.config.device.split(",")[int(os.environ["RANK"])])
    store, rank, size = next(rendezvous("env://", timeout=PATIENCE))
    # The launcher's store outlives the ranks: each start has keys of its own, or it would find the addresses of ranks that have died.
    store = PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("nccl" if cuda else "gloo", store=store, rank=rank, world_size=size, timeout=PATIENCE)
    group = Group()
    control = RankControl(group, begin.folder)
    line.asked = control.ask
    if begin.folder is not None and group.leads:
        kept = newest(control.folder / "checkpoints")
        forget_after(control.folder / "checkpoints", kept.position.step if kept else 0)
    try:
        for event in train(begin.config, control, group=group):
            if group.leads:
                _tell(line, control, event, new=begin.folder is None)
            elif isinstance(event, RunEnded) and event.state == "failed":
                line.send(RankFailed(rank=group.rank, step=event.step, text=event.error or "it failed"))
                time.sleep(GOODBYE_SECONDS)  # the host ends all ranks
    except ConfigError as error:
        line.send(Refused(text=str(error)))
        time.sleep(GOODBYE_SECONDS)


def _tell(line: Line, control: RankControl, event: Event, *, new: bool) -> None:
    if isinstance(event, RunStarted):
        assert control.resolved is not None
        line.send(Resolved(config=control.resolved, environment=control.environment))
    line.send(event)
    if isinstance(event, RunStarted) and new:
        control.folder = Path(line.wait_for(Folder).path)
    elif isinstance(event, Step):
        line.step = event.step
    elif isinstance(event, RunEnded) and event.state == "failed":
        time.sleep(GOODBYE_SECONDS)  # the others would take an end for a death


if __name__ == "__main__":
    main()

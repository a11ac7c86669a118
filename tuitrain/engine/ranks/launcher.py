"""Torch's elastic agent, which also tells the host of this machine's ranks what it does."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.rendezvous.api import RendezvousClosedError, RendezvousError, RendezvousTimeoutError

from tuitrain.allowance import Allowance
from tuitrain.config import machines
from tuitrain.engine.ranks.interfaces import interface_of, own_address_towards
from tuitrain.engine.ranks.meeting import JOIN_SECONDS, Meeting
from tuitrain.events import Event
from tuitrain.python import module_arguments
from tuitrain.wire import LOST_PEER, Died, Met, Refused, Regroup, pack

MONITOR_SECONDS = 0.1
LINGER_SECONDS = 1.5
"""How long the store outlives a run of several machines, so that the others find there why it has ended."""


class NotStarted(Exception):
    """No process can be started for a rank, or no file made for what it prints: the reason."""


@contextmanager
def _starting() -> Iterator[None]:
    """What is inside starts ranks, and meets nobody."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise NotStarted(f"{error.strerror or error}{where}") from error


class Agent(LocalElasticAgent):
    """Torch's agent, which also says which ranks it started, which one died, and whether the group starts again."""

    def __init__(self, spec: WorkerSpec, logs: DefaultLogsSpecs, host: Host) -> None:
        super().__init__(spec, logs, log_line_prefix_template="rank ${rank}: ")
        self._host = host

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        with _starting():
            pids: dict[int, Any] = super()._start_workers(worker_group)
        ranks = {worker_group.workers[local].global_rank: pid for local, pid in pids.items()}
        self._host.tell(Met(pids=ranks))
        return pids

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result: RunResult = super()._monitor_workers(worker_group)
        if result.state is WorkerState.FAILED:
            rank, exitcode = _first(result.failures)
            spec = worker_group.spec
            restart = spec.max_restarts - self._remaining_restarts + 1 if self._remaining_restarts > 0 else 0
            self._host.tell(Died(rank=rank, exitcode=exitcode, restart=restart))
        return result


class Host:
    """The line to the host; from any thread."""

    def __init__(self, line: socket.socket) -> None:
        self._line, self._lock = line, threading.Lock()

    def tell(self, message: Event) -> None:
        """Say it; a host that has gone is seen by a thread that ends everything."""
        with self._lock:
            self._line.sendall(pack(message))


def launch(options: argparse.Namespace, line: socket.socket, folder: Path) -> int:
    """Start the ranks, and again when one dies; 0 when all ended well.

    Args:
        options: `ranks`, `max_restarts`, `rank_module`, `nnodes` and `endpoint`.
        line: to the host.
        folder: for what the ranks print.
    """
    # What torch says of a rank that died, the host says in words.
    logging.disable(logging.ERROR)
    host = Host(line)
    os.environ["OMP_NUM_THREADS"] = str(threads_for(options.ranks))
    os.environ["TUITRAIN_AGENT"] = str(os.getpid())
    least, most = machines(options.nnodes)
    name, _, port = options.endpoint.rpartition(":")
    try:
        address = own_address_towards(name)
        # A machine's own name often leads nowhere, or elsewhere: gloo takes the interface that leads to the others.
        if interface := interface_of(address):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        meeting = Meeting(name, int(port), least, most, lambda gone: host.tell(Regroup(gone=gone)))
        return _run(options, meeting, address, folder, host)
    except NotStarted as error:
        host.tell(Refused(text=f"strategy: ddp cannot start its processes: {error}; use split."))
    except OSError as error:
        host.tell(Refused(text=f"rdzv_endpoint: {options.endpoint!r} cannot be reached from this machine: {error.strerror or error}."))
    except RendezvousTimeoutError:
        wanted = f"{least} machines" if least == most else f"{least} to {most} machines"
        minutes = f"{JOIN_SECONDS // 60} minutes"
        text = f"nnodes: {wanted} did not meet at {options.endpoint} within {minutes}; start the same command on each"
        host.tell(Refused(text=f"{text}, and let them reach each other."))
    except RendezvousClosedError:
        host.tell(Refused(text=f"the run has ended on the machine that hosts it ({options.endpoint})."))
    except RendezvousError:
        host.tell(Refused(text=f"the machine that hosts the run ({options.endpoint}) cannot be reached any more."))
    return 1


def _run(options: argparse.Namespace, meeting: Meeting, address: str, folder: Path, host: Host) -> int:
    spec = WorkerSpec(
        role="rank",
        local_world_size=options.ranks,
        entrypoint=sys.executable,
        args=module_arguments(options.rank_module),
        rdzv_handler=meeting,
        max_restarts=options.max_restarts,
        monitor_interval=MONITOR_SECONDS,
        local_addr=address,
    )
    with _starting():
        logs = DefaultLogsSpecs(log_dir=str(folder / "logs"), redirects=Std.ALL, tee=Std.ALL)
    try:
        failed = Agent(spec, logs, host).run().is_failed()
    except SignalException:  # the host ends the run
        failed = True
    if meeting.keeps_store:
        meeting.shutdown()
        if failed and meeting.machines > 1:
            time.sleep(LINGER_SECONDS)
    return int(failed)


def _first(failures: dict[int, Any]) -> tuple[int, int]:
    """Rank and exit code of the one that the others died of: they lost it, or the agent ended them."""
    followed = (LOST_PEER, -signal.SIGTERM)
    rank, failure = min(failures.items(), key=lambda each: (each[1].exitcode in followed, each[1].timestamp))
    return rank, int(failure.exitcode)


def threads_for(ranks: int) -> int:
    """How many CPU threads one of `ranks` processes gets of those that this process may use."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, (int(chosen) if chosen.isdigit() else Allowance().processors()) // ranks)

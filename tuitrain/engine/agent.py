"""The launcher of a group: torch's own elastic agent, in a process of its own. The end of its stdin says that its host has gone."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import socket
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerGroup, WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous import registry as rendezvous

from tuitrain.wire import ADDRESS, LOST_PEER, Died, pack

MONITOR_SECONDS = 0.1
HERE = "127.0.0.1"


class Agent(LocalElasticAgent):
    """Torch's agent, which also says which rank died, and whether the group starts again."""

    def __init__(self, spec: WorkerSpec, logs: DefaultLogsSpecs, host: socket.socket) -> None:
        super().__init__(spec, logs, log_line_prefix_template="rank ${rank}:")
        self._host = host

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result: RunResult = super()._monitor_workers(worker_group)
        if result.state is WorkerState.FAILED:
            rank, exitcode = _first(result.failures)
            spec = worker_group.spec
            restart = spec.max_restarts - self._remaining_restarts + 1 if self._remaining_restarts > 0 else 0
            self._host.sendall(pack(Died(rank=rank, exitcode=exitcode, restart=restart)))
        return result


def _first(failures: dict[int, Any]) -> tuple[int, int]:
    """Rank and exit code of the one that the others died of: they lost it, or the agent ended them."""
    followed = (LOST_PEER, -signal.SIGTERM)
    rank, failure = min(failures.items(), key=lambda each: (each[1].exitcode in followed, each[1].timestamp))
    return rank, int(failure.exitcode)


def threads_for(ranks: int) -> int:
    """How many CPU threads one of `ranks` processes gets of those that this process may use."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    mine = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, (int(chosen) if chosen.isdigit() else mine) // ranks)


def _watch_host(folder: Path) -> None:
    """End everything as soon as the host has gone, however it went."""
    while os.read(0, 1024):
        pass
    import psutil

    # A stopped process obeys nothing but this signal.
    for child in psutil.Process().children(recursive=True):
        child.kill()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main() -> int:
    """Start the ranks, and again when one dies; 0 when all ended well."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--max-restarts", type=int, required=True)
    parser.add_argument("--rank-module", required=True)
    options = parser.parse_args()
    address = Path(os.environ[ADDRESS])
    threading.Thread(target=_watch_host, args=(address.parent,), daemon=True).start()
    # What torch says of a rank that died, the host says in words.
    logging.disable(logging.ERROR)
    host = socket.socket(socket.AF_UNIX)
    host.connect(str(address))
    os.environ["OMP_NUM_THREADS"] = str(threads_for(options.ranks))
    os.environ["TUITRAIN_AGENT"] = str(os.getpid())
    # A machine's own name often leads nowhere; all ranks are on this one.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    handler = rendezvous.get_rendezvous_handler(
        RendezvousParameters(backend="c10d", endpoint="localhost:0", run_id=uuid.uuid4().hex, min_nodes=1, max_nodes=1, local_addr=HERE)
    )
    spec = WorkerSpec(
        role="rank",
        local_world_size=options.ranks,
        entrypoint=sys.executable,
        args=("-m", options.rank_module),
        rdzv_handler=handler,
        max_restarts=options.max_restarts,
        monitor_interval=MONITOR_SECONDS,
        local_addr=HERE,
    )
    logs = DefaultLogsSpecs(log_dir=str(address.parent / "logs"), redirects=Std.ALL, tee=Std.ALL)
    try:
        failed = Agent(spec, logs, host).run().is_failed()
        handler.shutdown()
    except SignalException:  # the host ends the run
        return 1
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

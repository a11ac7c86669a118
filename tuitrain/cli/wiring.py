"""The rooms joined: a session with the engine's train function and what the sampler knows, and what else of the engine crosses."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuitrain.engine.torch_first import torch_first
from tuitrain.python import leave_at_once

if TYPE_CHECKING:
    from tuitrain.config import RunConfig
    from tuitrain.devices.sampler import Sampler
    from tuitrain.events import Event, Progress, RunStarted
    from tuitrain.session.control import Control
    from tuitrain.session.worker import Train, WorkerSession
    from tuitrain.tui.code.script import WriteScript

JOIN_SECONDS = 60.0  # longer than metrics that are locked are waited for
FIRST_SAMPLE_SECONDS = 3.0


def count_gpus_as_nvml() -> None:
    """NVML lists cards in the order of their bus ids; after this, CUDA counts them in the same order, in processes of ours too."""
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")


@contextmanager
def session_and_sampler(
    runs_dir: Path, load_train: Callable[[], Train] | None = None, *, waits: bool = False
) -> Iterator[tuple[WorkerSession, Sampler]]:
    """A session, of another train function where `load_train` gives one, and a sampler, wired; at the end all their threads are joined.

    With `waits` the run is a queued one: until its turn comes, the devices are asked only when somebody wants to know.
    """
    from tuitrain.devices.inventory import device_events, free_cuda_devices
    from tuitrain.devices.report import Looks
    from tuitrain.devices.sampler import Sampler
    from tuitrain.session.threads import limit_openmp_spin
    from tuitrain.session.worker import WorkerSession

    limit_openmp_spin()
    count_gpus_as_nvml()
    sampler, looks = Sampler(), Looks()

    def begin() -> Train:
        sampler.start()
        return load_engine()

    def free() -> Sequence[int] | None:
        snapshot = looks.look() if waits else sampler.wait(FIRST_SAMPLE_SECONDS)
        return None if snapshot.silent else free_cuda_devices(snapshot)

    session = WorkerSession(begin if waits else load_train or load_engine, runs_dir, free)
    sampler.subscribe(lambda snapshot: session.note_samples(device_events(snapshot)))
    if not waits:
        sampler.start()
    try:
        yield session, sampler
    finally:
        ended = _end(session)
        sampler.stop()
        looks.close()
        if not ended:
            # A thread that is still inside torch would abort the interpreter's own exit.
            print("tuitrain: training did not stop in time; leaving it", file=sys.stderr)
            sys.stderr.flush()
            leave_at_once(1)


def _end(session: WorkerSession) -> bool:
    """Let a run that is alive end, and wait for what it wants done afterwards; whether the run ended in time."""
    if session.state != "ended":
        session.interrupt()
    deadline = time.monotonic() + JOIN_SECONDS
    while session.state not in ("idle", "ended"):
        session.join(0.2)
        if time.monotonic() > deadline:
            return False
    if not session.join(0.5):
        print("tuitrain: waiting for on_end, a minute at most; Ctrl+C leaves it running", file=sys.stderr)
        while not session.join(1.0):
            pass
    return True


def answer_trial() -> None:
    """The process of one trial of a strategy: see `tuitrain.engine.trial_process`."""
    from tuitrain.engine.trial_process import main
    from tuitrain.session.elastic import elastic_train
    from tuitrain.wire import AGENT_MODULE, RANK_MODULE

    main(partial(elastic_train, agent=AGENT_MODULE, rank=RANK_MODULE))


def load_engine() -> Train:
    """The engine's train function; with its first event it takes torch with it."""
    return _train


def _train(config: RunConfig, control: Control) -> Iterator[Event]:
    """`engine.train.train`, with the ranks of ddp in processes of their own."""
    from tuitrain.session.ahead import ranks_ahead
    from tuitrain.session.elastic import elastic_train
    from tuitrain.wire import AGENT_MODULE, RANK_MODULE

    ahead = ranks_ahead(config, control, AGENT_MODULE, RANK_MODULE)
    with nullcontext() if ahead is None else closing(ahead):
        with torch_first():
            from tuitrain.engine.train import train
        yield from train(config, control, spread=partial(elastic_train, agent=AGENT_MODULE, rank=RANK_MODULE, ahead=ahead))


def check_config(config: RunConfig) -> None:
    """The engine's check of what is to wait in the queue, imported when it is asked for: it takes torch with it."""
    with torch_first():
        from tuitrain.engine.check import check

    check(config)


def write_script(config: RunConfig, started: RunStarted | None, environment: Mapping[str, Any]) -> str:
    """The engine's export of a script, imported when it is asked for: it takes torch with it."""
    return _load_script()(config, started, environment)


@cache
def _load_script() -> WriteScript:
    with torch_first():
        from tuitrain.engine.export import script
    return script


def download_cifar10(ending: Callable[[], bool]) -> Iterator[Progress]:
    """The engine's download, imported when it is asked for: it takes torch with it."""
    with torch_first():
        from tuitrain.engine.datasets.download import fetch_cifar10
    yield from fetch_cifar10(ending)

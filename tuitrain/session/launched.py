"""A run whose ranks torchrun or srun started: this process is one of them, and rank 0 hosts the run.

On the others a session hears no `RunStarted`: only which run the rank has joined, and how that ended.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tuitrain.config import ConfigError, RunConfig, parse_device, with_changes
from tuitrain.device_names import short
from tuitrain.events import Event, Progress, RunStarted
from tuitrain.files import write_atomically
from tuitrain.session import Session
from tuitrain.session.rank_output import LOGS
from tuitrain.text import clean
from tuitrain.wire import Joined

if TYPE_CHECKING:
    from tuitrain.runs.record import RunRecord

NOTE = "launched.json"
END_SECONDS = 20.0
"""How long a rank that was interrupted may be silent: torchrun and srun kill what is left after 30 s."""
_FIRST_PORT, _PORTS = 20000, 10000
_FIRST_SPEAKS_SECONDS = 10.0
_LATE_SECONDS = 10.0


@dataclass(frozen=True)
class World:
    """This process's place among those that the launcher started.

    Attributes:
        launcher: "torchrun", "srun" or "the launcher", for sentences.
        local_rank, local_size: its number on its machine, and how many are there.
        job: the launcher's own name for what it started; `None` where it has none.
        parent: the launcher's process, where it starts processes again that died: host, pid, start.
        restarted: the launcher says that this is not its first start.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    job: str | None = None
    parent: tuple[str, int, float] | None = None
    restarted: bool = False


class _Note(msgspec.Struct, frozen=True):
    """What is kept in the run's folder, so that the ranks go on with this run when they are started again."""

    job: str | None
    parent: tuple[str, int, float] | None


def world_of(environment: Mapping[str, str]) -> World | None:
    """The world that the environment tells of; `None` where no launcher started this process.

    Raises:
        ConfigError: it tells of one, and not all that a rank must know.
    """
    if {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= environment.keys():
        return _of_torchrun(environment)
    if "SLURM_PROCID" in environment and _slurm_size(environment) is not None:
        return _of_srun(environment)
    return None


def _of_torchrun(environment: Mapping[str, str]) -> World:
    """By the variables that torch's `env://` reads, whoever set them."""
    rank, size = _number(environment, "RANK"), _number(environment, "WORLD_SIZE")
    if rank >= size:
        raise ConfigError(f"RANK: {rank} in the environment is not below WORLD_SIZE, which is {size}; let torchrun or srun set them.")
    _check_port(environment)
    elastic = "TORCHELASTIC_RUN_ID" in environment
    job = environment.get("TORCHELASTIC_RUN_ID", "none")
    return World(
        launcher="torchrun" if elastic else "the launcher",
        rank=rank,
        size=size,
        local_rank=_number(environment, "LOCAL_RANK", rank),
        local_size=_number(environment, "LOCAL_WORLD_SIZE", size),
        job=None if job == "none" else job,
        parent=_parent() if elastic else None,
        restarted=_number(environment, "TORCHELASTIC_RESTART_COUNT", 0) > 0,
    )


def _of_srun(environment: Mapping[str, str]) -> World:
    size = _slurm_size(environment)
    assert size is not None
    rank = _number(environment, "SLURM_PROCID")
    tasks = environment.get("SLURM_STEP_TASKS_PER_NODE", environment.get("SLURM_TASKS_PER_NODE", str(size)))
    node = _number(environment, "SLURM_NODEID", 0)
    here = _repeated(tasks)
    return World(
        launcher="srun",
        rank=rank,
        size=size,
        local_rank=_number(environment, "SLURM_LOCALID", rank),
        local_size=here[node] if node < len(here) else size,
        job=f"{environment.get('SLURM_JOB_ID', 'none')}.{environment.get('SLURM_STEP_ID', '0')}",
        restarted=_number(environment, "SLURM_RESTART_COUNT", 0) > 0,
    )


def _slurm_size(environment: Mapping[str, str]) -> int | None:
    """How many tasks srun started. A batch script has SLURM_NTASKS too, where nobody started any."""
    if "SLURM_STEP_NUM_TASKS" in environment:
        return _number(environment, "SLURM_STEP_NUM_TASKS")
    if "SLURM_NTASKS" in environment and {"SLURM_STEP_ID", "MASTER_ADDR"} & environment.keys():
        return _number(environment, "SLURM_NTASKS")
    return None


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    value = environment.get(name)
    if value is None and default is not None:
        return default
    if value is None or not (value.isascii() and value.isdigit()):
        raise ConfigError(f"{name}: {value!r} in the environment is no number; let torchrun or srun set it.")
    return int(value)


def _check_port(environment: Mapping[str, str]) -> None:
    port = _number(environment, "MASTER_PORT")
    if not 0 < port < 2**16:
        raise ConfigError(f"MASTER_PORT: {port} in the environment is no port; it must be 1 to 65535.")


def _repeated(tasks: str) -> list[int]:
    """Slurm's "2(x3),1" as [2, 2, 2, 1]."""
    found: list[int] = []
    for part in re.finditer(r"(\d+)(?:\(x(\d+)\))?", tasks):
        found += [int(part[1])] * int(part[2] or 1)
    return found


def first_host(nodes: str) -> str:
    """The first name in a node list of Slurm's: "gpu[03-07,12],login" gives "gpu03"."""
    name = nodes.split(",")[0]
    prefix, bracket, rest = name.partition("[")
    return prefix + re.split(r"[-\],]", rest)[0] if bracket else name


def _parent() -> tuple[str, int, float] | None:
    import psutil

    with suppress(psutil.Error):
        parent = psutil.Process(os.getppid())
        return socket.gethostname(), parent.pid, parent.create_time()
    return None


def tell_torch(world: World, environment: MutableMapping[str, str]) -> None:
    """Set what a rank reads of its place: where srun started the ranks all of it, elsewhere what not every launcher sets.

    Raises:
        ConfigError: nothing says where they meet, or what does is no port.
    """
    environment.setdefault("LOCAL_RANK", str(world.local_rank))
    if world.launcher != "srun":
        return
    nodes = environment.get("SLURM_STEP_NODELIST", environment.get("SLURM_JOB_NODELIST"))
    if "MASTER_ADDR" not in environment and not nodes:
        raise ConfigError("MASTER_ADDR: neither it nor SLURM_JOB_NODELIST is in the environment; set it to rank 0's machine.")
    environment.setdefault("MASTER_ADDR", first_host(nodes or ""))
    job = environment.get("SLURM_JOB_ID", "")
    environment.setdefault("MASTER_PORT", str(_FIRST_PORT + (int(job) if job.isdigit() else 0) % _PORTS))
    _check_port(environment)
    environment.update({"RANK": str(world.rank), "WORLD_SIZE": str(world.size), "LOCAL_RANK": str(world.local_rank)})
    environment["GROUP_RANK"] = environment.get("SLURM_NODEID", "0")


def fitted(config: RunConfig, world: World) -> RunConfig | None:
    """`config` for the ranks of `world`; `None` where this one process trains as if nobody had started it.

    Raises:
        ConfigError: the two do not fit.
    """
    devices = parse_device(config.device)
    # One process alone, as in an interactive shell of srun's, is no group: it may start one.
    if world.size == 1 and (config.strategy != "ddp" or (isinstance(devices, tuple) and len(devices) > 1)):
        return None
    started = f"{world.launcher} started {world.size} processes"
    if config.strategy not in ("auto", "ddp"):
        raise ConfigError(f"strategy: {started}, and {config.strategy} trains in one; use ddp.")
    if config.rdzv_endpoint is not None:
        raise ConfigError(f"nnodes: {started}; leave nnodes and rdzv_endpoint out, which start processes themselves.")
    if isinstance(devices, tuple) and len(devices) != world.local_size:
        one = "cpu" if "cpu" in devices else "cuda:{}"
        fitting = short(",".join(one.format(index) for index in range(world.local_size)))
        here = started if world.local_size == world.size else f"{started}, {world.local_size} on this machine"
        raise ConfigError(f"device: {short(config.device)!r} names {len(devices)}, and {here}; name one for each, {fitting}, or use auto.")
    return with_changes(config, {"strategy": "ddp"})


def earlier_run(runs_dir: Path, world: World) -> Path | None:
    """The folder of the run that the same ranks had begun when they were started before; rank 0 asks."""
    if world.rank or not os.path.isdir(runs_dir):
        return None
    for path in sorted(runs_dir.glob(f"*/{NOTE}"), reverse=True):
        try:
            note = msgspec.json.decode(path.read_bytes(), type=_Note)
        except (OSError, msgspec.MsgspecError):
            continue
        same_launcher = world.parent is not None and note.parent == world.parent
        if same_launcher or (world.restarted and world.job is not None and note.job == world.job):
            return path.parent
    return None


class Silent:
    """A printer that prints nothing: rank 0 tells of the run."""

    def __init__(self) -> None:
        self.out = sys.stdout

    def show(self, batch: Sequence[Event], record: RunRecord | None = None) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing is open."""


class Words:
    """What ranks say beside the run's events: rank 0 as any run, each other one to a file of its own in the run folder.

    What such a rank says before the run has a folder is kept until then, and comes on stderr when it fails without one.

    Args:
        world: whose rank this is.
        session: hosts the run.
    """

    def __init__(self, world: World, session: Session) -> None:
        self._world, self._session = world, session
        self._joined = world.rank == 0
        self._begun = False
        self._phase: str | None = None
        self._late: threading.Timer | None = None
        if world.rank:
            self._stderr = os.dup(2)
            # Where the process prints, until its end.
            self._early = tempfile.TemporaryFile()  # noqa: SIM115
            self._send_to(self._early.fileno())
        session.subscribe(self._hear)

    def close(self, code: int) -> None:
        """The process will end with `code`."""
        self._expect(None)
        sys.stdout.flush()
        sys.stderr.flush()
        if not self._joined and code == 2 and self._world.local_rank:
            # What is refused is refused on all ranks of a machine, and the first end of one makes the launcher end all: the first one
            # speaks for them. Who is still here after that says it too.
            time.sleep(_FIRST_SPEAKS_SECONDS)
        if not self._joined and code in (1, 2):
            self._early.seek(0)
            with open(self._stderr, "wb", closefd=False) as stderr:
                stderr.write(b"".join(b"rank %d: " % self._world.rank + line for line in self._early))

    def _hear(self, batch: Sequence[Event]) -> None:
        """From the recorder's thread."""
        for event in batch:
            if isinstance(event, (RunStarted, Joined)):
                self._begun = True
                self._expect(None)
            elif isinstance(event, Progress) and not self._begun:
                self._expect(event.phase)
            if isinstance(event, RunStarted) and self._session.record is not None and self._session.record.path is not None:
                with suppress(OSError):  # a restart then begins a new run
                    note = _Note(self._world.job, self._world.parent)
                    write_atomically(self._session.record.path / NOTE, msgspec.json.encode(note))
            elif isinstance(event, Joined) and not self._joined:
                self._join(Path(event.folder) / LOGS)

    def _expect(self, phase: str | None) -> None:
        """Say that `phase` takes long, unless the next one comes in time: a log file would not tell which rank is missed."""
        if phase == self._phase:
            return
        self._phase = phase
        if self._late is not None:
            self._late.cancel()
            self._late = None
        if phase is not None:
            who = f"rank {self._world.rank} of {self._world.size}"
            sentence = clean(f"tuitrain: {who} is still {phase}, after {_LATE_SECONDS:g} s.")
            self._late = threading.Timer(_LATE_SECONDS, self._say, (sentence,))
            self._late.daemon = True
            self._late.start()

    def _say(self, sentence: str) -> None:
        """A line on what was standard error from the first."""
        with suppress(OSError):
            if self._world.rank:
                os.write(self._stderr, f"{sentence}\n".encode())
            else:
                print(sentence, file=sys.stderr, flush=True)

    def _join(self, folder: Path) -> None:
        if not os.path.isdir(folder.parent):
            return  # on another machine, with a disk of its own
        with suppress(OSError):
            folder.mkdir(exist_ok=True)
            log = os.open(folder / f"rank-{self._world.rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            self._early.seek(0)
            os.write(log, self._early.read())
            self._send_to(log)
            os.close(log)
            self._joined = True

    def _send_to(self, descriptor: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)

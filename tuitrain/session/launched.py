"""A run whose ranks torchrun or srun started: this process is one of them, and rank 0 hosts the run.

On the others a session hears no `RunStarted`: only which run the rank has joined, and how that ended.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tuitrain.config import ConfigError, RunConfig, parse_device, with_changes
from tuitrain.device_names import short
from tuitrain.files import write_atomically
from tuitrain.runs.process import Process, process_of

if TYPE_CHECKING:
    pass

NOTE = "launched.json"
"""The file in a run's folder that says who started its ranks."""
END_SECONDS = 20.0
"""How long a rank that was interrupted may be silent: torchrun and srun kill what is left after 30 s."""
_FIRST_PORT, _PORTS = 20000, 10000


@dataclass(frozen=True)
class World:
    """This process's place among those that the launcher started.

    Attributes:
        launcher: "torchrun", "srun" or "the launcher", for sentences.
        local_rank, local_size: its number on its machine, and how many are there.
        job: the launcher's own name for what it started; `None` where it has none.
        parent: the launcher's process, where it starts processes again that died.
        restarted: the launcher says that this is not its first start.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    job: str | None = None
    parent: Process | None = None
    restarted: bool = False


class Note(msgspec.Struct, frozen=True):
    """What is kept in the run's folder, so that the ranks go on with this run when they are started again."""

    job: str | None
    parent: Process | None

    def keep(self, folder: Path) -> None:
        """Write it into the run's folder; raises OSError."""
        write_atomically(folder / NOTE, msgspec.json.encode(self))


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
        parent=process_of(os.getppid()) if elastic else None,
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
            note = msgspec.json.decode(path.read_bytes(), type=Note)
        except (OSError, msgspec.MsgspecError):
            continue
        same_launcher = world.parent is not None and note.parent == world.parent
        if same_launcher or (world.restarted and world.job is not None and note.job == world.job):
            return path.parent
    return None

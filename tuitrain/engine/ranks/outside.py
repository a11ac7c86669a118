"""Training in a process that torchrun or srun started as one rank of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import msgspec
import torch
import torch.distributed as dist

from tuitrain.config import ConfigError, RunConfig, parse_device
from tuitrain.engine.control import Control, Interrupted
from tuitrain.engine.failures import first_line
from tuitrain.engine.group import Group, is_lost_peer
from tuitrain.engine.placement import cuda_count
from tuitrain.engine.ranks.interfaces import interface_of, own_address_towards
from tuitrain.engine.ranks.world import World
from tuitrain.events import Event, Progress, RunEnded, reached


def train_as_rank(config: RunConfig, control: Control, *, local_size: int) -> Iterator[Event]:
    """As `train`, on rank 0; for the others see `World.events`. Torch's variables say which rank this is, and where all meet.

    Args:
        config: its device names those of this machine, one for each of its ranks, or is auto: a GPU for each rank, or the CPU.
        control: the host's side.
        local_size: how many ranks this machine has.

    Raises:
        ConfigError: before `RunStarted`: the configuration, the device, the data or the model cannot be trained with.
    """
    local_rank = int(os.environ["LOCAL_RANK"])
    names = _devices(config.device, local_size)
    config = msgspec.structs.replace(config, device=",".join(names))
    address = os.environ["MASTER_ADDR"]
    _choose_interface(address, alone=local_size == int(os.environ["WORLD_SIZE"]))
    yield Progress(phase=f"waiting for the other ranks at {address}:{os.environ['MASTER_PORT']}")
    step = 0
    try:
        world = World(config, control, torch.device(names[local_rank % len(names)]))
        _check_apart(world.group)
        for event in world.events():
            step = reached(step, event)
            yield event
        dist.destroy_process_group()
    except Interrupted:
        yield RunEnded(state="interrupted", step=0)
    except Exception as error:
        if not is_lost_peer(error):
            raise
        yield RunEnded(state="failed", step=step, error=f"another rank has gone: {first_line(error)}.")


def _devices(spec: str, local_size: int) -> tuple[str, ...]:
    """The devices of this machine's ranks; one alone where the launcher lets each process see no other GPU than its own."""
    wanted = parse_device(spec)
    if isinstance(wanted, tuple):
        return wanted
    count = cuda_count()
    if count == 0:
        return ("cpu",) * local_size
    if 1 < count < local_size:
        raise ConfigError(f"device: {local_size} processes were started on this machine, and torch sees {count} GPUs; start one for each.")
    return ("cuda:0",) if count == 1 else tuple(f"cuda:{index}" for index in range(local_size))


def _check_apart(group: Group) -> None:
    """Raises: ConfigError, on every rank: two of them have the same GPU."""
    own = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid) if dist.get_backend() == "nccl" else None
    seen: dict[str, int] = {}
    for rank, uuid in enumerate(group.gather(own)):
        if uuid in seen:
            ranks = f"ranks {seen[uuid]} and {rank}"
            raise ConfigError(f"device: {ranks} have the same GPU, {group.devices[rank]}; start one process for each GPU.")
        if uuid is not None:
            seen[uuid] = rank


def _choose_interface(address: str, *, alone: bool) -> None:
    """A machine's own name often leads nowhere, or elsewhere: let gloo take the interface that leads to the others."""
    if alone:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
        return
    try:
        interface = interface_of(own_address_towards(address))
    except OSError as error:
        raise ConfigError(f"MASTER_ADDR: {address!r} cannot be reached from this machine: {error.strerror or error}.") from None
    if interface is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)

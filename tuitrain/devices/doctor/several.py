"""Checks of what stops two GPUs after the count is right."""

from __future__ import annotations

from tuitrain.devices.doctor.facts import Facts
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject

MEMORY = Subject("shared-memory", "Shared memory", "the size of /dev/shm in /proc/self/mountinfo")
NCCL = Subject("nccl", "NCCL", "torch.distributed.is_nccl_available() in a fresh process")
PEERS = Subject("peer-access", "GPU to GPU", "torch.cuda.can_device_access_peer() for every pair")
ENOUGH = 512 << 20


def _several(facts: Facts) -> bool:
    return (facts.torch.count or 0) > 1


def shared_memory(facts: Facts) -> Check | None:
    """A container's 64 MB of it, which NCCL and data workers outgrow."""
    size = facts.system.shared_memory
    if not _several(facts):
        return None
    if size is None or size >= ENOUGH:
        return MEMORY.ok("large enough" if size is None else f"{size / (1 << 20):,.0f} MiB")
    program = "podman" if facts.system.container == "Podman" else "docker"
    return MEMORY.warning(
        f"{size / (1 << 20):,.0f} MiB, a container's default: NCCL and data workers need more and then fail with a bus error or hang",
        f"Start the container with: `{program} run --shm-size=8g IMAGE`, or with --ipc=host."
        if facts.system.container
        else "`sudo mount -o remount,size=8G /dev/shm`; where this is a container after all, start it with --shm-size=8g.",
    )


def nccl(facts: Facts) -> Check | None:
    """The library through which GPUs add up their gradients."""
    failed = facts.torch.failed or ""
    if "libnccl" in failed:
        return NCCL.problem(
            f"torch cannot load NCCL: {failed[:200]}",
            f"`{facts.python} -m pip install --force-reinstall torch`, which brings the nvidia-nccl that fits.",
        )
    if not _several(facts) or facts.torch.nccl is None:
        return None
    if facts.torch.nccl:
        return NCCL.ok("it can be loaded")
    return NCCL.warning(
        "this torch comes without NCCL, so the strategy ddp cannot use several GPUs; split and dp can",
        f"`{facts.python} -m pip install --force-reinstall torch`; the builds for Linux have it.",
    )


def peer_access(facts: Facts) -> Check | None:
    """Whether cards read one another's memory; both answers are healthy."""
    if not _several(facts) or facts.torch.peer is None:
        return None
    how = "the GPUs read one another's memory directly" if facts.torch.peer else "the GPUs talk through the main memory, which is slower"
    return PEERS.ok(f"{how}; whether they really can: tuitrain doctor --all-reduce")

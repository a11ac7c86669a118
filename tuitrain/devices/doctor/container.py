"""Checks of what a container, a cgroup or a file's permissions let through to this process."""

from __future__ import annotations

import errno

from tuitrain.devices.doctor.driver import CONTAINER_AGAIN, LAST_LINES
from tuitrain.devices.doctor.facts import Facts, Node
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject, cards

CONTAINER = Subject("container", "Container", "the marks of a container, /dev/nvidia*, and NVIDIA_VISIBLE_DEVICES")
NODES = Subject("device-nodes", "Device files", "opening every /dev/nvidia0, /dev/nvidia1, …")
_DOCKER = "docker run --gpus all IMAGE"
_COMMANDS = {
    "Docker": _DOCKER,
    "Podman": "podman run --device nvidia.com/gpu=all IMAGE",
    "Apptainer": "apptainer exec --nv IMAGE COMMAND",
}
_KUBERNETES = "limits: {nvidia.com/gpu: 1} in the pod's resources"
_NOT_ASKED = ("", "void", "none")


def container(facts: Facts) -> Check | None:
    """Whether a container got the machine's GPUs."""
    system, kind = facts.system, facts.system.container
    if kind is None:
        return None
    on_host = max(len(system.nvidia), len(system.known or ()))
    given = max(system.openable, len(facts.cards))
    if not on_host and not given and facts.refused:
        return CONTAINER.ok(f"{kind}; which GPUs its machine has cannot be seen from here")
    if not on_host and not given:
        return CONTAINER.ok(f"{kind}, on a machine without an NVIDIA GPU")
    if given:
        rest = f" of {on_host}; start it with all of them to use more: {_give(kind)}" if on_host > given else ""
        return CONTAINER.ok(f"{kind}, which was given {cards(given)}{rest}")
    if system.nodes:
        # The device files are here and closed: that is the next check's.
        return CONTAINER.ok(f"{kind}; the device files of {cards(len(system.nodes))} are in it")
    return _nothing_given(facts, kind, on_host)


def _nothing_given(facts: Facts, kind: str, on_host: int) -> Check:
    found = (
        f"this is {kind if kind.startswith('a ') else f'a container ({kind})'}, and none of the machine's {cards(on_host)} was given to it"
    )
    if facts.environ.get("NVIDIA_VISIBLE_DEVICES", "") not in _NOT_ASKED:
        toolkit = "Install the NVIDIA Container Toolkit on the host if it is missing, and start the container with: "
        return CONTAINER.problem(f"{found}, though NVIDIA_VISIBLE_DEVICES asks for some", toolkit + _give(kind, "`"))
    if facts.torch.cuda:
        return CONTAINER.warning(found, f"If GPUs are wanted here, start it with: {_give(kind, '`')}")
    return CONTAINER.ok(found)


def _give(kind: str, mark: str = "") -> str:
    """What gives a container of this kind the GPUs, between marks where it is a command."""
    return _KUBERNETES if kind == "Kubernetes" else f"{mark}{_COMMANDS.get(kind, _DOCKER)}{mark}"


def device_nodes(facts: Facts) -> Check | None:
    """Whether this process may open the cards it can see."""
    system = facts.system
    closed = [node for node in system.nodes if node.error]
    if closed:
        return _closed(facts, closed)
    if system.wsl or system.container or not system.known:
        return NODES.ok(f"{cards(system.openable)} may be opened") if system.openable else None
    there = {node.name for node in system.nodes}
    missing = [minor for _, minor in system.known if minor is not None and f"nvidia{minor}" not in there]
    if missing and not facts.batch_system:
        names = [f"/dev/nvidia{minor}" for minor in missing]
        return NODES.problem(f"the driver has a card whose device file is missing: {', '.join(names)}", _make(missing))
    share = f": {facts.batch_system} gave this job {len(there)} of {len(system.known)}" if missing else ""
    return NODES.ok(f"{cards(system.openable)} may be opened{share}")


def _make(minors: list[int]) -> str:
    return "`" + " && ".join(f"sudo nvidia-modprobe -u -c={minor}" for minor in minors) + "`"


def _closed(facts: Facts, closed: list[Node]) -> Check:
    names = ", ".join(f"/dev/{node.name}" for node in closed)
    errors = {node.error for node in closed}
    system = facts.system
    if errors == {errno.EPERM}:
        if facts.batch_system and system.openable:
            return NODES.ok(
                f"{facts.batch_system} gave this job {cards(system.openable)} of {len(system.nodes)}; the others are closed to it"
            )
        if system.container and system.openable:
            return NODES.ok(f"the container was given {cards(system.openable)} of {len(system.nodes)}; the others are closed to it")
        return NODES.problem(f"a cgroup denies {names} to this process (operation not permitted)", _open_cgroup(facts))
    if errors == {errno.EACCES}:
        return NODES.problem(
            f"this user may not open {names} (permission denied)",
            "`sudo usermod -aG video,render $USER`, then log in again; or ask the administrator.",
        )
    if errors == {errno.ETIMEDOUT}:
        return NODES.problem("opening the device files hangs", f"A driver that hangs needs a reboot; read why with: {LAST_LINES}")
    return NODES.problem(
        f"{names} cannot be opened (input/output error): the driver could not wake the card",
        f"Read why with: {LAST_LINES}; then reboot.",
    )


def _open_cgroup(facts: Facts) -> str:
    if facts.batch_system:
        return f"Ask {facts.batch_system} for a GPU" + (
            ", such as: `srun --gres=gpu:1 --pty bash`" if facts.batch_system == "Slurm" else "."
        )
    if facts.system.container:
        return CONTAINER_AGAIN
    return "Add DeviceAllow=char-nvidia* rw to the service or slice this runs in, or start it outside of it."

"""Reads the hardware, the driver and the container from /proc, /sys and /dev under a root folder."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tuitrain.devices.doctor.bounded import within
from tuitrain.devices.doctor.facts import NVIDIA, Adapter, Node, SystemFacts
from tuitrain.text import clean

DISPLAY_CLASS = 0x03
NVSWITCH_CLASS = 0x0680
OPEN_SECONDS = 1.5
LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64")
DAEMONS = ("nv-fabricmanager", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
COMM_LENGTH = 15
"""The kernel cuts the names of processes here."""

_VERSION = re.compile(r"(?:Kernel Module|for \S+)\s+(?:for \S+\s+)?(\d+\.\d+(?:\.\d+)?)")
_LIBRARY = re.compile(r"\.so\.(\d+\.\d+(?:\.\d+)?)$")
_CONTAINER_GROUP = re.compile(r"(docker|kubepods|libpod|containerd|lxc|garden)")


def read_system(root: Path, environ: Mapping[str, str]) -> SystemFacts:
    """What `root` (the machine's own "/", or a copy of parts of it) says. What cannot be read is left out."""
    devices = _pci_devices(root / "sys/bus/pci/devices")
    driver = _text(root / "proc/driver/nvidia/version")
    modules = frozenset(line.partition(" ")[0] for line in _text(root / "proc/modules").splitlines())
    return SystemFacts(
        adapters=None if devices is None else tuple(adapter for adapter, kind in devices if kind >> 8 == DISPLAY_CLASS),
        switches=sum(adapter.vendor == NVIDIA and kind == NVSWITCH_CLASS for adapter, kind in devices or ()),
        module_loaded=bool(driver) or (root / "sys/module/nvidia").is_dir(),
        module_version=_module_version(root, driver),
        known=_known(root / "proc/driver/nvidia/gpus"),
        nodes=within(OPEN_SECONDS, lambda: _nodes(root / "dev"), _unanswered(root / "dev")),
        uvm=_node(root / "dev/nvidia-uvm"),
        modules=modules,
        libraries=_libraries(root),
        compat_paths=_compat_paths(root, environ),
        container=_container(root, environ),
        wsl=(root / "dev/dxg").exists() or "microsoft" in _text(root / "proc/version").lower(),
        dxg=(root / "dev/dxg").exists(),
        wsl_library=(root / "usr/lib/wsl/lib/libcuda.so.1").exists(),
        daemons=_daemons(root / "proc"),
        distribution=_distribution(root),
        shared_memory=_shared_memory(_text(root / "proc/self/mountinfo")),
    )


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _pci_devices(folder: Path) -> list[tuple[Adapter, int]] | None:
    """Every device with its class (base and subclass), `None` where there is no such bus to read."""
    if not folder.is_dir():
        return None
    found = []
    for entry in _entries(folder):
        vendor, kind = _hexadecimal(entry / "vendor"), _hexadecimal(entry / "class")
        if vendor is not None and kind is not None:
            link = entry / "driver"
            driver = clean(os.path.basename(os.path.realpath(link))) if link.exists() or link.is_symlink() else None
            found.append((Adapter(slot=clean(entry.name), vendor=vendor, driver=driver), kind >> 8))
    return found


def _hexadecimal(path: Path) -> int | None:
    try:
        return int(_text(path).strip(), 16)
    except ValueError:
        return None


def _module_version(root: Path, driver: str) -> str | None:
    found = _VERSION.search(driver)
    if found:
        return found[1]
    return clean(_text(root / "sys/module/nvidia/version").strip()) or None


def _known(folder: Path) -> tuple[tuple[str, int | None], ...] | None:
    if not folder.is_dir():
        return None
    return tuple((clean(entry.name), _minor(_text(entry / "information"))) for entry in _entries(folder))


def _minor(information: str) -> int | None:
    found = re.search(r"Device Minor:\s*(\d+)", information)
    return int(found[1]) if found else None


def _node_paths(dev: Path) -> list[Path]:
    names = [path for path in _entries(dev) if re.fullmatch(r"nvidia\d+", path.name)]
    return sorted(names, key=lambda path: int(path.name[len("nvidia") :]))


def _nodes(dev: Path) -> tuple[Node, ...]:
    return tuple(node for path in _node_paths(dev) if (node := _node(path)) is not None)


def _unanswered(dev: Path) -> tuple[Node, ...]:
    return tuple(Node(name=path.name, error=errno.ETIMEDOUT) for path in _node_paths(dev))


def _node(path: Path) -> Node | None:
    """The device file, opened as CUDA does: a cgroup that denies it says so only then. `None` where it is missing."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Node(name=path.name, error=error.errno or errno.EIO)
    return Node(name=path.name, error=0)


def _libraries(root: Path) -> tuple[str, ...]:
    names = (path for folder in LIBRARY_FOLDERS for path in _glob(root / folder))
    return tuple(sorted({found[1] for path in names if (found := _LIBRARY.search(path.name))}))


def _glob(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from folder.glob("libnvidia-ml.so.*")
        yield from folder.glob("libcuda.so.*")


def _compat_paths(root: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Folders with CUDA's forward-compatibility library that the loader looks into."""
    folders = environ.get("LD_LIBRARY_PATH", "").split(":")
    for conf in _entries(root / "etc/ld.so.conf.d"):
        folders += [line.strip() for line in _text(conf).splitlines()]
    return tuple(dict.fromkeys(clean(folder) for folder in folders if re.search(r"cuda[^/]*/compat", folder)))


def _container(root: Path, environ: Mapping[str, str]) -> str | None:
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        return "Apptainer"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    if (root / ".dockerenv").exists():
        return "Docker"
    if (root / "run/.containerenv").exists():
        return "Podman"
    named = environ.get("container") or _text(root / "run/systemd/container").strip()
    if named and "wsl" not in named.lower():
        return clean(named)
    return "a container" if _CONTAINER_GROUP.search(_text(root / "proc/1/cgroup")) else None


def _daemons(proc: Path) -> frozenset[str]:
    names = {_text(entry / "comm").strip() for entry in _entries(proc) if entry.name.isdecimal()}
    return frozenset(daemon for daemon in DAEMONS if daemon[:COMM_LENGTH] in names)


def _distribution(root: Path) -> tuple[str, ...]:
    lines = dict(line.split("=", 1) for line in _text(root / "etc/os-release").splitlines() if "=" in line)
    words = f"{lines.get('ID', '')} {lines.get('ID_LIKE', '')}".replace('"', " ").split()
    return tuple(clean(word) for word in words)


def _shared_memory(mountinfo: str) -> int | None:
    """The size that /dev/shm was given; one without is half of the memory, which is enough."""
    size = None
    for line in mountinfo.splitlines():
        fields = line.split()
        if len(fields) > 6 and fields[4] == "/dev/shm":
            found = re.search(r"(?:^|,)size=(\d+)([kmg]?)", fields[-1])
            size = int(found[1]) * {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[found[2]] if found else None
    return size

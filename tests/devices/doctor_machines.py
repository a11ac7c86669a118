"""Machines for the doctor: folders that look like /proc, /sys, /dev and /etc of one, with what NVML and torch say there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from pasted_commands import assert_pasteable

from tuitrain.devices.doctor import diagnosis
from tuitrain.devices.doctor.facts import Facts, LogoutFacts, StorageFacts, TerminalFacts, TorchDevice, TorchFacts, Versions
from tuitrain.devices.doctor.model import Check, Report
from tuitrain.devices.doctor.surroundings import read_logout, read_storage
from tuitrain.devices.doctor.system import read_system
from tuitrain.devices.nvml import sentence
from tuitrain.devices.samples import DeviceSample, DeviceSnapshot, HostSample

NVIDIA, INTEL, AMD, ASPEED = 0x10DE, 0x8086, 0x1002, 0x1A03
HOST = HostSample(name="A CPU", cores=8, cpu_percent=1.0, ram_used=1 << 30, ram_total=1 << 34)
DRIVER = "580.95.05"
NO_LIBRARY = sentence(12)
TERMINAL = TerminalFacts(is_one=True, columns=120, rows=40, term="tmux-256color", colorterm="truecolor", locale="C.UTF-8", tmux=True)


def put(root: Path, path: str, text: str = "") -> None:
    """A file of the machine."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def pci(root: Path, slot: str, vendor: int, kind: int = 0x030000, driver: str | None = None) -> None:
    """A device on the bus; `driver` is the kernel module that has it."""
    folder = f"sys/bus/pci/devices/{slot}"
    put(root, f"{folder}/vendor", f"0x{vendor:04x}\n")
    put(root, f"{folder}/class", f"0x{kind:06x}\n")
    if driver is not None:
        module = root / "sys/bus/pci/drivers" / driver
        module.mkdir(parents=True, exist_ok=True)
        (root / folder / "driver").symlink_to(module)


def slot(number: int) -> str:
    return f"0000:{number + 0x11:02x}:00.0"


def cards_on_bus(root: Path, count: int, driver: str | None = "nvidia") -> None:
    for number in range(count):
        pci(root, slot(number), NVIDIA, 0x030200, driver)


def loaded_driver(root: Path, count: int, version: str = DRIVER) -> None:
    """The kernel module, which knows `count` cards, and its libraries."""
    put(root, "proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build\n")
    put(root, "proc/modules", "nvidia_uvm 1 0 - Live 0x0\nnvidia 1 3 - Live 0x0\n")
    (root / "proc/driver/nvidia/gpus").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        put(root, f"proc/driver/nvidia/gpus/{slot(number)}/information", f"Model: \t A GPU\nDevice Minor: \t {number}\n")
    put(root, f"usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}")
    put(root, f"usr/lib/x86_64-linux-gnu/libcuda.so.{version}")


def device_files(root: Path, *numbers: int, uvm: bool = True) -> None:
    for number in numbers:
        put(root, f"dev/nvidia{number}")
    put(root, "dev/nvidiactl")
    if uvm:
        put(root, "dev/nvidia-uvm")


def bare_metal(root: Path, count: int = 2) -> Path:
    """A server with a board's own display adapter and `count` cards, all well."""
    pci(root, "0000:00:1f.0", INTEL, 0x060100)
    pci(root, "0000:05:00.0", ASPEED, driver="ast")
    cards_on_bus(root, count)
    loaded_driver(root, count)
    device_files(root, *range(count))
    put(root, "etc/os-release", 'ID=ubuntu\nID_LIKE="debian"\n')
    put(root, "proc/self/mountinfo", "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw\n")
    put(root, "proc/4242/comm", "bash\n")
    return root


def card(number: int, **fields: Any) -> DeviceSample:
    """A card as NVML has it."""
    known = {
        "cuda_index": number,
        "uuid": f"GPU-{number}{number}",
        "pci_bus_id": f"0000{slot(number)}",
        "name": "NVIDIA H100",
        "mig": False,
    }
    return DeviceSample(nvml_index=number, **{**known, **fields})


def snapshot(
    *devices: DeviceSample, error: str | None = None, driver: str | None = DRIVER, cuda: str | None = "13.0", **fields: Any
) -> DeviceSnapshot:
    """What NVML says."""
    known: dict[str, Any] = {"taken": time.monotonic(), "stalled_seconds": 0.0} | fields
    return DeviceSnapshot(time=time.time(), devices=devices, host=HOST, driver_version=driver, cuda_version=cuda, error=error, **known)


def two_cards(**fields: Any) -> DeviceSnapshot:
    return snapshot(card(0, **fields), card(1, **fields))


def no_driver(error: str = NO_LIBRARY) -> DeviceSnapshot:
    return snapshot(error=error, driver=None, cuda=None)


def torch_with(count: int, **fields: Any) -> TorchFacts:
    """A torch that works, with `count` GPUs."""
    device = TorchDevice(name="NVIDIA H100", capability=(9, 0), error="")
    known: dict[str, Any] = {
        "version": "2.13.0+cu130",
        "cuda": "13.0",
        "nccl": True,
        "count": count,
        "started": True,
        "architectures": ("sm_80", "sm_90", "sm_100"),
        "devices": (device,) * count,
        "peer": True if count > 1 else None,
    }
    return TorchFacts(**{**known, **fields})


def torch_refused(said: str, count: int = 0, **fields: Any) -> TorchFacts:
    """A torch whose CUDA does not start, with what it said."""
    return torch_with(count, started=False, start_error=said, devices=(), peer=None, **fields)


def torch_for_cpu() -> TorchFacts:
    return TorchFacts(version="2.13.0+cpu", count=0, started=False)


def facts_of(
    root: Path,
    seen: DeviceSnapshot,
    torch: TorchFacts,
    environ: Mapping[str, str] | None = None,
    *,
    terminal: TerminalFacts = TERMINAL,
    storage: StorageFacts | None = None,
    logout: LogoutFacts | None = None,
    versions: Versions | None = None,
) -> Facts:
    environ = environ or {}
    return Facts(
        snapshot=seen,
        environ=environ,
        system=read_system(root, environ),
        torch=torch,
        terminal=terminal,
        storage=storage or read_storage(root, root),
        logout=logout or read_logout(root, "alice"),
        versions=versions or Versions(tuitrain="1.0", python="3.12.1", system="Linux 6.8"),
    )


def diagnose(facts: Facts) -> Report:
    """The report, of which each command can be pasted into a shell."""
    report = diagnosis.diagnose(facts)
    for check in report.checks:
        assert_pasteable(check)
    return report


def report_on(*arguments: Any, **options: Any) -> Report:
    """The report on a machine; the arguments are those of `facts_of`."""
    return diagnose(facts_of(*arguments, **options))


def with_closed_nodes(facts: Facts, error: int, *numbers: int) -> Facts:
    """The same machine, where opening these device files fails: tests run as root, to whom the kernel denies nothing."""
    nodes = tuple(
        msgspec.structs.replace(node, error=error) if node.name in {f"nvidia{number}" for number in numbers} else node
        for node in facts.system.nodes
    )
    return msgspec.structs.replace(facts, system=msgspec.structs.replace(facts.system, nodes=nodes))


def named(report: Report, check: str) -> Check:
    """The check of this name."""
    return next(one for one in report.checks if one.check == check)


def wrong(report: Report) -> dict[str, str]:
    """The names of the checks that are not "ok", with their verdicts."""
    return {check.check: check.verdict for check in report.checks if check.verdict != "ok"}


def numbers(report: Report) -> list[int | None]:
    """The ladder's counts."""
    return [count.count for count in report.counts]

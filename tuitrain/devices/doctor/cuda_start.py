"""Checks of why CUDA does not start although the driver lists the cards."""

from __future__ import annotations

import re

from tuitrain.devices.doctor.counting import left_by_variable
from tuitrain.devices.doctor.driver import LAST_LINES
from tuitrain.devices.doctor.facts import Facts
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject

UVM = Subject("uvm", "Unified memory module", "/dev/nvidia-uvm and /proc/modules")
FABRIC = Subject("fabric-manager", "Fabric manager", "NVSwitches on the PCI bus, the process nv-fabricmanager, and what CUDA said")
COMPAT = Subject("compat-library", "CUDA compatibility library", "LD_LIBRARY_PATH, /etc/ld.so.conf.d, and what CUDA said")
_SHORTER_PATH = r"export LD_LIBRARY_PATH=$(echo $LD_LIBRARY_PATH | tr : '\n' | grep -v 'cuda[^/]*/compat' | paste -sd :)"
_SHORTER_CONF = r"sudo sed -i '/cuda[^/]*\/compat/d' /etc/ld.so.conf.d/*.conf && sudo ldconfig"
START = Subject("cuda-start", "Start of CUDA", "torch.cuda.init() in a fresh process")


def _error_number(facts: Facts) -> int | None:
    found = re.search(r"[Ee]rror (\d{1,4}):", facts.torch.complaint)
    return int(found[1]) if found else None


def fabric_manager(facts: Facts) -> Check | None:
    """Machines with NVSwitches need a service before CUDA starts."""
    system = facts.system
    runs = "nv-fabricmanager" in system.daemons
    if _error_number(facts) == 802 or "system not yet initialized" in facts.torch.complaint:
        state = "it runs, but the NVLink fabric is not ready" if runs else "the fabric manager does not run"
        return FABRIC.problem(
            f"CUDA says 802, system not yet initialized: {state}",
            f"`sudo systemctl {'restart' if runs else 'enable --now'} nvidia-fabricmanager`; its version must be the driver's exactly.",
        )
    if not system.switches:
        return None
    if runs or system.container or facts.torch.started:
        return FABRIC.ok(f"{system.switches} NVSwitches, and {'the fabric manager runs' if runs else 'CUDA starts'}")
    if facts.torch.cuda is None and system.module_loaded:
        return FABRIC.warning(
            f"{system.switches} NVSwitches, but the fabric manager does not run, and CUDA may not start without it",
            "`sudo systemctl enable --now nvidia-fabricmanager`",
        )
    return None


def compat_library(facts: Facts) -> Check | None:
    """CUDA's forward-compatibility library, taken where the card or the driver does not allow it."""
    paths = facts.system.compat_paths
    number = _error_number(facts)
    words = facts.torch.complaint.lower()
    if (
        number in (803, 804)
        or "unsupported display driver / cuda driver combination" in words
        or "forward compatibility was attempted" in words
    ):
        where = f", from {', '.join(paths)}" if paths else ""
        return COMPAT.problem(f"CUDA says {number or 803}: its library does not fit the driver{where}", _without_compat(facts))
    if not paths:
        return None
    return COMPAT.ok(f"{', '.join(paths)} is in the loader's path, and CUDA does not complain of it")


def _without_compat(facts: Facts) -> str:
    paths = facts.system.compat_paths
    if not paths:
        return "Reboot if the driver was just updated; else look for a second libcuda with: `ldconfig -p | grep libcuda`"
    if any(path in facts.environ.get("LD_LIBRARY_PATH", "").split(":") for path in paths):
        return f"Take the folder out of the loader's path: `{_SHORTER_PATH}`; for good, remove the package cuda-compat."
    return f"Remove the package cuda-compat; or take the folder out of the loader's path: `{_SHORTER_CONF}`"


def uvm(facts: Facts) -> Check | None:
    """The module without which nvidia-smi works and CUDA does not."""
    system = facts.system
    if system.uvm is not None or system.wsl or not (system.module_loaded and system.openable):
        return UVM.ok("/dev/nvidia-uvm is there") if system.uvm is not None and not system.uvm.error else _closed_uvm(facts)
    if facts.torch.started:
        return UVM.ok("CUDA starts without /dev/nvidia-uvm in sight")
    loaded = "nvidia_uvm" in system.modules
    if facts.torch.started is False and facts.torch.cuda:
        found = "the module nvidia_uvm is loaded, but /dev/nvidia-uvm is missing" if loaded else "the module nvidia_uvm is not loaded"
        if system.container:
            return UVM.problem(
                "/dev/nvidia-uvm is not in this container: nvidia-smi works without it, CUDA does not",
                "On the host: `sudo nvidia-modprobe -u -c=0`; then start the container again, with --gpus all or --device /dev/nvidia-uvm",
            )
        return UVM.problem(
            f"{found}: nvidia-smi works without it, CUDA does not", "`sudo nvidia-modprobe -u -c=0`, or: `sudo modprobe nvidia_uvm`"
        )
    return UVM.ok("/dev/nvidia-uvm is made when the first CUDA program starts")


def _closed_uvm(facts: Facts) -> Check | None:
    if facts.system.uvm is None or facts.torch.started or not facts.torch.cuda:
        return None
    return UVM.problem("/dev/nvidia-uvm is there but cannot be opened", "Give it to the container or cgroup: --device /dev/nvidia-uvm")


def cuda_start(facts: Facts) -> Check | None:
    """CUDA starts, or it says something that none of the other checks knows."""
    torch = facts.torch
    if torch.started:
        return START.ok("CUDA starts")
    left = left_by_variable(facts).count
    if torch.started is None or not torch.cuda or left == 0 or (left is None and not facts.gpu_in_reach):
        return None
    said = torch.start_error or "nothing"
    if _error_number(facts) == 999:
        return START.problem(
            "CUDA says 999, unknown error, as it does after the machine slept",
            "`sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm`; or reboot.",
        )
    return START.problem(f"CUDA does not start: {said[:240]}", f"Reboot if it stays so; read why with: {LAST_LINES}")

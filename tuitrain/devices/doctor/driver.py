"""Checks of the NVIDIA driver: is it there, loaded, of one version with its libraries, and does it answer."""

from __future__ import annotations

from tuitrain.devices import nvml
from tuitrain.devices.doctor.facts import Adapter, Facts
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject, cards

DRIVER = Subject("driver", "NVIDIA driver", "/proc/driver/nvidia/version, /proc/modules, the libraries on disk, and NVML")
UNBOUND = Subject("unbound-card", "Cards without the driver", "the kernel driver of every NVIDIA card on the PCI bus")
WSL = Subject("wsl", "WSL 2", "/dev/dxg and /usr/lib/wsl/lib")
MISMATCH_MEND = (
    "Reboot; or stop everything that uses the GPUs and run: "
    "`sudo modprobe -r nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo modprobe nvidia`"
)
LAST_LINES = "`sudo dmesg | grep -i -e nvrm -e xid`"
CONTAINER_AGAIN = (
    "Start the container again: `docker restart NAME`; against it happening again, give each card to it with --device /dev/nvidia0, or "
    "set native.cgroupdriver=cgroupfs in Docker's daemon.json."
)
"""systemd takes a container's devices away when it reloads."""
_FOR_VIRTUAL_MACHINES = ("vfio-pci", "pci-stub", "xen-pciback")
_INSTALL = {
    "ubuntu": "`sudo ubuntu-drivers install`, then reboot.",
    "debian": "`sudo apt install nvidia-driver`, which is in the section non-free, then reboot.",
    "fedora": "`sudo dnf install akmod-nvidia`, which is in RPM Fusion, then reboot.",
    "arch": "`sudo pacman -S nvidia-open`, then reboot.",
}
_STAY_AWAKE = "to keep them awake: sudo nvidia-smi -pm 1"


def driver(facts: Facts) -> Check:
    """The driver as a whole, and why NVML does not answer if it does not."""
    system = facts.system
    if mismatched(facts):
        return _mismatch(facts)
    if facts.snapshot.stalled_seconds > 0 or (facts.snapshot.taken is None and not facts.snapshot.error):
        return _hangs(facts)
    if facts.cards and not facts.snapshot.error:
        speaks = f", for CUDA up to {facts.snapshot.cuda_version}" if facts.snapshot.cuda_version else ""
        asleep = any(card.persistence is False for card in facts.cards) and not system.wsl
        sleep = f"; persistence mode is off, so a card that nobody uses takes seconds to wake ({_STAY_AWAKE})" if asleep else ""
        return DRIVER.ok(f"{version(facts) or 'of an unknown version'}{speaks}, and it answers{sleep}")
    if system.wsl:
        return DRIVER.ok("under WSL 2 the driver is the one of Windows")
    taken_away = all(card.driver in _FOR_VIRTUAL_MACHINES for card in system.nvidia)
    if not system.module_loaded and taken_away and not facts.cards and not system.nodes and not facts.refused:
        return DRIVER.ok("there is no NVIDIA card for it here" if system.nvidia else "there is no NVIDIA card here, so none is needed")
    if system.container and not system.nodes and not facts.refused:
        return DRIVER.ok("the driver belongs to the host of this container, which gave it no GPU")
    return _not_answering(facts) if system.module_loaded or facts.refused else _not_loaded(facts)


def version(facts: Facts) -> str | None:
    """The driver's version, from NVML or from the kernel module."""
    return facts.snapshot.driver_version or facts.system.module_version


def mismatched(facts: Facts) -> bool:
    """The driver on disk is another version than the one loaded."""
    if _nvml_says(facts, nvml.LIB_RM_VERSION_MISMATCH):
        return True
    system = facts.system
    differs = system.module_version is not None and len(system.libraries) == 1 and system.libraries[0] != system.module_version
    # CUDA says 803 too where its compatibility library is in the way; that one is on disk beside the driver's own.
    return differs and not facts.cards and not system.container


def _nvml_says(facts: Facts, code: int) -> bool:
    return nvml.sentence(code) in (facts.snapshot.error or "")


def _mismatch(facts: Facts) -> Check:
    system = facts.system
    loaded, on_disk = system.module_version, " and ".join(system.libraries)
    versions = f": the kernel has {loaded}, the libraries are {on_disk}" if loaded and on_disk else ""
    if system.container:
        return DRIVER.problem(
            f"driver/library version mismatch: the host's driver was updated after this container started{versions}",
            "Start the container again; if that does not help, reboot the host.",
        )
    return DRIVER.problem(f"driver/library version mismatch: the driver was updated while it was loaded{versions}", MISMATCH_MEND)


def _hangs(facts: Facts) -> Check:
    seconds = facts.snapshot.stalled_seconds
    how_long = f" for {seconds:.0f} s" if seconds else ""
    return DRIVER.problem(
        f"NVML has not answered{how_long}: a call into the driver hangs, often after a GPU failed",
        f"Look for an Xid number with: {LAST_LINES}; then reboot, nothing less frees a driver that hangs.",
    )


def _not_loaded(facts: Facts) -> Check:
    system = facts.system
    how_many = f"{cards(len(system.nvidia))} on the PCI bus" if system.nvidia else "no NVIDIA card on the PCI bus"
    if any(card.driver == "nouveau" for card in system.nvidia) or ("nouveau" in system.modules and system.nvidia):
        return DRIVER.problem(
            f"{how_many}, but the open driver nouveau has it, which cannot do CUDA; NVIDIA's own is not loaded", install(facts)
        )
    if system.libraries:
        return DRIVER.problem(
            f"{how_many}; the driver {' and '.join(system.libraries)} is installed but its kernel module is not loaded",
            "`sudo modprobe nvidia`; if that fails, read why with: `sudo dmesg | tail`; after an update of the kernel: "
            "`sudo dkms autoinstall`; Secure Boot refuses unsigned modules, and whether it is on says: `mokutil --sb-state`",
        )
    return DRIVER.problem(f"{how_many}, but no NVIDIA driver is installed", install(facts))


def install(facts: Facts) -> str:
    """How to install the driver on this distribution."""
    known = next((_INSTALL[word] for word in facts.system.distribution if word in _INSTALL), None)
    return known or "Install the NVIDIA driver of your distribution (https://www.nvidia.com/drivers), then reboot."


def _not_answering(facts: Facts) -> Check:
    """The module is loaded and NVML gives no cards."""
    error = facts.snapshot.error or ""
    loaded = f"the kernel module {facts.system.module_version or 'nvidia'} is loaded"
    if _nvml_says(facts, nvml.LIBRARY_NOT_FOUND):
        if facts.system.container:
            return DRIVER.problem(
                f"{loaded} and the devices are here, but the driver's library libnvidia-ml.so.1 is not in this container",
                "Start the container with: `docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility IMAGE`",
            )
        return DRIVER.problem(
            f"{loaded}, but its library libnvidia-ml.so.1 is not found", f"Install the driver's libraries: {install(facts)}"
        )
    if _nvml_says(facts, nvml.UNKNOWN):
        return DRIVER.problem(
            "NVML says Unknown Error: this container lost its GPUs, as happens when systemd reloads on the host"
            if facts.system.container
            else "NVML says Unknown Error: the driver is in a state it does not leave by itself",
            CONTAINER_AGAIN if facts.system.container else f"Reboot; before that, read why with: {LAST_LINES}",
        )
    if _nvml_says(facts, nvml.BINDING_MISSING):
        return DRIVER.warning(f"{loaded}, but the Python package that asks it is missing", f"`{facts.python} -m pip install nvidia-ml-py`")
    if not error:
        return DRIVER.problem(f"{loaded}, and lists no GPU", f"Read why with: {LAST_LINES}")
    return DRIVER.problem(f"{loaded}, but {error}", f"Reboot if it stays so; before that, read why with: {LAST_LINES}")


def unbound_card(facts: Facts) -> Check | None:
    """Cards on the bus that the loaded driver does not have."""
    known = {slot.lower() for slot, _ in facts.system.known or ()}
    if not facts.system.module_loaded or facts.system.container or facts.system.known is None:
        return None
    missing = [card for card in facts.system.nvidia if card.slot.lower() not in known]
    given = [card for card in missing if card.driver in _FOR_VIRTUAL_MACHINES]
    lost = [card for card in missing if card not in given]
    if lost:
        return UNBOUND.problem(
            f"the driver does not have {_named(lost)}: too old for this driver, too new for it, or faulty (power cable, slot)",
            f"Read why with: {LAST_LINES}",
        )
    if given:
        return UNBOUND.ok(f"{_named(given)} is set aside for virtual machines, and CUDA here cannot use it")
    return None


def _named(adapters: list[Adapter]) -> str:
    named = [f"the card at {card.slot}" + (f" (it has {card.driver})" if card.driver else "") for card in adapters]
    return " and ".join(named)


def wsl(facts: Facts) -> Check | None:
    """What Windows must give to WSL 2."""
    system = facts.system
    if not system.wsl:
        return None
    if not system.dxg:
        return WSL.ok("Windows gives this Linux no GPU (/dev/dxg is missing); if it has one: wsl --update and wsl --shutdown in PowerShell")
    if not system.wsl_library:
        found = "Windows gives a GPU (/dev/dxg), but /usr/lib/wsl/lib/libcuda.so.1 is missing: Windows has no NVIDIA driver, or an old one"
        if not facts.torch.cuda:
            # Most laptops have an integrated GPU only, which looks the same from here.
            return WSL.ok(found)
        return WSL.warning(
            found,
            "If the GPU is NVIDIA's: install its newest driver on Windows, and start WSL anew, which ends all that runs in it: "
            "`wsl.exe --update; wsl.exe --shutdown`",
        )
    if system.libraries and facts.torch.started is False:
        return WSL.problem(
            f"a Linux driver ({' and '.join(system.libraries)}) is installed beside the one that Windows gives, and hides it",
            "WSL needs the driver on Windows only; remove this one: `sudo apt purge 'nvidia-*' 'libnvidia-*'`",
        )
    return WSL.ok("the GPU and its library come from Windows")

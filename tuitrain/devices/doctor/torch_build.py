"""Checks of the installed torch: is it there, is it built for this driver and these cards, is it safe."""

from __future__ import annotations

import re

from tuitrain.devices.doctor.driver import LAST_LINES, version
from tuitrain.devices.doctor.facts import Facts, TorchDevice
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject
from tuitrain.kernels import has_kernels

TORCH = Subject("torch", "torch", "a fresh Python process that imports torch")
BUILD = Subject("torch-build", "torch's build", "torch.version.cuda")
AGE = Subject("driver-age", "Driver and torch's CUDA", "the newest CUDA the driver speaks, torch.version.cuda, and what CUDA said")
ARCHITECTURE = Subject("architecture", "Architecture of the cards", "torch.cuda.get_device_capability() and get_arch_list()")
SAFETY = Subject("torch-version", "torch's version", "torch.__version__")
PYNVML = Subject("pynvml", "Package pynvml", "the installed Python packages")

SAFE = (2, 10)
_WHEELS = "https://download.pytorch.org/whl"
_OLDEST_DRIVERS = {
    450: "11.0", 455: "11.1", 460: "11.2", 465: "11.3", 470: "11.4", 495: "11.5", 510: "11.6", 515: "11.7", 520: "11.8", 525: "12.0",
    530: "12.1", 535: "12.2", 545: "12.3", 550: "12.4", 555: "12.5", 560: "12.6", 565: "12.7", 570: "12.8", 575: "12.9", 580: "13.0",
    590: "13.1", 595: "13.2",
}  # fmt: skip
"""The first driver branch that speaks each CUDA, for machines on which NVML cannot say it."""
_NEEDS = {11: "450", 12: "525", 13: "580"}
"""The oldest driver branch for each major CUDA: within one, a driver runs every build."""


def torch(facts: Facts) -> Check | None:
    """Whether torch can be imported at all."""
    found = facts.torch
    if not found.installed:
        return TORCH.problem("torch is not installed for this Python", pip_torch(facts))
    if found.hung_at == "import torch":
        # A cold disk of a network can take this long on a machine that is well.
        return TORCH.warning(
            f"import torch had not ended after {found.hung_seconds:.0f} s: a disk or network folder that hangs, or a very slow machine",
            f'Try it by itself: `{facts.python} -X importtime -c "import torch"`; if it only is slow the first time, ask the doctor again.',
        )
    if found.hung_at is not None:
        return _hung_later(facts, found.hung_at)
    if found.failed and not found.asked:
        return TORCH.warning(found.failed, "Start tuitrain with the Python that it was installed for.")
    if found.failed:
        again = pip_torch(facts, again=True)
        if facts.environ.get("LD_LIBRARY_PATH"):
            again = (
                f"LD_LIBRARY_PATH is set and may bring in libraries of another version: `unset LD_LIBRARY_PATH`; if it is not that: {again}"
            )
        return TORCH.problem(f"torch is installed but broken: {found.failed}", again)
    return TORCH.ok(f"{found.version} can be imported") if found.version else None


def _hung_later(facts: Facts, step: str) -> Check:
    seconds = facts.torch.hung_seconds
    if seconds < 3.0 or facts.torch.started:
        return TORCH.ok(f"{facts.torch.version} can be imported; the time ended at: {step}")
    return TORCH.problem(
        f"torch hangs at: {step} (for {seconds:.0f} s)",
        f"A driver that hangs needs a reboot; read why with: {LAST_LINES}",
    )


def driver_cuda(facts: Facts) -> tuple[int, int] | None:
    """The newest CUDA that the driver speaks."""
    known = _numbers(facts.snapshot.cuda_version)
    if known is not None:
        return known
    driver = _numbers(version(facts))
    if driver is None:
        return None
    fitting = [cuda for branch, cuda in _OLDEST_DRIVERS.items() if branch <= driver[0]]
    return _numbers(fitting[-1]) if fitting else (10, 0)


def _numbers(text: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d{1,6})\.(\d{1,6})", text or "")
    return (int(found[1]), int(found[2])) if found else None


def pip_torch(facts: Facts, *, again: bool = False) -> str:
    """The command that installs a torch for this machine's driver, over the one that is there if `again`."""
    options = "--force-reinstall " if again else ""
    return f"`{facts.python} -m pip install {options}torch --index-url {_WHEELS}/{wheel(facts)}`"


def wheel(facts: Facts) -> str:
    """The folder of PyTorch's package index for this machine's driver."""
    if not facts.gpu_in_reach and not facts.refused:
        return "cpu"
    speaks = driver_cuda(facts)
    if speaks is None or speaks >= (13, 0):
        return "cu130"
    if speaks >= (12, 8):
        return "cu128"
    return "cu126" if speaks >= (12, 0) else "cu118"


def build(facts: Facts) -> Check | None:
    """A build for the CPU only, on a machine that has more."""
    found = facts.torch
    if found.version is None:
        return None
    if found.cuda:
        return BUILD.ok(f"{found.version}, for CUDA {found.cuda}")
    if found.hip:
        if facts.gpu_in_reach:
            return BUILD.problem(
                f"{found.version} is built for AMD's ROCm {found.hip}, and the GPU here is NVIDIA's", pip_torch(facts, again=True)
            )
        return BUILD.ok(f"{found.version}, for AMD's ROCm {found.hip}")
    if facts.gpu_in_reach:
        return BUILD.problem(f"torch {found.version} is built for the CPU only, so it never counts a GPU", pip_torch(facts, again=True))
    return BUILD.ok(f"{found.version}, for the CPU only" + ("" if facts.refused else ", which fits this machine"))


def driver_age(facts: Facts) -> Check | None:
    """A driver that is older than torch's build needs."""
    built, speaks = _numbers(facts.torch.cuda), driver_cuda(facts)
    said = "driver on your system is too old" in facts.torch.complaint
    if built is None or (speaks is None and not said):
        return None
    driver = version(facts) or "of this machine"
    if said or (speaks is not None and speaks[0] < built[0] and not facts.torch.started):
        limit = f" speaks CUDA {speaks[0]}.{speaks[1]} at most and" if speaks else ""
        newer = f"update the NVIDIA driver to {_NEEDS.get(built[0], 'the newest')} or newer"
        if speaks is not None and speaks < (12, 0):
            mend = newer[0].upper() + newer[1:] + "; no current torch runs on this one."
        else:
            mend = f"{pip_torch(facts, again=True)}; or {newer}."
        return AGE.problem(f"the driver {driver}{limit} is too old for this torch, built for CUDA {facts.torch.cuda}", mend)
    return AGE.ok(f"the driver {driver} runs torch's CUDA {facts.torch.cuda}")


def architecture(facts: Facts) -> Check | None:
    """Cards that are counted, and for which torch has no kernels."""
    built = facts.torch.architectures
    unfit = [
        (number, device)
        for number, device in enumerate(facts.torch.devices)
        if "no kernel image" in (device.error or "").lower() or (device.error != "" and not has_kernels(device.capability, built))
    ]
    if not unfit:
        return ARCHITECTURE.ok(f"torch has kernels for all of them ({' '.join(built)})") if facts.torch.devices and built else None
    number, device = unfit[0]
    which = f"sm_{device.capability[0]}{device.capability[1]}" if device.capability else "its architecture"
    found = f"cuda:{number} ({device.name}) is {which}, for which this torch has no kernels ({' '.join(built) or 'its list is empty'})"
    return ARCHITECTURE.problem(found, _fitting_wheel(facts, device))


def _fitting_wheel(facts: Facts, device: TorchDevice) -> str:
    command = f"{facts.python} -m pip install --force-reinstall torch --index-url {_WHEELS}"
    if device.capability is not None and device.capability < (7, 5):
        return f"`{command}/cu126`; up to torch 2.14 these builds have kernels for Maxwell, Pascal and Volta."
    speaks = driver_cuda(facts)
    if speaks is not None and speaks < (12, 8):
        return f"Update the NVIDIA driver to 580 or newer, then: `{command}/cu130`"
    return f"`{command}/{'cu128' if speaks is not None and speaks < (13, 0) else 'cu130'}`"


def torch_version(facts: Facts) -> Check | None:
    """A version in which loading a foreign checkpoint can run code."""
    numbers = _numbers(facts.torch.version)
    if numbers is None:
        return None
    if numbers < SAFE:
        return SAFETY.warning(
            f"{facts.torch.version} can be made to run code by a foreign .pt file, also with weights_only (CVE-2026-24747)",
            f'`{facts.python} -m pip install --upgrade "torch>=2.10"`; until then load no file of a stranger.',
        )
    return SAFETY.ok(f"{facts.torch.version}, without the known holes in loading files")


def pynvml(facts: Facts) -> Check | None:
    """The deprecated package that has the name of the module."""
    installed = facts.versions.deprecated_pynvml
    if installed is None:
        return None
    return PYNVML.warning(
        f"the deprecated package pynvml {installed} is installed; its module has the name of nvidia-ml-py's, and torch warns of it",
        f"`{facts.python} -m pip uninstall -y pynvml && {facts.python} -m pip install --force-reinstall nvidia-ml-py`",
    )

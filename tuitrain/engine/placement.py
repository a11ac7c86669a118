"""From `RunConfig.device` to the devices that a run trains on."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

from tuitrain.config import ConfigError, parse_device
from tuitrain.device_names import in_words, short
from tuitrain.engine.failures import first_line
from tuitrain.events import Notice
from tuitrain.kernels import has_kernels
from tuitrain.text import clean

_NONE_LEFT = re.compile(r"No (CUDA|HIP) GPUs are available")


@dataclass(frozen=True)
class Placement:
    """The devices that were taken, one for each replica, and what the person should know about the choice."""

    devices: tuple[torch.device, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def device(self) -> torch.device:
        """The first one: it holds the data, and the parameters that are updated."""
        return self.devices[0]


def place(spec: str, free_cuda_devices: Callable[[], Sequence[int] | None]) -> Placement:
    """Resolve a `device` value, without making a CUDA context.

    Args:
        spec: as `tuitrain.config.parse_device` takes it.
        free_cuda_devices: CUDA ordinals, most free memory first, `None` where nobody knows; asked only for `auto` on a machine with a
            usable GPU.

    Raises:
        ConfigError: it names a GPU that cannot be used or is not there.
    """
    wanted = parse_device(spec)
    if not isinstance(wanted, tuple) or set(wanted) != {"cpu"}:
        _start_driver()
    if isinstance(wanted, tuple):
        return Placement(tuple(_named(name, spec) for name in wanted))
    if not torch.cuda.is_available():
        return Placement((torch.device("cpu"),), (Notice(text=f"Training on the CPU: {_why_no_cuda()}."),))
    count, free = cuda_count(), free_cuda_devices()
    freest = [ordinal for ordinal in dict.fromkeys((*(free or ()), *range(count))) if 0 <= ordinal < count]
    named = [ordinal for ordinal in freest if ordinal in (free or freest)]
    fit = [ordinal for ordinal in freest if count == 1 or _has_kernels(ordinal)]
    # A queued run has waited for those that are named, and may have no others: it is better refused on them.
    usable = [ordinal for ordinal in named if ordinal in fit] or named
    usable += [ordinal for ordinal in fit if ordinal not in named]
    devices = tuple(torch.device("cuda", ordinal) for ordinal in usable[:wanted])
    return Placement(devices, tuple(Notice(text=text) for text in _about(spec, wanted, devices, freest, usable, known=free is not None)))


def _about(
    spec: str, wanted: int | None, devices: Sequence[torch.device], freest: Sequence[int], usable: Sequence[int], *, known: bool
) -> Iterator[str]:
    """What the person should know of the devices that were taken."""
    taken = in_words([str(device) for device in devices])
    if not known and len(devices) < len(usable):
        yield f"Training on {taken}: the NVIDIA driver does not say how much memory is free."
    left = [f"cuda:{ordinal}" for ordinal in freest[:wanted] if ordinal not in usable]
    if left:
        yield f"Training on {taken}: this torch has no kernels for {in_words(left)}; `tuitrain doctor` says which one has."
    if wanted is not None and wanted > len(usable):
        yield f"Training on {taken}: {spec} asks for {wanted} GPUs, and torch {'can use' if left else 'sees'} no more."


def _has_kernels(ordinal: int) -> bool:
    """Without making a context on the card; true where it does not say what it is, which the run then finds out."""
    try:
        return has_kernels(torch.cuda.get_device_capability(ordinal), torch.cuda.get_arch_list())
    except (RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError):
        return True


def _start_driver() -> None:
    """Let the driver start, which takes a second or more where there are many GPUs. torch holds Python's lock meanwhile, so that no key is
    taken; ctypes does not."""
    if torch.version.cuda is not None:
        with suppress(OSError):  # there is none, and torch says so
            ctypes.CDLL("libcuda.so.1").cuInit(0)


def cuda_devices(devices: Sequence[torch.device]) -> list[torch.device]:
    """The GPUs among a run's devices, each once."""
    return [device for device in dict.fromkeys(devices) if device.type == "cuda"]


def _named(name: str, spec: str) -> torch.device:
    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ConfigError(f"device: {short(spec)!r} cannot be used: {_why_no_cuda()}; choose cpu or auto.")
    count = cuda_count()
    ordinal = int(name.removeprefix("cuda:"))
    if ordinal >= count:
        seen = "1 GPU (cuda:0)" if count == 1 else f"{count} GPUs (cuda:0 to cuda:{count - 1})"
        raise ConfigError(f"device: {name!r} is not there: torch sees {seen}; choose one of these, cpu or auto.")
    return torch.device("cuda", ordinal)


def _why_no_cuda() -> str:
    if torch.version.cuda is None and torch.version.hip is None:
        return f"this torch ({torch.__version__}) is built for the CPU only"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError) as error:
        # A driver that does not work is no matter of what the variable hides.
        if visible is None or not _NONE_LEFT.search(str(error)):
            return f"torch cannot use a GPU ({first_line(error)})"
    return "torch sees no GPU" + ("" if visible is None else f" with CUDA_VISIBLE_DEVICES={clean(visible)!r}")


def cuda_count() -> int:
    """How many GPUs there are for CUDA, without making a context; 0 where it cannot be used.

    Until CUDA has started, torch counts the cards that NVML knows; of those in MIG mode CUDA gives a process one instance in all.
    """
    if not torch.cuda.is_available():
        return 0
    count: Callable[[], int] = getattr(torch._C, "_cuda_getDeviceCount", torch.cuda.device_count)
    return count()

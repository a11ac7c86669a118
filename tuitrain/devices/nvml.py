"""The connection to NVML: one door for all calls, with numbered faults, their words, and a clock for the call in progress."""

from __future__ import annotations

import re
import time
from typing import Any

from tuitrain.text import clean

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
LIB_RM_VERSION_MISMATCH = 18
ARGUMENT_VERSION_MISMATCH = 25
UNKNOWN = 999
BINDING_MISSING = -1
"""Not NVML's: the Python package that calls it is not installed."""

MEMORY_V2 = 0x02000028
"""Asks for the memory structure that keeps the driver's reserve apart from what is used."""

_SENTENCES = {
    NO_PERMISSION: "no permission to ask the NVIDIA driver (may this user open /dev/nvidiactl?)",
    DRIVER_NOT_LOADED: "the NVIDIA driver is installed but not loaded (to load it: sudo modprobe nvidia)",
    TIMEOUT: "the NVIDIA driver did not answer in time",
    LIBRARY_NOT_FOUND: "no NVIDIA driver found (libnvidia-ml.so.1 is missing)",
    FUNCTION_NOT_FOUND: "the NVIDIA driver is too old to be asked",
    GPU_IS_LOST: "a GPU has fallen off the bus, and the NVIDIA driver answers nothing more; reboot",
    RESET_REQUIRED: "a GPU needs a reset before the NVIDIA driver answers again; reboot",
    OPERATING_SYSTEM: "the operating system blocks the NVIDIA driver (a container's or cgroup's device rules)",
    LIB_RM_VERSION_MISMATCH: "driver/library version mismatch: the NVIDIA driver was updated while loaded; reboot or reload the driver",
    UNKNOWN: "NVML says Unknown Error, as in a container that lost its GPUs: start the container again",
    BINDING_MISSING: "NVML cannot be asked: the package nvidia-ml-py is not installed",
}


_SCRAMBLED = tuple(f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "Graphics", "MPSCompute"))
"""Drivers from 535.43 on, to 535.104, write them in a longer structure than the library says (nvitop's pull request 79, issue 88): from
the second process on all is wrong, and memory beyond the list is written to. What came before them is right there."""


class NvmlFault(Exception):
    """An NVML call failed with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(sentence(code))
        self.code = code


def sentence(code: int) -> str:
    """What a failed start of NVML means, for a person."""
    return _SENTENCES.get(code, f"the NVIDIA driver does not answer (NVML error {code})")


class Nvml:
    """NVML through pynvml. One thread calls everything here but `waiting_seconds`, which any thread may."""

    def __init__(self) -> None:
        self._pynvml: Any = None
        self._called_at: float | None = None
        self.driver_version: str | None = None
        """As it said when it was connected to."""
        self._scrambles = False

    def waiting_seconds(self) -> float:
        """For how long the call in progress has been running; 0 when none is."""
        called_at = self._called_at
        return 0.0 if called_at is None else time.monotonic() - called_at

    def connect(self) -> None:
        """Load and initialise NVML.

        Raises:
            NvmlFault: it cannot be.
        """
        if self._pynvml is None:
            try:
                import pynvml
            except ImportError:
                raise NvmlFault(BINDING_MISSING) from None
            self._pynvml = pynvml
        self.ask("nvmlInit")
        try:
            self.driver_version = text(self.ask("nvmlSystemGetDriverVersion"))
        except NvmlFault:
            self.driver_version = None
        found = re.match(r"535\.(\d{2,3})\b", self.driver_version or "")
        self._scrambles = found is not None and 43 <= int(found[1]) < 104

    def disconnect(self) -> None:
        """Undo one `connect`; that NVML is gone already is no fault."""
        try:
            self.ask("nvmlShutdown")
        except NvmlFault:
            return

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer of one of pynvml's functions.

        Raises:
            NvmlFault: it failed, this library does not have it or has a wrong one, or the answer is not readable text.
        """
        call = None if self._scrambles and function in _SCRAMBLED else getattr(self._pynvml, function, None)
        if call is None:
            raise NvmlFault(FUNCTION_NOT_FOUND)
        self._called_at = time.monotonic()
        try:
            return call(*arguments)
        except self._pynvml.NVMLError as error:
            raise NvmlFault(int(error.value)) from None
        except UnicodeDecodeError:
            raise NvmlFault(NOT_FOUND) from None
        finally:
            self._called_at = None


def text(value: str | bytes) -> str:
    """A string of NVML's (pynvml gives bytes for some and in some versions) that may be shown."""
    return clean(value.decode(errors="replace") if isinstance(value, bytes) else value)

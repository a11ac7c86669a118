"""Records what the GPUs of this machine say, as a scenario for the stand-in: `python tests/nvml_stub/record.py [SECONDS] > FILE`.

It asks NVML on its own, not through tuitrain, so that a replay tests tuitrain's reading of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pynvml

Ask = Callable[..., Any]

# pynvml's name where the library's own is another one.
_C_NAMES = {
    "nvmlDeviceGetHandleByIndex": "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo": "nvmlDeviceGetPciInfo_v3",
}
# What the stand-in answers where a scenario says nothing.
_UNSAID = {"nvmlDeviceGetProcessUtilization": pynvml.NVML_ERROR_NOT_FOUND}
_ALL_LINKS = 2**32 - 1
_FIELDS = {"energy": 83, "pcie_sent": 197, "pcie_received": 198, "nvlink_sent": (138, _ALL_LINKS), "nvlink_received": (139, _ALL_LINKS)}

# Older bindings have no first one.
_TEMPERATURE = next(name for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature") if hasattr(pynvml, name))

_NUMBERS: dict[str, tuple[Any, ...]] = {
    "temperature": (_TEMPERATURE, 0),
    "power": ("nvmlDeviceGetPowerUsage",),
    "power_cap": ("nvmlDeviceGetEnforcedPowerLimit",),
    "fan": ("nvmlDeviceGetFanSpeed",),
    "performance_state": ("nvmlDeviceGetPerformanceState",),
    "persistence": ("nvmlDeviceGetPersistenceMode",),
    "display": ("nvmlDeviceGetDisplayActive",),
    "compute_mode": ("nvmlDeviceGetComputeMode",),
    "ecc_errors": ("nvmlDeviceGetTotalEccErrors", 1, 0),
    "virtualization": ("nvmlDeviceGetVirtualizationMode",),
    "clock_graphics": ("nvmlDeviceGetClockInfo", 0),
    "clock_sm": ("nvmlDeviceGetClockInfo", 1),
    "clock_memory": ("nvmlDeviceGetClockInfo", 2),
    "clock_graphics_max": ("nvmlDeviceGetMaxClockInfo", 0),
    "clock_memory_max": ("nvmlDeviceGetMaxClockInfo", 2),
    "throttle": ("nvmlDeviceGetCurrentClocksEventReasons",),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration",),
    "pcie_generation_max": ("nvmlDeviceGetMaxPcieLinkGeneration",),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth",),
    "pcie_width_max": ("nvmlDeviceGetMaxPcieLinkWidth",),
}


def record(seconds: int = 1) -> str:
    """The scenario of `seconds` seconds, one value for each; processes are those of the last second."""
    pynvml.nvmlInit()
    try:
        return "\n".join(_lines(seconds)) + "\n"
    finally:
        pynvml.nvmlShutdown()


def _lines(seconds: int) -> list[str]:
    errors: dict[str, None] = {}
    count = pynvml.nvmlDeviceGetCount()
    machine = _asker(None, "", errors)
    driver, cuda = machine("nvmlSystemGetDriverVersion"), machine("nvmlSystemGetCudaDriverVersion_v2")
    fixed = [f"driver {driver or 'unknown'}", f"cuda {cuda or 0}", f"count {count}"]
    series: dict[str, list[str]] = {}
    last: list[str] = []
    for second in range(seconds):
        if second:
            time.sleep(1)
        last = []
        for index in range(count):
            _record_card(index, series, last, errors)
    values = [f"{place} {' '.join(row if len(set(row)) > 1 else row[:1])}" for place, row in series.items()]
    return [*fixed, *values, *last, *errors]


def _record_card(index: int, series: dict[str, list[str]], last: list[str], errors: dict[str, None]) -> None:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        errors[f"error nvmlDeviceGetHandleByIndex_v2 {error.value} {index}"] = None
        return
    ask = _asker(handle, str(index), errors)
    _name(f"card {index}", ask, last)
    for field, value in _values(handle, ask).items():
        series.setdefault(f"card {index} {field}", []).append("-" if value is None else str(value))
    _processes(str(index), ask, last)
    if not (ask("nvmlDeviceGetMigMode") or [0])[0]:
        return
    for place in range(ask("nvmlDeviceGetMaxMigDeviceCount") or 0):
        try:
            instance = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
        except pynvml.NVMLError:
            continue
        ask_instance = _asker(instance, f"{index}.{place}", errors)
        _name(f"instance {index} {place}", ask_instance, last)
        for field, value in _memory(ask_instance).items():
            series.setdefault(f"instance {index} {place} {field}", []).append("-" if value is None else str(value))
        _processes(f"{index}.{place}", ask_instance, last)


def _asker(handle: Any, place: str, errors: dict[str, None]) -> Ask:
    """Asks for one card; `None` for what it does not say. Why is noted, unless it is "not supported", which a value says."""

    def ask(function: str, *arguments: Any) -> Any:
        before = () if handle is None else (handle,)
        try:
            answer = getattr(pynvml, function)(*before, *arguments)
        except pynvml.NVMLError as error:
            if error.value not in (pynvml.NVML_ERROR_NOT_SUPPORTED, _UNSAID.get(function)):
                name = "nvmlDeviceGetMemoryInfo_v2" if pynvml.nvmlMemory_v2 in arguments else _C_NAMES.get(function, function)
                errors[f"error {name} {error.value} {place}"] = None
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    return ask


def _name(place: str, ask: Ask, lines: list[str]) -> None:
    pci = None if place.startswith("instance") else ask("nvmlDeviceGetPciInfo")
    bus = pci and (pci.busId.decode() if isinstance(pci.busId, bytes) else pci.busId)
    for field, value in (("name", ask("nvmlDeviceGetName")), ("uuid", ask("nvmlDeviceGetUUID")), ("pci", bus)):
        if value:
            lines.append(f"{place} {field} {value}")


def _values(handle: Any, ask: Ask) -> dict[str, int | None]:
    rates = ask("nvmlDeviceGetUtilizationRates")
    modes = {field: ask(function) for field, function in (("ecc", "nvmlDeviceGetEccMode"), ("mig", "nvmlDeviceGetMigMode"))}
    return {
        **_memory(ask),
        **{field: ask(*question) for field, question in _NUMBERS.items()},
        **{field: mode and mode[0] for field, mode in modes.items()},
        "utilization": rates and rates.gpu,
        "memory_utilization": rates and rates.memory,
        "nvlink_lanes": _lanes(handle),
        **_counters(ask),
    }


def _memory(ask: Ask) -> dict[str, int | None]:
    memory = ask("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
    reserved = memory.reserved if memory else 0
    memory = memory or ask("nvmlDeviceGetMemoryInfo")
    if memory is None:
        return dict.fromkeys(("memory_total", "memory_used", "memory_reserved"))
    return {"memory_total": memory.total, "memory_used": memory.used, "memory_reserved": reserved}


def _lanes(handle: Any) -> int | None:
    """The stand-in knows only how many there are from the first one on, and calls all of them up."""
    up = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            up += pynvml.nvmlDeviceGetNvLinkState(handle, link)
        except pynvml.NVMLError:
            # The link after the last one.
            break
    return up or None


def _counters(ask: Ask) -> dict[str, int | None]:
    answers = ask("nvmlDeviceGetFieldValues", list(_FIELDS.values()))
    if answers is None:
        return dict.fromkeys(_FIELDS)
    return {field: answer.value.ullVal if answer.nvmlReturn == 0 else None for field, answer in zip(_FIELDS, answers, strict=True)}


def _processes(place: str, ask: Ask, lines: list[str]) -> None:
    if "." not in place:
        for sample in ask("nvmlDeviceGetProcessUtilization", time.time_ns() // 1000 - 1_000_000) or ():
            lines.append(f"share {place} {sample.pid} {sample.smUtil}")
    for kind, word in (("Compute", "compute"), ("Graphics", "graphics"), ("MPSCompute", "mps")):
        for process in ask(f"nvmlDeviceGet{kind}RunningProcesses_v3") or ():
            lines.append(f"process {place} {word} {process.pid} {'-' if process.usedGpuMemory is None else process.usedGpuMemory}")


if __name__ == "__main__":
    sys.stdout.write(record(int(sys.argv[1]) if len(sys.argv) > 1 else 1))

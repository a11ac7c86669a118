"""One card: which it is, and what it says in one round. Each value on its own may be unsupported, and is `None` then."""

from __future__ import annotations

from typing import Any

import msgspec

from tuitrain.devices import nvml
from tuitrain.devices.nvml import Nvml, NvmlFault
from tuitrain.devices.processes import ProcessNames
from tuitrain.devices.samples import DeviceSample, ProcessSample, Status

_TEMPERATURE_GPU = 0

# These say that one question has no answer, not that the card is unwell.
_NO_ANSWER = (
    nvml.NOT_SUPPORTED,
    nvml.NOT_FOUND,
    nvml.FUNCTION_NOT_FOUND,
    nvml.INVALID_ARGUMENT,
    nvml.ARGUMENT_VERSION_MISMATCH,
)
_STATUS: dict[int, Status] = {
    nvml.NO_PERMISSION: "no permission",
    nvml.OPERATING_SYSTEM: "no permission",
    nvml.GPU_IS_LOST: "lost",
    nvml.RESET_REQUIRED: "reset required",
}
_REASONS: dict[Status, str] = {
    "no permission": "this user may not open this card",
    "lost": "this card has fallen off the bus; reboot the machine",
    "reset required": "this card needs a reset (sudo nvidia-smi --gpu-reset -i {index}) or a reboot",
    "unknown error": "the driver says Unknown Error for this card",
}


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """NVML's handle of a card and what never changes about the card."""

    handle: Any
    index: int
    name: str
    uuid: str | None
    pci_bus_id: str | None

    def card(self, status: Status, reason: str | None) -> DeviceSample:
        """The card without any values."""
        return DeviceSample(nvml_index=self.index, uuid=self.uuid, pci_bus_id=self.pci_bus_id, name=self.name, status=status, reason=reason)


def card_status(code: int) -> Status:
    """The word for a card that fails as a whole with NVML's `code`."""
    return _STATUS.get(code, "unknown error")


def card_reason(status: Status, index: int) -> str:
    """The sentence for that word; `index` is NVML's number of the card."""
    return _REASONS.get(status, status).format(index=index)


def open_card(connection: Nvml, index: int) -> Handle:
    """Find the card with NVML's number `index`.

    Raises:
        NvmlFault: this process may not, or the card is gone.
    """
    handle = connection.ask("nvmlDeviceGetHandleByIndex", index)
    ask = _Questions(connection, handle)
    name, uuid, pci = ask("nvmlDeviceGetName"), ask("nvmlDeviceGetUUID"), ask("nvmlDeviceGetPciInfo")
    return Handle(
        handle=handle,
        index=index,
        name=nvml.text(name) if name else "NVIDIA GPU",
        uuid=nvml.text(uuid) if uuid else None,
        pci_bus_id=nvml.text(pci.busId) if pci and pci.busId else None,
    )


def read_card(connection: Nvml, handle: Handle, names: ProcessNames) -> DeviceSample:
    """Everything the card says now. `status` is "ok" where it answers one question and none with being lost or in need of a reset."""
    ask = _Questions(connection, handle.handle)
    total, used, free, unified = _memory(ask)
    rates = ask("nvmlDeviceGetUtilizationRates")
    temperature = ask("nvmlDeviceGetTemperatureV", _TEMPERATURE_GPU)
    if temperature is None:
        temperature = ask("nvmlDeviceGetTemperature", _TEMPERATURE_GPU)
    return DeviceSample(
        nvml_index=handle.index,
        uuid=handle.uuid,
        pci_bus_id=handle.pci_bus_id,
        name=handle.name,
        unified=unified,
        memory_total=total,
        memory_used=used,
        memory_free=free,
        utilization=_percent(rates.gpu) if rates else None,
        memory_utilization=_percent(rates.memory) if rates else None,
        temperature=temperature,
        power=_watts(ask("nvmlDeviceGetPowerUsage")),
        power_cap=_watts(ask("nvmlDeviceGetEnforcedPowerLimit")),
        processes=_processes(ask, names, total),
        status=ask.status(),
    )


class _Questions:
    """One round of questions to one card: `None` for what has no answer, and at the end the word for the card."""

    def __init__(self, connection: Nvml, handle: Any) -> None:
        self._nvml = connection
        self._handle = handle
        self._answered = False
        self._trouble: int | None = None
        self.code = 0

    def __call__(self, function: str, *arguments: Any) -> Any:
        # A lost card takes seconds over each call, so it is asked nothing more.
        if self._trouble in (nvml.GPU_IS_LOST, nvml.RESET_REQUIRED):
            return None
        try:
            answer = self._nvml.ask(function, self._handle, *arguments)
        except NvmlFault as fault:
            self.code = fault.code
            if fault.code not in _NO_ANSWER:
                self._trouble = fault.code
            return None
        self._answered = True
        self.code = 0
        return answer

    def status(self) -> Status:
        if self._trouble in (nvml.GPU_IS_LOST, nvml.RESET_REQUIRED) or (self._trouble is not None and not self._answered):
            return card_status(self._trouble)
        return "ok"


def _memory(ask: _Questions) -> tuple[int | None, int | None, int | None, bool]:
    """Total, used and free, and whether the card has none of its own: NVML then says so, or, on some drivers, that the total is 0."""
    memory = ask("nvmlDeviceGetMemoryInfo", nvml.MEMORY_V2) or ask("nvmlDeviceGetMemoryInfo")
    if memory is None:
        return None, None, None, ask.code == nvml.NOT_SUPPORTED
    if memory.total == 0:
        return None, None, None, True
    return memory.total, memory.used, memory.free, False


def _percent(value: int) -> int | None:
    return value if 0 <= value <= 100 else None


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _processes(ask: _Questions, names: ProcessNames, total: int | None) -> tuple[ProcessSample, ...] | None:
    """The processes on the card, each once; one that both computes and draws is in both of NVML's lists."""
    computing = _listed(ask, "Compute")
    if computing is None:
        return None
    memory: dict[int, int | None] = {}
    for process in (*computing, *(_listed(ask, "Graphics") or ())):
        memory[process.pid] = _believable(process.usedGpuMemory, total)
    return tuple(ProcessSample(pid=pid, memory=used, **names.look_up(pid)) for pid, used in sorted(memory.items()))


def _listed(ask: _Questions, kind: str) -> Any:
    listed = ask(f"nvmlDeviceGet{kind}RunningProcesses_v3")
    return ask(f"nvmlDeviceGet{kind}RunningProcesses_v2") if listed is None and ask.code == nvml.FUNCTION_NOT_FOUND else listed


def _believable(used: int | None, total: int | None) -> int | None:
    """`used`, unless it is more than the card has: drivers of release 535 lay this structure out in another way."""
    return None if used is None or (total is not None and used > total) else used

"""What a card can be asked, field by field. Each answer on its own may be missing, and is `None` then."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tuitrain.devices import nvml
from tuitrain.devices.questions import Questions
from tuitrain.devices.samples import Clocks

_TEMPERATURE_GPU = 0
_GRAPHICS, _SM, _MEMORY = 0, 1, 2
_UNCORRECTED, _VOLATILE = 1, 0
_VGPU_GUEST = 2
_MOST_LANES = 36
_MOST_UNSIGNED = 2**32 - 1
"""NVML's way to say "not available" in a number of 32 bits; for 64 bits it is the same with 64 ones."""

PROHIBITED = "prohibited"
"""The compute mode in which CUDA counts a card and lets nobody use it."""
_EXCLUSIVE = "exclusive"
_COMPUTE_MODES = {0: "default", 1: f"{_EXCLUSIVE} thread", 2: PROHIBITED, 3: f"{_EXCLUSIVE} process"}

_HARDWARE_SLOWDOWN = 0x8
_THROTTLE = {
    0x2: "clocks set by hand",
    0x4: "power cap",
    _HARDWARE_SLOWDOWN: "slowed down by the hardware",
    0x10: "in step with the slowest of its group",
    0x20: "too hot (software)",
    0x40: "too hot (hardware)",
    0x80: "power supply brake",
    0x100: "display clock",
    0x200: "board limit",
    0x400: "reliability limit",
}
_IDLE = 0x1
"""NVML lists it among the reasons, but nothing is held down then."""
_SAYS_WHY = 0x40 | 0x80


class Memory(NamedTuple):
    """Bytes; `unified` says that they are the system's."""

    total: int | None = None
    used: int | None = None
    free: int | None = None
    reserved: int | None = None
    unified: bool = False


class Steady(msgspec.Struct, frozen=True, kw_only=True):
    """What hardly ever changes, named as in `DeviceSample`, `Clocks` and `Link`."""

    power_cap: float | None = None
    persistence: bool | None = None
    display: bool | None = None
    compute_mode: str | None = None
    ecc: bool | None = None
    ecc_errors: int | None = None
    mig: bool | None = None
    graphics_max: int | None = None
    memory_max: int | None = None
    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    width_max: int | None = None
    lanes: int | None = None


def is_exclusive(compute_mode: str | None) -> bool:
    """Whether a card in this mode is for one process at a time."""
    return compute_mode is not None and compute_mode.startswith(_EXCLUSIVE)


def default_mode(cards: str) -> str:
    """The command after which every process may compute on `cards`, NVML's numbers with commas."""
    return f"sudo nvidia-smi -i {cards} -c DEFAULT"


def steady(ask: Questions) -> Steady:
    """Everything that is enough to know every few seconds."""
    ecc = _current(ask("nvmlDeviceGetEccMode"))
    return Steady(
        power_cap=watts(ask("nvmlDeviceGetEnforcedPowerLimit")),
        persistence=_flag(ask("nvmlDeviceGetPersistenceMode")),
        display=_flag(ask("nvmlDeviceGetDisplayActive")),
        compute_mode=_COMPUTE_MODES.get(ask("nvmlDeviceGetComputeMode")),
        ecc=ecc,
        ecc_errors=number(ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)) if ecc else None,
        mig=_current(ask("nvmlDeviceGetMigMode")),
        graphics_max=number(ask("nvmlDeviceGetMaxClockInfo", _GRAPHICS)),
        memory_max=number(ask("nvmlDeviceGetMaxClockInfo", _MEMORY)),
        generation=number(ask("nvmlDeviceGetCurrPcieLinkGeneration")),
        generation_max=number(ask("nvmlDeviceGetMaxPcieLinkGeneration")),
        width=number(ask("nvmlDeviceGetCurrPcieLinkWidth")),
        width_max=number(ask("nvmlDeviceGetMaxPcieLinkWidth")),
        lanes=_lanes(ask),
    )


def memory(ask: Questions) -> Memory:
    """The memory of a card, or the system's where the card has none of its own.

    A card without memory says NOT_SUPPORTED or, on some drivers, a total of 0. NOT_SUPPORTED alone proves nothing: a virtual GPU may say it
    too. It counts as unified unless the card is one, or has a window (BAR1) through which the CPU reaches memory of the card's own.
    """
    own = _own_memory(ask)
    if own is None:
        integrated = ask.code == nvml.NOT_SUPPORTED and not _has_memory_of_its_own(ask)
        return _system_memory() if integrated else Memory()
    return own if own.total != 0 else _system_memory()


def instance_memory(ask: Questions) -> Memory:
    """The memory of a MIG instance, which is always its card's."""
    own = _own_memory(ask)
    return own if own is not None and own.total != 0 else Memory()


def _own_memory(ask: Questions) -> Memory | None:
    """As the card or instance says, with the driver's reserve told apart where the driver can; `ask.code` is why it does not say."""
    answer = ask("nvmlDeviceGetMemoryInfo", nvml.MEMORY_V2)
    reserved = number(answer.reserved) if answer is not None else None
    if answer is None:
        answer = ask("nvmlDeviceGetMemoryInfo")
    return None if answer is None else Memory(number(answer.total), number(answer.used), number(answer.free), reserved)


def _has_memory_of_its_own(ask: Questions) -> bool:
    window = ask("nvmlDeviceGetBAR1MemoryInfo")
    return bool(window and window.bar1Total > 0) or ask("nvmlDeviceGetVirtualizationMode") == _VGPU_GUEST


def _system_memory() -> Memory:
    import psutil

    system = psutil.virtual_memory()
    return Memory(system.total, system.total - system.available, system.available, None, True)


def clocks(ask: Questions, known: Steady) -> Clocks:
    """The clocks now."""
    return Clocks(
        graphics=number(ask("nvmlDeviceGetClockInfo", _GRAPHICS)),
        sm=number(ask("nvmlDeviceGetClockInfo", _SM)),
        memory=number(ask("nvmlDeviceGetClockInfo", _MEMORY)),
        graphics_max=known.graphics_max,
        memory_max=known.memory_max,
    )


def temperature(ask: Questions) -> int | None:
    """°C of the chip."""
    answer = ask("nvmlDeviceGetTemperatureV", _TEMPERATURE_GPU)
    if answer is None:
        answer = ask("nvmlDeviceGetTemperature", _TEMPERATURE_GPU)
    # The newer call has a signed number, in which "not available" is -1.
    return answer if answer is not None and 0 <= answer < 1000 else None


def throttle(ask: Questions) -> tuple[str, ...] | None:
    """Why the clocks are held down, in words; empty where nothing holds them."""
    reasons = ask("nvmlDeviceGetCurrentClocksEventReasons")
    if reasons is None:
        reasons = ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    if number(reasons) is None:
        return None
    if reasons & _SAYS_WHY:
        reasons &= ~_HARDWARE_SLOWDOWN
    words = [word for bit, word in _THROTTLE.items() if reasons & bit]
    other = reasons & ~(_IDLE | sum(_THROTTLE))
    return (*words, f"reason {other:#x}") if other else tuple(words)


def performance_state(ask: Questions) -> str | None:
    """ "P0" (fastest) to "P15"."""
    state = ask("nvmlDeviceGetPerformanceState")
    return f"P{state}" if state is not None and 0 <= state <= 15 else None


def fan(ask: Questions) -> int | None:
    """Percent; makers let it go a little over 100."""
    speed = ask("nvmlDeviceGetFanSpeed")
    return speed if speed is not None and 0 <= speed < 1000 else None


def percent(value: int) -> int | None:
    """`value`, unless it is none."""
    return value if 0 <= value <= 100 else None


def watts(milliwatts: int | None) -> float | None:
    """NVML's milliwatts in W."""
    known = number(milliwatts)
    return None if known is None else known / 1000


def number(value: int | None) -> int | None:
    """`value`, unless it is NVML's mark for "not available"."""
    return None if value is None or value in (_MOST_UNSIGNED, 2**64 - 1) else value


def _flag(value: int | None) -> bool | None:
    return bool(value) if value in (0, 1) else None


def _current(modes: Any) -> bool | None:
    """Of a mode now and after the next reset, the one now."""
    return None if modes is None else _flag(modes[0])


def _lanes(ask: Questions) -> int | None:
    """NVLinks that are up; `None` for a card without any."""
    up: int | None = None
    for link in range(_MOST_LANES):
        state = ask("nvmlDeviceGetNvLinkState", link)
        if state is None:
            break
        up = (up or 0) + bool(state)
    return up

"""What one card says, field by field, and what is left out where it says nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import psutil
import pytest

from tuitrain.devices.cards import CardReader
from tuitrain.devices.fields import steady
from tuitrain.devices.samples import Clocks, DeviceSample, Link

GIB = 2**30
Load = Callable[[str], dict[str, str]]


def card_of(reader: CardReader) -> DeviceSample:
    """The only card."""
    (card,) = reader.sample().devices
    return card


def test_everything_that_nvidia_smi_shows(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(
        """
cuda 13010
count 1
card 0 memory_reserved 1073741824
card 0 fan 104
card 0 performance_state 8
card 0 persistence 0
card 0 display 1
card 0 compute_mode 2
card 0 ecc_errors 3
card 0 energy 5000500
card 0 clock_graphics 345
card 0 clock_sm 346
card 0 clock_memory 2619
card 0 clock_graphics_max 1980
card 0 clock_memory_max 2620
card 0 pcie_generation 1
card 0 pcie_width 8
card 0 nvlink_lanes 12
"""
    )
    sample = reader.sample()
    (card,) = sample.devices
    assert sample.cuda_version == "13.1"
    assert (card.memory_reserved, card.memory_used, card.memory_free) == (GIB, GIB, 78 * GIB)
    assert (card.fan, card.performance_state, card.persistence, card.display) == (104, "P8", False, True)
    assert (card.compute_mode, card.ecc, card.ecc_errors, card.mig) == ("prohibited", True, 3, False)
    assert card.energy == 5000.5
    assert card.clocks == Clocks(graphics=345, sm=346, memory=2619, graphics_max=1980, memory_max=2620)
    assert card.pcie == Link(generation=1, generation_max=5, width=8, width_max=16)
    assert card.nvlink == Link(lanes=12)


def test_a_mode_that_comes_with_the_next_reset_is_not_on_yet() -> None:
    modes = {"nvmlDeviceGetEccMode": [1, 0], "nvmlDeviceGetMigMode": [0, 1], "nvmlDeviceGetTotalEccErrors": 2}
    found = steady(lambda function, *arguments: modes.get(function))
    assert (found.ecc, found.ecc_errors, found.mig) == (True, 2, False)


def silent(value: Any, prefix: str = "") -> Iterator[str]:
    """The dotted names of all fields that are `None`."""
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if isinstance(field, Clocks | Link):
            yield from silent(field, f"{name}.")
        elif field is None:
            yield prefix + name


@pytest.mark.parametrize("code", [3, 4, 13, 999])
@pytest.mark.parametrize(
    ("functions", "fields"),
    [
        ("UtilizationRates", "utilization memory_utilization"),
        ("TemperatureV Temperature", "temperature"),
        ("PowerUsage", "power"),
        ("EnforcedPowerLimit", "power_cap"),
        ("FanSpeed", "fan"),
        ("PerformanceState", "performance_state"),
        ("PersistenceMode", "persistence"),
        ("DisplayActive", "display"),
        ("ComputeMode", "compute_mode"),
        ("EccMode", "ecc ecc_errors"),
        ("TotalEccErrors", "ecc_errors"),
        ("MigMode", "mig"),
        ("ClockInfo", "clocks.graphics clocks.sm clocks.memory"),
        ("MaxClockInfo", "clocks.graphics_max clocks.memory_max"),
        ("CurrentClocksEventReasons CurrentClocksThrottleReasons", "throttle"),
        ("CurrPcieLinkGeneration", "pcie.generation"),
        ("MaxPcieLinkGeneration", "pcie.generation_max"),
        ("CurrPcieLinkWidth", "pcie.width"),
        ("MaxPcieLinkWidth", "pcie.width_max"),
        ("NvLinkState", "nvlink.lanes"),
        ("FieldValues", ""),
        ("FieldValues TotalEnergyConsumption", "energy"),
        ("ComputeRunningProcesses_v3 ComputeRunningProcesses_v2", "processes"),
        ("GraphicsRunningProcesses_v3 MPSComputeRunningProcesses_v3", ""),
        ("UUID", "uuid"),
        ("PciInfo_v3", "pci_bus_id"),
    ],
)
def test_what_one_call_does_not_say_is_none_and_the_rest_goes_on(
    nvml_here: Load, reader: CardReader, functions: str, fields: str, code: int
) -> None:
    nvml_here("count 1\n" + "".join(f"error nvmlDeviceGet{function} {code}\n" for function in functions.split()))
    card = card_of(reader)
    # Of a whole card always; rates need two samples; and each link has its own kind of width.
    always = {"reason", "parent", "instance", "pcie.sent", "pcie.received", "pcie.lanes", "nvlink.sent", "nvlink.received"}
    always |= {f"nvlink.{name}" for name in ("generation", "generation_max", "width", "width_max")}
    assert set(silent(card)) - always == set(fields.split())
    assert card.status == "ok"


@pytest.mark.parametrize("code", [4, 13, 999])
def test_memory_that_nobody_tells_is_unknown_and_not_unified(nvml_here: Load, reader: CardReader, code: int) -> None:
    nvml_here(f"count 1\nerror nvmlDeviceGetMemoryInfo {code}\nerror nvmlDeviceGetMemoryInfo_v2 {code}\n")
    card = card_of(reader)
    assert (card.memory_total, card.memory_used, card.memory_free, card.memory_reserved, card.unified) == (None, None, None, None, False)


@pytest.mark.parametrize(
    "scenario",
    ["card 0 memory_total -\n", "card 0 memory_total -\ncard 0 bar1_total 0\n", "card 0 memory_total 0\ncard 0 memory_used 0\n"],
)
def test_a_card_without_memory_of_its_own_shows_the_systems(nvml_here: Load, reader: CardReader, scenario: str) -> None:
    nvml_here("count 1\n" + scenario)
    card = card_of(reader)
    assert card.unified
    assert card.memory_total == psutil.virtual_memory().total
    assert card.memory_used is not None
    assert card.memory_free is not None
    assert card.memory_used + card.memory_free == card.memory_total
    assert card.utilization == 7


@pytest.mark.parametrize("proof", ["virtualization 2", "bar1_total 268435456"])
def test_a_card_that_must_have_memory_of_its_own_is_not_called_unified(nvml_here: Load, reader: CardReader, proof: str) -> None:
    nvml_here(f"count 1\ncard 0 memory_total -\ncard 0 {proof}\n")
    card = card_of(reader)
    assert (card.unified, card.memory_total) == (False, None)


def test_numbers_that_mean_not_available_are_none(nvml_here: Load, reader: CardReader) -> None:
    fields = """utilization temperature power power_cap fan performance_state ecc_errors clock_graphics clock_sm clock_memory
    clock_graphics_max clock_memory_max pcie_generation pcie_generation_max pcie_width pcie_width_max persistence compute_mode"""
    wide = "throttle energy ecc_errors"
    nvml_here(
        "count 1\n"
        + "".join(f"card 0 {field} 4294967295\n" for field in fields.split())
        + "".join(f"card 0 {field} 18446744073709551615\n" for field in wide.split())
    )
    card = card_of(reader)
    assert (card.utilization, card.temperature, card.power, card.power_cap, card.fan) == (None,) * 5
    assert (card.performance_state, card.ecc_errors, card.throttle, card.energy) == (None,) * 4
    assert (card.persistence, card.compute_mode) == (None, None)
    assert card.clocks == Clocks()
    assert card.pcie == Link()


def test_errors_are_not_counted_while_ecc_is_off(nvml_here: Load, reader: CardReader) -> None:
    nvml_here("count 1\ncard 0 ecc 0\ncard 0 ecc_errors 3\n")
    card = card_of(reader)
    assert (card.ecc, card.ecc_errors) == (False, None)


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0x0, ()),
        (0x1, ()),
        (0x4, ("power cap",)),
        (0x5, ("power cap",)),
        (0x8, ("slowed down by the hardware",)),
        (0x48, ("too hot (hardware)",)),
        (0x88, ("power supply brake",)),
        (0x24, ("power cap", "too hot (software)")),
        (0x10000, ("reason 0x10000",)),
    ],
)
def test_throttle_reasons_are_words(nvml_here: Load, reader: CardReader, reasons: int, words: tuple[str, ...]) -> None:
    nvml_here(f"count 1\ncard 0 throttle {reasons}\n")
    assert card_of(reader).throttle == words


def test_an_older_driver_has_other_names_for_the_same(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(
        """
count 1
card 0 throttle 4
missing nvmlDeviceGetCurrentClocksEventReasons
missing nvmlDeviceGetTemperatureV
missing nvmlDeviceGetFieldValues
missing nvmlSystemGetCudaDriverVersion_v2
missing nvmlDeviceGetMPSComputeRunningProcesses_v3
missing nvmlDeviceGetMPSComputeRunningProcesses_v2
"""
    )
    sample = reader.sample()
    (card,) = sample.devices
    assert (card.throttle, card.temperature, card.energy, sample.cuda_version) == (("power cap",), 35, 123456.789, "12.8")
    assert card.processes == ()


def test_values_follow_the_clock(nvml_here: Load, reader: CardReader) -> None:
    nvml_here("count 1\ncard 0 utilization 10 20 30\n")
    assert card_of(reader).utilization in (10, 20, 30)


def test_a_sample_is_plain_data(nvml_here: Load, reader: CardReader) -> None:
    nvml_here("count 1\nprocess 0 compute 4194305 1\n")
    card = card_of(reader)
    assert msgspec.json.decode(msgspec.json.encode(card), type=DeviceSample) == card

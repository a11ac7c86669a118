"""A recorded machine replayed by the stand-in; and, on a GPU machine, our fields beside nvidia-smi's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvml_stub.fixture import write
from nvml_stub.record import record

from tuitrain.devices import DeviceSample
from tuitrain.devices.cards import CardReader
from tuitrain.devices.nvml import Nvml

Load = Callable[[str], dict[str, str]]

MIXED = """
driver 575.1
cuda 12090
count 3
card 0 name NVIDIA GeForce RTX 4090
card 0 fan 41
card 0 ecc -
card 0 ecc_errors -
card 0 nvlink_lanes -
card 0 pcie_sent -
card 0 throttle 36
card 0 performance_state 8
card 1 mig 1
instance 1 0 name NVIDIA H100 80GB HBM3 MIG 1g.10gb
instance 1 0 memory_total 10200547328
process 0 compute 4194305 18253611008
process 0 graphics 4194305 18253611008
process 0 mps 4194306 -
process 1.0 compute 4194307 1073741824
share 0 4194305 55
error nvmlDeviceGetMemoryInfo_v2 13 0
error nvmlDeviceGetPowerUsage 4 1
error nvmlDeviceGetHandleByIndex_v2 15 2
"""


def test_a_replay_says_what_the_recorded_machine_said(nvml_here: Load, reader: CardReader) -> None:
    environment = nvml_here(MIXED)
    trace = record()
    expected = reader.sample()
    assert [card.status for card in expected.devices] == ["hidden", "hidden", "ok", "lost"]
    # Nothing of the first scenario is left to answer from.
    write(environment, "count 0\n")
    assert reader.sample().devices == ()
    write(environment, trace)
    # A new reader: the first asked already, so that it would have rates.
    replayed = CardReader(Nvml()).sample()
    assert (replayed.driver_version, replayed.cuda_version) == ("575.1", "12.9")
    assert replayed.devices == expected.devices


# -- on a GPU machine -----------------------------------------------------------------------------------------------------

QUERIED = """index uuid pci.bus_id name driver_version temperature.gpu fan.speed pstate power.draw enforced.power.limit memory.total
memory.used memory.reserved utilization.gpu utilization.memory persistence_mode display_active compute_mode ecc.mode.current
ecc.errors.uncorrected.volatile.total clocks.gr clocks.sm clocks.mem clocks.max.gr clocks.max.mem pcie.link.gen.max pcie.link.width.current
pcie.link.width.max mig.mode.current""".split()
UNKNOWN = ("[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[Insufficient Permissions]", "")

EXACT = """uuid pci.bus_id name driver_version persistence_mode display_active compute_mode ecc.mode.current
ecc.errors.uncorrected.volatile.total clocks.max.gr clocks.max.mem pcie.link.gen.max pcie.link.width.max mig.mode.current memory.total
memory.reserved enforced.power.limit""".split()
CLOSE = {
    "temperature.gpu": 4.0,  # °C
    "fan.speed": 10.0,  # percent
    "power.draw": 60.0,  # W: an idle card wakes for the question
    "memory.used": 300.0,  # MiB: whoever asks may hold some for a moment
    "utilization.gpu": 60.0,  # percent: over the last sixth of a second to one second
    "utilization.memory": 60.0,
}
SOMETIMES = ("pstate", "clocks.gr", "clocks.sm", "clocks.mem", "pcie.link.width.current")
"""They jump while a card wakes: only whether they are known is compared."""


def nvidia_smi() -> list[dict[str, str | None]]:
    """Its answer for each card."""
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERIED)}", "--format=csv,noheader,nounits"]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    rows = [[word.strip() for word in line.split(", ")] for line in lines]
    return [{name: None if word in UNKNOWN else word for name, word in zip(QUERIED, row, strict=True)} for row in rows]


def in_its_words(card: DeviceSample, driver: str | None) -> dict[str, Any]:
    """Our card in nvidia-smi's names and units."""

    def switch(value: bool | None, on: str = "Enabled", off: str = "Disabled") -> str | None:
        return None if value is None else on if value else off

    def mib(size: int | None) -> float | None:
        return None if size is None else size / 2**20

    return {
        "uuid": card.uuid,
        "pci.bus_id": card.pci_bus_id,
        "name": card.name,
        "driver_version": driver,
        "temperature.gpu": card.temperature,
        "fan.speed": card.fan,
        "pstate": card.performance_state,
        "power.draw": card.power,
        "enforced.power.limit": card.power_cap,
        "memory.total": mib(card.memory_total),
        "memory.used": mib(card.memory_used),
        "memory.reserved": mib(card.memory_reserved),
        "utilization.gpu": card.utilization,
        "utilization.memory": card.memory_utilization,
        "persistence_mode": switch(card.persistence),
        "display_active": switch(card.display),
        "compute_mode": None if card.compute_mode is None else card.compute_mode.title().replace(" ", "_"),
        "ecc.mode.current": switch(card.ecc),
        "ecc.errors.uncorrected.volatile.total": card.ecc_errors,
        "clocks.gr": card.clocks.graphics,
        "clocks.sm": card.clocks.sm,
        "clocks.mem": card.clocks.memory,
        "clocks.max.gr": card.clocks.graphics_max,
        "clocks.max.mem": card.clocks.memory_max,
        "pcie.link.gen.max": card.pcie.generation_max,
        "pcie.link.width.current": card.pcie.width,
        "pcie.link.width.max": card.pcie.width_max,
        "mig.mode.current": switch(card.mig),
    }


def differences(ours: dict[str, Any], theirs: dict[str, str | None]) -> list[str]:
    """The names on which both do not agree, with both values."""
    found = []
    for name, our in ours.items():
        their = theirs[name]
        if our is None or their is None:
            agree = our is their
        elif name in CLOSE:
            agree = abs(our - float(their)) <= CLOSE[name]
        elif name in EXACT and isinstance(our, (int, float)):
            # Its numbers are rounded to whole MiB, or to two digits.
            agree = abs(our - float(their)) <= 1
        else:
            agree = name in SOMETIMES or str(our).lower() == their.lower()
        if not agree:
            found.append(f"{name}: {our} / {their}")
    return found


def test_differences_are_seen() -> None:
    card = DeviceSample(nvml_index=0, uuid="GPU-1", temperature=40, memory_total=80 * 2**30, persistence=True)
    ours = in_its_words(card, "1.2")
    theirs: dict[str, str | None] = dict.fromkeys(ours) | {
        "uuid": "GPU-1",
        "name": "NVIDIA GPU",
        "temperature.gpu": "42",
        "memory.total": "81920",
        "persistence_mode": "Enabled",
        "driver_version": "1.2",
    }
    assert differences(ours, theirs) == []
    assert differences(ours, theirs | {"temperature.gpu": "45"}) == ["temperature.gpu: 40 / 45"]
    assert differences(ours, theirs | {"fan.speed": "30"}) == ["fan.speed: None / 30"]
    assert differences(ours, theirs | {"persistence_mode": "Disabled"}) == ["persistence_mode: Enabled / Disabled"]


needs_gpu = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs an NVIDIA GPU")


@pytest.mark.gpu
@needs_gpu
def test_our_fields_agree_with_nvidia_smi(monkeypatch: pytest.MonkeyPatch, reader: CardReader) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    theirs = nvidia_smi()
    sample = reader.sample()
    cards = [card for card in sample.devices if card.instance is None]
    assert len(cards) == len(theirs)
    assert [differences(in_its_words(card, sample.driver_version), their) for card, their in zip(cards, theirs, strict=True)] == [[]] * len(
        cards
    )


STILL = "uuid pci_bus_id name memory_total power_cap persistence display compute_mode ecc mig parent instance cuda_index".split()


@pytest.mark.gpu
@needs_gpu
def test_a_trace_of_this_machine_is_read_as_the_machine_is(nvml_here: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    trace = tmp_path / "trace.txt"
    trace.write_text(record())
    real = CardReader(Nvml())
    seen = real.sample()
    real.close()
    nvml_here(trace.read_text())
    replayed = CardReader(Nvml()).sample()
    assert (replayed.driver_version, replayed.cuda_version) == (seen.driver_version, seen.cuda_version)

    def still(card: DeviceSample) -> dict[str, Any]:
        return {name: getattr(card, name) for name in STILL} | {"clocks": card.clocks.graphics_max, "lanes": card.nvlink.lanes}

    assert [still(card) for card in replayed.devices] == [still(card) for card in seen.devices]

"""What is read from NVML, through the real pynvml and a stand-in library."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from nvml_stub.fixture import write

from tuitrain.devices import cards
from tuitrain.devices.cards import CardReader
from tuitrain.devices.nvml import Nvml, NvmlFault

GIB = 2**30
Load = Callable[[str], dict[str, str]]


def test_every_field_of_two_cards(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(
        """
driver 580.65.06
count 2
card 0 memory_used 19327352832
card 0 utilization 83
card 1 name NVIDIA RTX 4090
card 1 utilization 0
process 0 compute 4194305 18253611008
process 0 graphics 4194305 18253611008
process 0 graphics 4194306 -
"""
    )
    sample = reader.sample()
    first, second = sample.devices
    assert (sample.driver_version, sample.error) == ("580.65.06", None)
    assert (first.nvml_index, first.cuda_index, first.status, first.reason) == (0, 0, "ok", None)
    assert (first.name, first.uuid) == ("NVIDIA H100 80GB HBM3", "GPU-00000000-1111-2222-3333-444444444444")
    assert first.pci_bus_id == "00000000:10:00.0"
    assert (first.memory_used, first.memory_total) == (18 * GIB, 80 * GIB)
    assert first.memory_free == 80 * GIB - 18 * GIB - 512 * 2**20
    assert (first.utilization, first.memory_utilization, first.temperature) == (83, 3, 35)
    assert (first.power, first.power_cap) == (90.5, 700.0)
    assert first.processes is not None
    assert [(process.pid, process.memory) for process in first.processes] == [(4194305, 17 * GIB), (4194306, None)]
    assert (second.name, second.utilization, second.cuda_index, second.processes) == ("NVIDIA RTX 4090", 0, 1, ())


def test_functions_missing_in_the_library_fall_back_or_are_none(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(
        """
count 1
missing nvmlDeviceGetMemoryInfo_v2
missing nvmlDeviceGetTemperatureV
missing nvmlDeviceGetComputeRunningProcesses_v3
missing nvmlDeviceGetGraphicsRunningProcesses_v3
missing nvmlDeviceGetPowerUsage
process 0 compute 4194305 1048576
"""
    )
    (card,) = reader.sample().devices
    assert card.status == "ok"
    assert card.memory_used == GIB + 512 * 2**20
    assert card.temperature == 35
    assert [process.pid for process in card.processes or ()] == [4194305]
    assert card.power is None


def test_names_are_cleaned_and_unreadable_ones_replaced(nvml_here: Load, reader: CardReader) -> None:
    environment = nvml_here("count 2\ncard 0 name Evil \x1b[2J[/red] GPU\n")
    with open(environment["TUITRAIN_NVML_SCENARIO"], "ab") as file:
        file.write(b"card 1 name \xff\xfe\n")
    first, second = reader.sample().devices
    assert first.name == "Evil ·[2J[/red] GPU"
    assert (second.name, second.status, second.utilization) == ("NVIDIA GPU", "ok", 7)


@pytest.mark.parametrize(
    ("code", "status"),
    [(15, "lost"), (16, "reset required"), (4, "no permission"), (17, "no permission"), (10, "not responding"), (999, "unknown error")],
)
def test_a_card_that_cannot_be_opened_has_its_word_and_the_others_go_on(
    nvml_here: Load, reader: CardReader, code: int, status: str
) -> None:
    nvml_here(f"count 2\nerror nvmlDeviceGetHandleByIndex_v2 {code} 0\n")
    sample = reader.sample()
    assert [card.status for card in sample.devices] == [status, "ok"]
    assert sample.devices[0].reason
    assert sample.devices[0].utilization is None
    assert sample.devices[1].utilization == 7
    assert sample.error is None


@pytest.mark.parametrize(("code", "status"), [(15, "lost"), (16, "reset required")])
def test_a_card_lost_on_the_way_keeps_its_name_and_comes_back(nvml_here: Load, reader: CardReader, code: int, status: str) -> None:
    environment = nvml_here("count 2\n")
    healthy = reader.sample().devices[1]
    write(environment, f"count 2\nerror nvmlDeviceGetPowerUsage {code} 1\nerror nvmlDeviceGetHandleByIndex_v2 {code} 1\n")
    for _ in range(3):
        lost = reader.sample().devices
        assert [card.status for card in lost] == ["ok", status]
        assert (lost[1].uuid, lost[1].name, lost[1].pci_bus_id, lost[1].cuda_index) == (healthy.uuid, healthy.name, healthy.pci_bus_id, 1)
        assert (lost[1].memory_used, lost[1].temperature, lost[1].processes) == (None, None, None)
    write(environment, "count 2\n")
    assert [card.status for card in reader.sample().devices] == ["ok", "ok"]
    reader.close()
    # Each start was undone before the next one: NVML finds a card again only where it is really initialised anew.
    with pytest.raises(NvmlFault):
        reader._nvml.ask("nvmlDeviceGetCount")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "not loaded"),
        (18, "driver/library version mismatch"),
        (999, "container that lost its GPUs"),
        (4, "no permission"),
        (13, "too old"),
        (77, "NVML error 77"),
    ],
)
def test_a_failed_start_is_one_sentence_and_is_tried_again(nvml_here: Load, reader: CardReader, code: int, words: str) -> None:
    environment = nvml_here(f"count 1\nerror nvmlInitWithFlags {code}\n")
    for _ in range(2):
        sample = reader.sample()
        assert sample.devices == ()
        assert words in str(sample.error)
    write(environment, "count 1\n")
    sample = reader.sample()
    assert ([card.status for card in sample.devices], sample.error) == (["ok"], None)


def test_without_a_driver_the_sentence_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, reader: CardReader) -> None:
    import pynvml

    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", no_library)
    assert reader.sample().error == "no NVIDIA driver found (libnvidia-ml.so.1 is missing)"


@pytest.mark.parametrize("functions", ["nvmlDeviceGetCount_v2 nvmlInitWithFlags", "nvmlDeviceGetCount_v2"])
def test_a_container_that_loses_its_cards_keeps_their_rows_and_says_so(nvml_here: Load, reader: CardReader, functions: str) -> None:
    environment = nvml_here("count 2\n")
    names = [card.key for card in reader.sample().devices]
    write(environment, "count 2\n" + "".join(f"error {function} 999\n" for function in functions.split()))
    for _ in range(3):
        sample = reader.sample()
        assert "container that lost its GPUs" in str(sample.error)
        assert [(card.key, card.status, card.utilization) for card in sample.devices] == [(name, "unknown error", None) for name in names]
    write(environment, "count 2\n")
    assert [(card.key, card.status) for card in reader.sample().devices] == [(name, "ok") for name in names]


def test_a_driver_unloaded_and_loaded_again(nvml_here: Load, reader: CardReader) -> None:
    environment = nvml_here("count 1\n")
    reader.sample()
    os.unlink(environment["TUITRAIN_NVML_SCENARIO"])
    unloaded = reader.sample()
    assert "not loaded" in str(unloaded.error)
    assert [(card.status, card.utilization) for card in unloaded.devices] == [("not responding", None)]
    assert (unloaded.driver_version, unloaded.cuda_version) == (None, None)
    write(environment, "count 1\ndriver 999.1\ncuda 99010\n")
    sample = reader.sample()
    assert (sample.driver_version, sample.cuda_version, [card.status for card in sample.devices]) == ("999.1", "99.1", ["ok"])


def test_a_driver_without_cards_says_so(nvml_here: Load, reader: CardReader) -> None:
    nvml_here("count 0\n")
    sample = reader.sample()
    assert (sample.devices, sample.error) == ((), "the NVIDIA driver is loaded and finds no GPU")


def test_visible_devices_apply_to_what_nvml_lists(nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader) -> None:
    nvml_here("count 3\n")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-00000001")
    listed = reader.sample().devices
    assert [(card.cuda_index, card.status) for card in listed] == [(None, "hidden"), (None, "hidden"), (0, "ok")]
    assert listed[0].utilization == 7


def test_a_first_round_that_fails_is_followed_by_a_new_start(nvml_here: Load, reader: CardReader) -> None:
    environment = nvml_here("count 1\nerror nvmlDeviceGetCount_v2 999\n")
    assert reader.sample().devices == ()
    write(environment, "count 1\n")
    assert [card.status for card in reader.sample().devices] == ["ok"]


def test_new_starts_have_growing_pauses_that_begin_small_after_each_recovery(nvml_here: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(cards.time, "monotonic", lambda: now)
    lost = "count 1\nerror nvmlInitWithFlags 999\nerror nvmlDeviceGetCount_v2 999\n"
    environment = nvml_here(lost)
    reader = CardReader(Nvml())
    starts = []
    monkeypatch.setattr(reader._nvml, "connect", lambda connect=reader._nvml.connect: (starts.append(now), connect()))
    for scenario, rounds, expected in (
        (lost, 200, [0, 1, 3, 7, 15, 31, 63, 123, 183]),
        ("count 1\n", 100, [43]),
        (lost, 20, [1, 2, 4, 8, 16]),
    ):
        write(environment, scenario)
        began = now
        for _ in range(rounds):
            reader.sample()
            now += 1.0
        assert [start - began for start in starts] == expected
        starts.clear()


def test_what_hardly_ever_changes_is_asked_every_five_seconds_and_the_rest_each_round(
    nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(cards.time, "monotonic", lambda: clock[0])
    environment = nvml_here("count 1\n")
    reader.sample()
    write(environment, "count 1\ncard 0 temperature 70\ncard 0 power_cap 300000\ncard 0 compute_mode 3\ncard 0 persistence 0\n")
    seen = []
    for clock[0] in (1001.0, 1004.9, 1005.0):
        (card,) = reader.sample().devices
        seen.append((card.temperature, card.power_cap, card.compute_mode, card.persistence))
    assert seen == [(70, 700.0, "default", True), (70, 700.0, "default", True), (70, 300.0, "exclusive process", False)]


def test_what_never_changes_is_asked_once(nvml_here: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_here("count 1\n")
    connection = Nvml()
    asked: list[str] = []
    monkeypatch.setattr(connection, "ask", lambda function, *rest, ask=connection.ask: (asked.append(function), ask(function, *rest))[1])
    reader = CardReader(connection)
    for _ in range(3):
        reader.sample()
    once = {"nvmlInit", "nvmlSystemGetDriverVersion", "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo"}
    assert {function: asked.count(function) for function in once} == dict.fromkeys(once, 1)
    assert asked.count("nvmlDeviceGetUtilizationRates") == 3
    # It measures for 20 ms inside the call.
    assert "nvmlDeviceGetPcieThroughput" not in asked


def test_a_lost_card_is_asked_nothing_after_the_call_that_says_so(nvml_here: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_here("count 1\nerror nvmlDeviceGetUtilizationRates 15\n")
    connection = Nvml()
    asked: list[str] = []
    monkeypatch.setattr(connection, "ask", lambda function, *rest, ask=connection.ask: (asked.append(function), ask(function, *rest))[1])
    reader = CardReader(connection)
    (card,) = reader.sample().devices
    last = asked[-1]
    reader.close()
    assert (card.status, last) == ("lost", "nvmlDeviceGetUtilizationRates")


def test_many_cards_are_not_all_asked_at_length_in_one_round(nvml_here: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(cards.time, "monotonic", lambda: clock[0])
    nvml_here("count 10\n")
    connection = Nvml()
    asked: list[str] = []
    monkeypatch.setattr(connection, "ask", lambda function, *rest, ask=connection.ask: (asked.append(function), ask(function, *rest))[1])
    reader = CardReader(connection)
    rounds = []
    for _ in range(11):
        asked.clear()
        reader.sample()
        rounds.append(asked.count("nvmlDeviceGetComputeMode"))
        clock[0] += 1.0
    assert rounds == [10] + [2] * 10

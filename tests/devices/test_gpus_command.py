"""`tuitrain gpus`: the promised JSON, the table, and answers in time from machines that are well and unwell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len

from tuitrain.devices import DeviceSample, DeviceSnapshot, HostSample, ProcessSample
from tuitrain.devices.report import as_text

GIB = 2**30
Load = Callable[[str], dict[str, str]]

PROGRAM = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "textual"):
            raise ImportError(f"{name} is broken")
sys.meta_path.insert(0, Broken())
sys.argv = ["tuitrain", "gpus", *sys.argv[1:]]
from tuitrain.cli import main
try:
    main()
finally:
    heavy = {"torch", "textual", "numpy", "sqlite3"} & set(sys.modules)
    assert not heavy, heavy
"""
"""The command in an interpreter in which torch cannot be imported."""


def gpus(environment: dict[str, str], *options: str) -> str:
    """What the command prints."""
    clean = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "COLUMNS")}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *options], env=clean | environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def gpus_json(environment: dict[str, str]) -> dict[str, Any]:
    """What the command prints with --json, which is one line."""
    (line,) = gpus(environment, "--json").splitlines()
    return json.loads(line)


def test_the_promised_fields(nvml: Load) -> None:
    said = gpus_json(nvml(f"count 2\ncard 1 fan -\ncard 1 ecc 0\nprocess 0 compute {os.getpid()} 1048576\nshare 0 {os.getpid()} 64\n"))
    assert said["driver"] == "570.86.15"
    assert said["cuda"] == "12.8"
    assert said["error"] is None
    first, second = said["devices"]
    promised = {
        "nvml_index": 0,
        "cuda_index": 0,
        "uuid": "GPU-00000000-1111-2222-3333-444444444444",
        "pci_bus_id": "00000000:10:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "status": "ok",
        "utilization": {"gpu": 7, "memory": 3},
        "temperature": 35,
        "power": {"draw": 90.5, "cap": 700.0},
        "fan": 30,
        "performance_state": "P0",
        "ecc": 0,
        "compute_mode": "default",
    }
    assert {field: first[field] for field in promised} == promised
    memory = first["memory"]
    assert (memory["used"], memory["free"], memory["total"], memory["unified"]) == (GIB, 79 * GIB - GIB // 2, 80 * GIB, False)
    (process,) = first["processes"]
    assert (process["pid"], process["type"], process["memory"], process["utilization"]) == (os.getpid(), "C", 1048576, 64)
    assert process["name"]
    assert process["user"]
    assert process["age"] > 0
    # What is counted from one look to the next.
    assert process["cpu_percent"] >= 0
    assert (first["pcie"]["sent"], first["pcie"]["received"], first["nvlink"]["sent"]) == (0, 0, 0)
    assert (second["fan"], second["ecc"], second["processes"]) == (None, None, [])


def test_without_a_driver_the_error_says_why() -> None:
    said = gpus_json({})
    if said["driver"] is not None:
        pytest.skip("this machine has a driver")
    assert said["devices"] == []
    assert said["error"] == "no NVIDIA driver found (libnvidia-ml.so.1 is missing)"
    assert said["host"]["cores"] >= 1
    assert 0 <= said["host"]["cpu_percent"] <= 100
    assert "No NVIDIA driver found (libnvidia-ml.so.1 is missing)." in gpus({}).splitlines()


@pytest.mark.parametrize(("code", "words"), [(9, "not loaded"), (18, "version mismatch"), (999, "container that lost its GPUs")])
def test_a_driver_that_does_not_start_is_one_sentence(nvml: Load, code: int, words: str) -> None:
    said = gpus_json(nvml(f"count 1\nerror nvmlInitWithFlags {code}\n"))
    assert said["devices"] == []
    assert words in said["error"]


def test_a_driver_that_hangs_is_not_waited_for(nvml: Load) -> None:
    started = time.monotonic()
    said = gpus_json(nvml("count 1\nhang nvmlDeviceGetUtilizationRates 60\n"))
    # The call hangs for 60 s: whoever waits for it is far over.
    assert time.monotonic() - started < 30
    assert said["devices"] == []
    # The call that hangs is not the first one: those before it take their part of the 5 s.
    assert re.fullmatch("NVML not responding for [345] s", said["error"])


def test_many_slow_calls_are_not_waited_for_either(nvml: Load) -> None:
    code = "from tuitrain.devices import report, sampler; sampler.WAKE_SECONDS = 2.0; print(report.one_sample().error)"
    environment = os.environ | nvml("count 16\nhang nvmlDeviceGetUtilizationRates 0.5\n")
    ended = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "NVML not responding for 2 s\n", "")


LOOKS = """
import sys, threading
from pathlib import Path
from tuitrain.cli.wiring import session_and_sampler
from tuitrain.devices import report
report.WAIT_SECONDS = 0.5
with session_and_sampler(Path("runs"), waits=True) as (session, _):
    for _ in range(3):
        print(session._free_cuda_devices(), sum(thread.name == "nvml-sampler" for thread in threading.enumerate()))
    scenario = Path(sys.argv[1])
    scenario.write_text("count 2\\ncard 0 memory_used 9000000000\\n")
    report.WAIT_SECONDS = 20
    print(session._free_cuda_devices())
"""


def test_a_queued_run_that_looks_again_and_again_waits_for_a_driver_that_hangs_in_one_thread(nvml: Load) -> None:
    environment = nvml("count 1\nhang nvmlInitWithFlags 4\n")
    ended = subprocess.run(
        [sys.executable, "-c", LOOKS, environment["TUITRAIN_NVML_SCENARIO"]],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout.splitlines(), ended.stderr) == (["None 1", "None 1", "None 1", "[1, 0]"], "")


# -- the table ------------------------------------------------------------------------------------------------------------

HOST = HostSample(name="Some CPU", cores=64, cpu_percent=12.0, ram_used=31 * GIB, ram_total=512 * GIB)


def card(index: int, **fields: Any) -> DeviceSample:
    """A card with values."""
    values = {
        "cuda_index": index,
        "uuid": f"GPU-{index:08}-1111-2222-3333-444444444444",
        "pci_bus_id": f"00000000:{index + 16:02X}:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_used": 70 * GIB,
        "memory_total": 80 * GIB,
        "utilization": 100,
        "temperature": 101,
        "power": 699.6,
        "power_cap": 700.0,
        "processes": (),
    }
    return DeviceSample(nvml_index=index, **(values | fields))


def table(*devices: DeviceSample, error: str | None = None, width: int = 80) -> list[str]:
    """The lines at `width` columns."""
    snapshot = DeviceSnapshot(
        time=10_000.0,
        taken=1.0,
        devices=devices,
        host=HOST,
        driver_version="570.86.15",
        cuda_version="12.8",
        error=error,
        stalled_seconds=0.0,
    )
    lines = as_text(snapshot, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    return lines


def test_a_table_for_people() -> None:
    python = ProcessSample(
        pid=4021,
        name="python",
        user="alice",
        memory=18 * GIB,
        utilization=97.0,
        command="/home/alice/envs/torch/bin/python train.py",
        host_memory=2 * GIB,
        started=2_800.0,
    )
    foreign = ProcessSample(pid=4194305, name=None, user=None, memory=None, foreign=True)
    assert table(card(0, processes=(python, foreign)), card(1, utilization=None, power=None, pci_bus_id="0000000F:01:00.0")) == [
        "driver 570.86.15 · CUDA 12.8 · 64 cores · 12 % · RAM 31/512 GiB",
        "",
        "cuda    nvml bus       name              mem GiB   gpu   temp      power status",
        "cuda:0  0    10:00.0   H100 80GB HBM3      70/80 100 % 101 °C  700/700 W ok",
        "cuda:1  1    F:01:00.0 H100 80GB HBM3      70/80     – 101 °C          – ok",
        "",
        "device       pid type user         gpu   GiB RAM GiB    age command",
        "cuda:0      4021 C    alice       97 %    18     2.0    2 h python train.py",
        "cuda:0   4194305 C    –              –     –       –      – another container's",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(59.8, "59 s"), (3_599.0, "59 min"), (7 * 3600 + 2_000.0, "7 h"), (86_399.0, "23 h"), (2.9 * 86_400, "2 d")]
)
def test_an_age_counts_what_has_gone_by(seconds: float, said: str) -> None:
    running = ProcessSample(pid=1, name="p", user="u", memory=GIB, kind="C", command="p", started=10_000.0 - seconds)
    assert f" {said} p" in table(card(0, processes=(running,)))[-1]


def test_what_is_wrong_with_a_card_is_a_sentence_under_it() -> None:
    lines = table(
        card(
            0,
            status="reset required",
            reason="this card needs a reset (close tuitrain, then: sudo nvidia-smi --gpu-reset -i 0) or a reboot",
        ),
        card(1, cuda_index=None, status="hidden", reason="hidden by X"),
        card(2, unified=True, throttle=("power cap", "too hot (software)")),
        DeviceSample(nvml_index=3, status="no permission", reason="not yours"),
        error="something is wrong",
    )
    assert lines[2] == "Something is wrong."
    text = " ".join(" ".join(lines).split())
    assert (
        "H100 80GB HBM3 reset required this card needs a reset (close tuitrain, then: sudo nvidia-smi --gpu-reset -i 0) or a reboot" in text
    )
    assert "700/700 W hidden hidden by X" in text
    assert "unified memory: the system's RAM" in text
    assert "held down: power cap, too hot (software)" in text
    assert " – 3 – GPU no permission not yours " in text


def test_instances_stand_under_their_card_in_the_table() -> None:
    lines = table(
        card(0, cuda_index=None, status="hidden", reason="in MIG mode: choose one of its instances", processes=None),
        card(0, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", instance=3, parent="GPU-0", utilization=None),
    )
    assert lines[5].startswith("cuda:0  0.3  10:00.0   └ MIG 1g.10gb ")
    assert lines[-1] == "No process is on a card."
    assert table(card(0))[-1] == "No process is on a card."
    assert table(card(0, processes=None))[-1] == "The driver does not list processes."


def test_columns_hold_for_wide_names_many_cards_and_much_power() -> None:
    lines = table(
        card(0),
        card(12, name="日本語のカード名前がとても長い場合", power=850.0, power_cap=1000.0),
        card(1, name="NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"),
    )
    assert {cell_len(line) for line in lines[3:6]} == {76}
    assert all(line.endswith(" W ok") for line in lines[3:6])


def test_a_wide_terminal_shows_whole_names() -> None:
    name = "RTX PRO 6000 Blackwell Max-Q Workstation Edition"
    assert any(f" {name} " in line for line in table(card(0), card(1, name=f"NVIDIA {name}"), width=130))


def test_a_locale_without_these_characters_is_no_traceback(nvml: Load) -> None:
    said = gpus(nvml("count 1\n") | {"PYTHONIOENCODING": "iso8859-5"})
    assert "H100 80GB HBM3" in said

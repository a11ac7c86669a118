"""The sampler's threads: answers at once, also while NVML hangs, and an end that waits for nobody."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from nvml_stub.fixture import write

from tuitrain.devices import DeviceSnapshot, Sampler
from tuitrain.devices.host import HostReader
from tuitrain.devices.samples import CardsSample, HostSample

Load = Callable[[str], dict[str, str]]


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether `condition` became true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    """A quick sampler, not started."""
    made = Sampler(interval=0.02)
    yield made
    made.stop()


def test_before_the_first_sample_the_host_is_known_and_no_card_is_claimed(sampler: Sampler) -> None:
    snapshot = sampler.latest()
    assert (snapshot.taken, snapshot.devices, snapshot.error, snapshot.stalled_seconds) == (None, (), None, 0.0)
    assert snapshot.host.name
    assert snapshot.host.cores >= 1
    assert snapshot.host.cpu_percent is None
    assert (snapshot.host.ram_total or 0) > 2**20


def test_the_load_of_the_cpu_is_not_known_at_the_first_look() -> None:
    reader = HostReader()
    assert [reader.read().cpu_percent is None for _ in range(2)] == [True, False]


def test_samples_come_with_history_and_listeners_get_each(nvml_here: Load, sampler: Sampler) -> None:
    nvml_here("count 2\n")
    seen: list[tuple[DeviceSnapshot, str]] = []
    sampler.subscribe(lambda snapshot: seen.append((snapshot, threading.current_thread().name)))
    sampler.start()
    first = sampler.wait(60)
    assert [card.utilization for card in first.devices] == [7, 7]
    key = first.devices[0].key
    assert wait_for(lambda: len(seen) >= 3 and len(sampler.history("cpu")) >= 3)
    assert {name for _, name in seen} == {"nvml-sampler"}
    points = sampler.history(key)
    assert [point.utilization for point in points[:2]] == [7, 7]
    assert points[0].time < points[1].time
    assert len(sampler.history(key, 0.04)) == 2
    assert sampler.history("nobody") == ()
    host = sampler.latest().host
    assert host.cpu_percent is not None
    assert 0 < (host.ram_used or 0) < (host.ram_total or 0)


def test_the_first_snapshot_that_was_waited_for_knows_versions_and_the_host(
    nvml_here: Load, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml_here("driver 575.1\ncuda 12090\ncount 1\n")
    read = sampler._host_reader.read
    monkeypatch.setattr(sampler._host_reader, "read", lambda: sampler._answered.wait(60) and read())
    sampler.start()
    snapshot = sampler.wait(60)
    assert (snapshot.driver_version, snapshot.cuda_version) == ("575.1", "12.9")
    assert snapshot.host.ram_used is not None


def test_a_card_that_says_nothing_leaves_a_gap_in_its_history(nvml_here: Load, sampler: Sampler) -> None:
    environment = nvml_here("count 1\n")
    sampler.start()
    key = sampler.wait(60).devices[0].key
    write(environment, "count 1\nerror nvmlDeviceGetUtilizationRates 3\n")
    assert wait_for(lambda: any(point.utilization is None for point in sampler.history(key)))


def test_a_listener_that_raises_stops_neither_the_others_nor_the_sampler(nvml_here: Load, sampler: Sampler) -> None:
    nvml_here("count 1\n")
    seen: list[DeviceSnapshot] = []

    def broken(snapshot: DeviceSnapshot) -> None:
        raise RuntimeError("listener")

    sampler.subscribe(broken)
    sampler.subscribe(seen.append)
    sampler.start()
    assert wait_for(lambda: len(seen) >= 3)


def test_an_unforeseen_failure_is_shown_and_sampling_goes_on(monkeypatch: pytest.MonkeyPatch, sampler: Sampler) -> None:
    import pynvml

    def surprise(*arguments: object) -> None:
        raise TypeError("surprise \x1b[2J")

    monkeypatch.setattr(pynvml, "nvmlInit", surprise)
    sampler.start()
    assert sampler.wait(60).error == "reading the GPUs failed (TypeError: surprise ·[2J)"
    first = sampler.latest().taken
    assert wait_for(lambda: sampler.latest().taken != first)
    assert sampler.latest().error == "reading the GPUs failed (TypeError: surprise ·[2J)"  # also between two tries
    monkeypatch.undo()
    assert wait_for(lambda: "TypeError" not in str(sampler.latest().error))


def test_a_round_waits_as_long_as_its_glance_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler, done = Sampler(interval=1.0), list[object]()
    monkeypatch.setattr(sampler._stop, "wait", done.append)

    class Reader:
        def glance(self) -> float:
            done.append("glance")
            return 0.02

        def sample(self) -> CardsSample:
            done.append("sample")
            return CardsSample(devices=(), driver_version=None, error=None)

    sampler._sample_cards(cast(Any, Reader()))
    assert done == ["glance", 0.02, "sample"]


def test_the_beat_is_fixed_and_missed_beats_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Sampler(interval=1.0)
    now = 100.0
    starts: list[float] = []
    work = iter([0.0, 0.4, 2.5, 0.1, 0.0])

    def sample() -> None:
        nonlocal now
        starts.append(now)
        now += next(work)
        if len(starts) == 5:
            sampler._stop.set()

    def wait(seconds: float) -> None:
        nonlocal now
        now += max(0.0, seconds)

    monkeypatch.setattr("tuitrain.devices.sampler.time.monotonic", lambda: now)
    monkeypatch.setattr(sampler._stop, "wait", wait)
    sampler._every_beat(sample)
    assert starts == [100.0, 101.0, 102.0, 105.0, 106.0]


def test_stop_ends_both_threads_and_gives_nvml_back(nvml_here: Load, sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_here("count 1\n")
    given_back: list[None] = []
    disconnect = sampler._nvml.disconnect
    monkeypatch.setattr(sampler._nvml, "disconnect", lambda: given_back.append(disconnect()))
    sampler.start()
    sampler.wait(60)
    assert not given_back
    sampler.stop()
    assert wait_for(lambda: not any(thread.is_alive() for thread in sampler._threads))
    assert len(given_back) == 1


def test_cards_that_wake_one_after_the_other_are_waited_for(nvml_here: Load, sampler: Sampler) -> None:
    nvml_here("count 5\nhang nvmlDeviceGetHandleByIndex_v2 0.4\n")
    sampler.start()
    # Together they take longer than one call may.
    assert len(sampler.wait(1.5).devices) == 5


def test_stop_before_start_is_allowed(sampler: Sampler) -> None:
    sampler.stop()
    assert isinstance(sampler.latest().host, HostSample)


HANGING = """
import sys, time
from tuitrain.devices import Sampler, choices
from tuitrain.devices import sampler as module
module.STALL_SECONDS = 0.3
sampler = Sampler(interval=0.05)
sampler.start()
if sys.argv[1] == "later":
    assert [card.status for card in sampler.wait(20).devices] == ["ok"]
    path = sys.argv[2]
    open(path, "a").write("hang nvmlDeviceGetPowerUsage 60\\n")
end = time.monotonic() + 20
while sampler.latest().stalled_seconds == 0:
    assert time.monotonic() < end
    time.sleep(0.01)
first = sampler.latest()
while sampler.latest().stalled_seconds < first.stalled_seconds + 0.2 or len(sampler.history("cpu")) < 2:
    assert time.monotonic() < end
    time.sleep(0.01)
slowest = 0.0
for _ in range(100):
    before = time.perf_counter()
    sampler.latest()
    slowest = max(slowest, time.perf_counter() - before)
now = sampler.latest()
before = time.perf_counter()
sampler.stop()
took = time.perf_counter() - before
statuses, selectable = [card.status for card in now.devices], [choice.selectable for choice in choices(now)]
print(now.error, statuses, selectable, now.host.ram_used is not None, slowest < 1, sep="|")
print("stop", took < 1)
"""


@pytest.mark.parametrize(
    ("when", "scenario", "devices", "selectable"),
    [
        ("first", "count 1\nhang nvmlInitWithFlags 60\n", "[]", "[True]"),
        ("first", "count 1\nhang nvmlDeviceGetUtilizationRates 60\n", "[]", "[True]"),
        ("later", "count 1\n", "['not responding']", "[False, True]"),
    ],
)
def test_a_call_that_hangs_is_shown_and_delays_neither_stop_nor_the_exit(
    nvml: Load, when: str, scenario: str, devices: str, selectable: str
) -> None:
    environment = nvml(scenario)
    command = [sys.executable, "-c", HANGING, when, environment["TUITRAIN_NVML_SCENARIO"]]
    # 60 s is how long the call hangs: whoever waits for it runs into the bound.
    ended = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=40, check=False)
    assert ended.returncode == 0, ended.stderr
    words, stop = ended.stdout.splitlines()
    error, rest = words.split("|", 1)
    assert re.fullmatch(r"NVML not responding for \d+ s", error)
    assert rest == f"{devices}|{selectable}|True|True"
    assert stop == "stop True"
    assert ended.stderr == ""


def test_the_room_is_light_to_import() -> None:
    code = "import sys, tuitrain.devices; print(sorted({'torch', 'numpy', 'pynvml', 'psutil', 'textual', 'sqlite3'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"

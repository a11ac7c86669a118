"""What a monitor uses is counted with its children, also with one that ends meanwhile; several are watched over the same time."""

import subprocess
import sys
import time

import psutil
import pytest

from benchmarks import monitor
from benchmarks.monitor import Monitor, _used, watched

BUSY = "import time\nwhile time.process_time() < {seconds}: pass"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BUSY.format(seconds=0.3)!r}])
print("ended", flush=True)
input()
"""


def test_a_child_that_has_ended_still_counts() -> None:
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        before = _used(psutil.Process(process.pid))
        assert process.stdout.readline() == "ended\n"
        after = _used(psutil.Process(process.pid))
        assert after.cpu - before.cpu > 0.2
        assert 3 < after.memory < 60
    finally:
        process.communicate("\n")


def test_nobody_is_watched_before_all_have_settled_but_for_children_that_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SETTLE_SECONDS", 0.2), ("WATCHED_SECONDS", 0.5), ("SAMPLE_SECONDS", 0.05)):
        monkeypatch.setattr(monitor, name, seconds)
    patience = 30.0
    monkeypatch.setattr(monitor, "MOST_START_SECONDS", patience)
    silent = Monitor(["bash", "-c", "sleep 1000 & read key; wait"], {}, "\n", children_stay=True)
    # A shell beside it, as tuitrain has one, stays too.
    passing = Monitor(["bash", "-c", "sh -c 'sleep 1000; :' & sleep 1.5 & echo; while :; do echo 01234567; read -t 0.05; done"], {})
    begin = time.perf_counter()
    first, second = watched([silent, passing])
    assert 1.5 < time.perf_counter() - begin < patience
    assert [each.rate for each in first] == [0, 0]
    assert all(20 < each.rate < 400 for each in second)

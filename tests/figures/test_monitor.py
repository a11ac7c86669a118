"""What a monitor uses is counted with its children, also with one that ends meanwhile."""

import subprocess
import sys

import psutil

from benchmarks.monitor import _used

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

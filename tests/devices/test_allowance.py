"""What control groups leave a process of the machine's processors and memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tuitrain.allowance import Allowance, Memory
from tuitrain.devices.host import HostReader

MACHINE = Memory(used=40 * 2**30, total=512 * 2**30)
MOUNTED_V2 = "31 24 0:27 {inside} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw\n"
MOUNTED_V1 = (
    "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
    "40 30 0:30 {inside} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "41 30 0:31 {inside} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
)


def machine(root: Path, groups: str, mounts: str, files: dict[str, str]) -> Allowance:
    """A tree of files with what /proc tells, and `files` below /sys/fs/cgroup."""
    written = {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts}
    written |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Allowance(root)


@pytest.fixture(autouse=True)
def _many_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))


@pytest.mark.parametrize(
    ("quota", "processors"), [("max 100000", 64), ("400000 100000", 4), ("150000 100000", 1), ("50000 100000", 1), ("9900000 100000", 64)]
)
def test_a_container_has_as_many_processors_as_its_quota_pays_for(tmp_path: Path, quota: str, processors: int) -> None:
    allowance = machine(tmp_path, "0::/\n", MOUNTED_V2.format(inside="/"), {"cpu.max": quota + "\n"})
    assert allowance.processors() == processors


def test_a_batch_job_has_what_the_groups_around_its_own_leave(tmp_path: Path) -> None:
    files = {
        "slurm/job_7/cpu.max": "800000 100000\n",
        "slurm/job_7/step_0/cpu.max": "max 100000\n",
        "slurm/job_7/memory.max": f"{16 * 2**30}\n",
        "slurm/job_7/memory.current": f"{9 * 2**30}\n",
        "slurm/job_7/memory.stat": f"anon 1\nfile 2\ninactive_file {2 * 2**30}\nactive_file 3\n",
        "slurm/job_7/step_0/memory.max": "max\n",
        "slurm/job_7/step_0/memory.current": f"{8 * 2**30}\n",
    }
    allowance = machine(tmp_path, "0::/slurm/job_7/step_0\n", MOUNTED_V2.format(inside="/"), files)
    assert allowance.processors() == 8
    assert allowance.memory(MACHINE) == Memory(used=7 * 2**30, total=16 * 2**30)


@pytest.mark.parametrize("inside", ["/docker/1f", "/"])
def test_a_container_of_version_1_is_known_by_its_own_mount(tmp_path: Path, inside: str) -> None:
    below = "" if inside != "/" else "docker/1f/"
    files = {
        f"cpu,cpuacct/{below}cpu.cfs_quota_us": "200000\n",
        f"cpu,cpuacct/{below}cpu.cfs_period_us": "100000\n",
        f"cpu,cpuacct/{below}cpuacct.usage": "7000000000\n",
        f"memory/{below}memory.limit_in_bytes": f"{2**31}\n",
        f"memory/{below}memory.usage_in_bytes": f"{2**30}\n",
        f"memory/{below}memory.stat": f"inactive_file 5\ntotal_inactive_file {2**20}\n",
    }
    groups = "5:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f\n1:name=systemd:/docker/1f\n0::/docker/1f\n"
    allowance = machine(tmp_path, groups, MOUNTED_V1.format(inside=inside), files)
    assert (allowance.processors(), allowance.quota, allowance.busy_seconds()) == (2, 2.0, 7.0)
    assert allowance.memory(MACHINE) == Memory(used=2**30 - 2**20, total=2**31)


def test_no_limit_leaves_the_machine(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/memory.usage_in_bytes": f"{2**30}\n",
    }
    allowance = machine(tmp_path, "5:memory:/\n4:cpu,cpuacct:/\n", MOUNTED_V1.format(inside="/"), files)
    assert (allowance.processors(), allowance.busy_seconds(), allowance.memory(MACHINE)) == (64, None, MACHINE)


def test_a_limit_above_what_the_machine_has_free_is_none(tmp_path: Path) -> None:
    files = {"memory.max": f"{256 * 2**30}\n", "memory.current": "0\n"}
    crowded = Memory(used=500 * 2**30, total=512 * 2**30)
    assert machine(tmp_path, "0::/\n", MOUNTED_V2.format(inside="/"), files).memory(crowded) == crowded


@pytest.mark.parametrize(
    ("groups", "mounts"),
    [
        ("", ""),
        ("0::/../../elsewhere\n", MOUNTED_V2.format(inside="/")),
        ("nonsense\n0\n::\n", "nonsense\n1 - cgroup2\n"),
        ("0::/a\n", "1 2 3 - cgroup2 x y\n"),
    ],
)
def test_what_cannot_be_read_limits_nothing(tmp_path: Path, groups: str, mounts: str) -> None:
    allowance = machine(tmp_path, groups, mounts, {"cpu.max": "nonsense", "memory.max": "nonsense"})
    assert (allowance.processors(), allowance.busy_seconds(), allowance.memory(MACHINE)) == (64, None, MACHINE)


def test_a_machine_without_proc_is_not_limited(tmp_path: Path) -> None:
    assert (Allowance(tmp_path).processors(), Allowance(tmp_path).memory(MACHINE)) == (64, MACHINE)


def test_the_device_list_tells_of_the_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2**20  # less than any machine has free
    files = {
        "cpu.max": "400000 100000\n",
        "cpu.stat": "usage_usec 1000000\nuser_usec 1\n",
        "memory.max": f"{limit}\n",
        "memory.current": f"{limit // 4}\n",
    }
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    reader = HostReader(machine(tmp_path, "0::/\n", MOUNTED_V2.format(inside="/"), files))
    assert (reader.at_once().cores, reader.at_once().quota, reader.at_once().ram_total) == (4, 4.0, limit)
    first = reader.read()
    assert (first.cpu_percent, first.ram_used, first.ram_total) == (None, limit // 4, limit)
    clock[0] += 2
    (tmp_path / "sys/fs/cgroup/cpu.stat").write_text("usage_usec 7000000\n")
    assert reader.read().cpu_percent == 75.0

"""What a run needs beside the GPU count: shared memory, safe versions, a terminal, a disk, and a night without a logout's broom."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import doctor_machines as machines
import pytest
from doctor_machines import TERMINAL, bare_metal, diagnose, facts_of, named, put, report_on, wrong
from msgspec.structs import replace

from tuitrain.devices.doctor import surroundings
from tuitrain.devices.doctor.facts import StorageFacts, TerminalFacts, Versions
from tuitrain.devices.doctor.surroundings import read_logout, read_storage, read_versions
from tuitrain.devices.doctor.system import read_system

SHM = "25 24 0:23 / /dev/shm rw,nosuid - tmpfs shm rw,size={}\n"


def warned(root: Path, check: str, **options: object) -> str:
    """The mend of the only check that is not "ok" on an otherwise healthy machine with two GPUs."""
    report = report_on(root, machines.two_cards(), machines.torch_with(2), **options)
    assert wrong(report) == {check: "warning"}
    assert report.conclusion.startswith("All is well: torch counts both GPUs")
    assert "Beside the GPUs: 1 warning" in report.conclusion
    return str(named(report, check).mend)


def test_a_containers_64_mb_of_shared_memory(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    others = "26 24 0:24 / /run rw,nosuid - tmpfs tmpfs rw,size=8g\n"
    put(tmp_path, "proc/self/mountinfo", "1 1 254:0 / / rw - ext4 /dev/vda rw\n" + SHM.format("65536k") + others)
    assert "sudo mount -o remount,size=8G /dev/shm" in warned(tmp_path, "shared-memory")
    put(tmp_path, ".dockerenv")
    assert "docker run --shm-size=8g IMAGE" in warned(tmp_path, "shared-memory")
    put(tmp_path, "proc/self/mountinfo", "1 1 254:0 / / rw - ext4 /dev/vda rw\n" + SHM.format("8g"))
    assert wrong(report_on(tmp_path, machines.two_cards(), machines.torch_with(2))) == {}


def test_one_gpu_does_not_need_shared_memory(tmp_path: Path) -> None:
    bare_metal(tmp_path, 1)
    put(tmp_path, "proc/self/mountinfo", "1 1 254:0 / / rw - ext4 /dev/vda rw\n" + SHM.format("65536k"))
    assert wrong(report_on(tmp_path, machines.snapshot(machines.card(0)), machines.torch_with(1))) == {}


def test_a_torch_without_nccl(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2, nccl=False))
    assert wrong(report) == {"nccl": "warning"}


def test_both_ways_between_gpus_are_healthy(tmp_path: Path) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2, peer=False))
    assert wrong(report) == {}
    assert "--all-reduce" in named(report, "peer-access").found


@pytest.mark.parametrize(("version", "verdict"), [("2.9.1+cu130", "warning"), ("2.10.0+cu130", "ok"), ("3.0.0", "ok")])
def test_a_torch_with_the_hole_in_loading(tmp_path: Path, version: str, verdict: str) -> None:
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2, version=version))
    assert named(report, "torch-version").verdict == verdict
    assert ("CVE-2026-24747" in named(report, "torch-version").found) == (verdict == "warning")


def test_the_deprecated_package(tmp_path: Path) -> None:
    mend = warned(bare_metal(tmp_path), "pynvml", versions=Versions(deprecated_pynvml="13.0.1"))
    assert "pip uninstall -y pynvml" in mend


def test_python_is_called_as_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, other = tmp_path / "my env/bin", tmp_path / "usr/bin"
    for folder in (here, other):
        folder.mkdir(parents=True)
        (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(here / "python"))
    assert read_versions({"PATH": f"{here}:{other}"}).python_command == "python"
    command = read_versions({"PATH": str(other)}).python_command
    assert command == f"'{here}/python'"
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_for_cpu(), versions=Versions(python_command=command))
    assert str(named(report, "torch-build").command).startswith(f"{command} -m pip install --force-reinstall torch")


# -- the terminal ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "check", "mend"),
    [
        ({"term": "dumb", "colorterm": ""}, "terminal-colours", "TERM=xterm-256color"),
        ({"term": "", "colorterm": ""}, "terminal-colours", "TERM=xterm-256color"),
        ({"term": "screen", "colorterm": ""}, "terminal-colours", "tmux.conf"),
        ({"term": "screen", "colorterm": "", "tmux": False, "screen": True}, "terminal-colours", "screenrc"),
        ({"locale": "de_DE.ISO-8859-1"}, "terminal-unicode", "LC_ALL=C.UTF-8"),
        ({"locale": "", "encoding": "latin-1"}, "terminal-unicode", "LC_ALL=C.UTF-8"),
        ({"columns": 71, "rows": 24}, "terminal-size", "larger"),
        ({"columns": 80, "rows": 19}, "terminal-size", "larger"),
    ],
)
def test_a_poor_terminal(tmp_path: Path, change: dict[str, object], check: str, mend: str) -> None:
    assert mend in warned(bare_metal(tmp_path), check, terminal=replace(TERMINAL, **change))


@pytest.mark.parametrize(
    "terminal",
    [
        TerminalFacts(is_one=False, term="dumb", columns=1, encoding="ascii"),
        TerminalFacts(is_one=True, term="linux"),
        TerminalFacts(is_one=True, term="xterm-256color"),
        TerminalFacts(is_one=True, term="xterm-kitty", columns=0, rows=0),
        TerminalFacts(is_one=True, term="xterm-kitty", columns=72, rows=20),
    ],
)
def test_a_terminal_that_will_do(tmp_path: Path, terminal: TerminalFacts) -> None:
    assert wrong(report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2), terminal=terminal)) == {}


# -- the disk -------------------------------------------------------------------------------------------------------------


def test_runs_on_a_network_file_system(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    runs = tmp_path / "home/runs"
    runs.mkdir(parents=True)
    put(
        tmp_path,
        "proc/self/mountinfo",
        f"1 1 254:0 / / rw - ext4 /dev/vda rw\n9 1 0:9 / {tmp_path}/home rw shared:1 - nfs4 server:/home rw\n",
    )
    assert read_storage(runs, tmp_path).file_system == "nfs4"
    assert read_storage(tmp_path / "homely", tmp_path).file_system == "ext4"
    assert "TUITRAIN_RUNS" in warned(tmp_path, "runs-disk", storage=read_storage(runs, tmp_path))


def test_a_disk_behind_a_folder_that_may_not_be_entered_does_not_hang(
    tmp_path: Path, out_of_sight: Path, as_another_user: Callable[[Callable[[], object]], None]
) -> None:
    def look() -> None:
        storage = read_storage(out_of_sight, tmp_path)
        assert (storage.exists, storage.hung, storage.error) == (False, False, "Permission denied")

    as_another_user(look)


@pytest.mark.parametrize(("free", "verdict"), [(100 << 20, "problem"), (1 << 30, "warning"), (1 << 40, "ok")])
def test_free_space(tmp_path: Path, free: int, verdict: str) -> None:
    storage = StorageFacts(folder="/runs", file_system="ext4", free=free)
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2), storage=storage)
    assert named(report, "runs-space").verdict == verdict
    assert report.verdict == verdict


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "fsync", refuse)
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2), storage=read_storage(tmp_path, tmp_path))
    assert wrong(report) == {"runs-writable": "problem"}
    assert "Read-only file system" in named(report, "runs-writable").found
    assert not list(tmp_path.glob(".tuitrain-doctor*"))


def test_writing_leaves_nothing_behind_and_makes_no_folder(tmp_path: Path) -> None:
    found = read_storage(tmp_path / "not" / "there", tmp_path)
    assert (found.error, found.exists, found.hung) == (None, False, False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("out", "err"), [(True, True), (True, False), (False, True), (False, False)])
def test_the_terminal_is_that_of_either_stream(monkeypatch: pytest.MonkeyPatch, out: bool, err: bool) -> None:
    class Stream(io.StringIO):
        def __init__(self, terminal: bool) -> None:
            super().__init__()
            self._terminal = terminal

        def isatty(self) -> bool:
            return self._terminal

    monkeypatch.setattr(sys, "__stdout__", Stream(out))
    monkeypatch.setattr(sys, "__stderr__", Stream(err))
    assert surroundings.read_terminal({"TERM": "xterm"}).is_one == (out or err)


def test_a_disk_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    monkeypatch.setattr(surroundings, "STORAGE_SECONDS", 0.05)
    monkeypatch.setattr(os, "fsync", lambda _: let_go.wait(30))
    found = read_storage(tmp_path, tmp_path)
    let_go.set()
    assert found.hung
    report = report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(2), storage=found)
    assert wrong(report) == {"runs-writable": "problem"}


# -- a logout -------------------------------------------------------------------------------------------------------------


def test_a_logout_that_kills_runs(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    put(tmp_path, "etc/systemd/logind.conf", "[Login]\n#KillUserProcesses=no\n")
    assert read_logout(tmp_path, "alice").kills is None
    put(tmp_path, "etc/systemd/logind.conf.d/50-site.conf", "[Login]\nKillUserProcesses = yes\n")
    mend = warned(tmp_path, "logout")
    assert "`loginctl enable-linger`" in mend
    assert "`systemd-run --user --scope tuitrain run" in mend
    put(tmp_path, "var/lib/systemd/linger/alice")
    assert "enable-linger" not in warned(tmp_path, "logout")


@pytest.mark.parametrize("setting", ["KillExcludeUsers=root alice", "KillOnlyUsers=bob"])
def test_a_user_that_a_logout_spares(tmp_path: Path, setting: str) -> None:
    bare_metal(tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    put(tmp_path, "etc/systemd/logind.conf", f"[Login]\nKillUserProcesses=yes\n{setting}\n")
    assert wrong(report_on(tmp_path, machines.two_cards(), machines.torch_with(2))) == {}


# -- reading --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024", "550.54.14"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build", "570.86.15"),
        ("NVRM version: something new", None),
    ],
)
def test_the_version_of_the_module(tmp_path: Path, text: str, version: str | None) -> None:
    put(tmp_path, "proc/driver/nvidia/version", text)
    assert read_system(tmp_path, {}).module_version == version


@pytest.mark.parametrize(
    ("environ", "file", "text", "container"),
    [
        ({}, "proc/1/cgroup", "0::/init.scope\n", None),
        ({}, "proc/1/cgroup", "12:pids:/kubepods/burstable/pod1\n", "a container"),
        ({}, "run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
        ({"container": "lxc\x1b"}, "proc/1/cgroup", "", "lxc·"),
        ({"container": "wsl"}, "proc/1/cgroup", "0::/\n", None),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ".dockerenv", "", "Kubernetes"),
        ({"APPTAINER_CONTAINER": "/torch.sif"}, ".dockerenv", "", "Apptainer"),
        ({"SINGULARITY_CONTAINER": "/torch.sif"}, "run/.containerenv", "", "Apptainer"),
    ],
)
def test_what_contains_us_is_known_by_its_marks(
    tmp_path: Path, environ: dict[str, str], file: str, text: str, container: str | None
) -> None:
    put(tmp_path, file, text)
    assert read_system(tmp_path, environ).container == container


def test_a_device_file_is_really_opened(tmp_path: Path) -> None:
    put(tmp_path, "dev/nvidia0")
    (tmp_path / "dev/nvidia10").mkdir()
    put(tmp_path, "dev/nvidia-caps/nvidia-cap1")
    (tmp_path / "dev/nvidia2").symlink_to(tmp_path / "nowhere")
    nodes = read_system(tmp_path, {}).nodes
    assert [(node.name, node.error != 0) for node in nodes] == [("nvidia0", False), ("nvidia10", True)]


def test_control_characters_from_outside_go_nowhere(tmp_path: Path) -> None:
    bare_metal(tmp_path)
    facts = facts_of(tmp_path, machines.two_cards(), machines.torch_with(2), {"CUDA_VISIBLE_DEVICES": "0\x1b[2J"})
    report = diagnose(facts)
    assert "\x1b" not in str(report)

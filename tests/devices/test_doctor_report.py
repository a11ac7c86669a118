"""The report as text and JSON, the whole examination, and the command."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import doctor_machines as machines
import msgspec
import pytest
from doctor_machines import bare_metal, card, diagnose, named, put, report_on
from doctor_torches import GPUS, HANG, environ_with
from hypothesis import given, settings
from hypothesis import strategies as st
from pasted_commands import assert_pasteable

from tuitrain.devices.doctor import as_json, as_text, examine
from tuitrain.devices.doctor.facts import (
    Adapter,
    Facts,
    LogoutFacts,
    Node,
    StorageFacts,
    SystemFacts,
    TerminalFacts,
    TorchDevice,
    TorchFacts,
)
from tuitrain.devices.doctor.model import Check, Report
from tuitrain.devices.nvml import sentence
from tuitrain.devices.samples import ProcessSample


def slip(tmp_path: Path) -> Report:
    environ = {"CUDA_VISIBLE_DEVICES": "0,9,1"}
    return report_on(bare_metal(tmp_path), machines.two_cards(), machines.torch_with(1, version="2.9.0"), environ)


def test_the_text_begins_with_the_conclusion_and_ends_with_what_is_well(tmp_path: Path) -> None:
    report = slip(tmp_path)
    text = as_text(report)
    order = ["2 GPUs are seen by NVML, but only 1", "tuitrain 1.0, Python 3.12.1", "on the PCI bus", "✗ problem", "! warning", "✓ ok"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert re.search(r"1  left by CUDA_VISIBLE_DEVICES  ← ", text)
    assert text.count("←") == 1, "the other steps lose none"
    assert text.count("✓ ok") == sum(check.verdict == "ok" for check in report.checks if check.check != "versions")
    assert "\x1b" not in text


def test_lines_fit_80_columns_but_commands_stay_whole(tmp_path: Path) -> None:
    for line in as_text(slip(tmp_path)).splitlines():
        assert len(line) <= 80 or line.startswith(("  → $ ", "    $ "))


def test_colour_changes_nothing_but_colour(tmp_path: Path) -> None:
    report = slip(tmp_path)
    coloured = as_text(report, colour=True)
    assert "\x1b[31m✗ problem\x1b[0m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == as_text(report)


def test_json_has_everything(tmp_path: Path) -> None:
    said = json.loads(as_json(slip(tmp_path)))
    assert (said["verdict"], len(said["counts"])) == ("problem", 6)
    assert {"check", "title", "looked_at", "found", "verdict", "mend", "command"} == set(said["checks"][0])
    found = {check["check"]: (check["mend"], check["command"]) for check in said["checks"]}
    first = "export CUDA_VISIBLE_DEVICES=0,1"
    assert found["visible-devices"] == (f"{first}, or: unset CUDA_VISIBLE_DEVICES", first)
    assert found["driver"] == (None, None)


def test_a_command_has_a_line_of_its_own_in_the_text(tmp_path: Path) -> None:
    lines = as_text(slip(tmp_path)).splitlines()
    place = lines.index("  → $ export CUDA_VISIBLE_DEVICES=0,1")
    assert lines[place + 1 : place + 3] == ["    or:", "    $ unset CUDA_VISIBLE_DEVICES"]


@pytest.mark.parametrize(
    ("mend", "pieces", "command"),
    [
        (None, (), None),
        ("Reboot.", (("Reboot.", False),), None),
        ("`a b`", (("a b", True),), "a b"),
        ("`a`, or: `b`; then reboot.", (("a", True), ("or:", False), ("b", True), ("then reboot.", False)), "a"),
        ("Read `/x`.", (("Read", False), ("/x", True)), "/x"),
        ("An odd ` mark", (("An odd", False), (" mark", True)), " mark"),
    ],
)
def test_the_commands_of_a_mend(mend: str | None, pieces: tuple[tuple[str, bool], ...], command: str | None) -> None:
    check = Check(check="a", title="A", looked_at="", found="", verdict="problem", mend=mend)
    assert (check.pieces, check.command) == (pieces, command)


@pytest.mark.parametrize(
    "mend",
    [
        *(
            "`export A=1, or: unset A`",
            "`Reboot`",
            "`docker run …`",
            "`sudo reboot-now`",
            "`echo it's`",
            "`unset A;`",
            "`sudo dmesg | look`",
        ),
        *("or: unset A", "Run sudo modprobe nvidia.", "` mark`"),
    ],
)
def test_what_is_no_command_is_noticed(mend: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        assert_pasteable(Check(check="a", title="A", looked_at="", found="", verdict="problem", mend=mend))


def test_home_folders_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/data/people/alice")
    found = "/data/people/alice/runs and /home/bob/x"
    report = Report(
        conclusion="", counts=(), checks=(Check(check="a", title="A", looked_at="", found=found, verdict="problem", mend=found),)
    )
    for text in (as_text(report), as_json(report)):
        assert "~/runs and ~/x" in text
        assert "alice" not in text
        assert "bob" not in text


# -- the examination ------------------------------------------------------------------------------------------------------


def test_an_examination_says_what_it_looks_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuitrain.devices.doctor.examination.read_terminal", lambda environ: machines.TERMINAL)
    said: list[str] = []
    root = bare_metal(tmp_path / "root")
    environ = environ_with(tmp_path, GPUS)
    report = examine(machines.two_cards(), tmp_path, root=root, environ=environ, say=said.append)
    assert report.verdict == "ok"
    assert "both GPUs" in report.conclusion
    assert any("torch" in what for what in said)
    assert any("disk" in what for what in said)


def test_an_examination_ends_soon_after_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    began = time.monotonic()
    examine(machines.no_driver(), tmp_path, root=tmp_path, environ=environ_with(tmp_path, HANG), say=print, stop=stop)
    assert time.monotonic() - began < 6.0


def command(environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    script = "import sys; sys.argv[0] = 'tuitrain'; from tuitrain.cli import main\ntry:\n    main()\nfinally:\n"
    script += "    print(sorted({'torch', 'textual'} & set(sys.modules)), file=sys.stderr)"
    return subprocess.run([sys.executable, "-c", script, "doctor", *arguments], env=environ, capture_output=True, text=True, timeout=60)


def test_the_command_answers_also_when_nvml_and_torch_hang(tmp_path: Path, nvml: Any) -> None:
    began = time.monotonic()
    command(environ_with(tmp_path / "well", GPUS), "--runs-dir", str(tmp_path / "runs"))
    # On a busy machine its start alone takes seconds.
    well = time.monotonic() - began
    hanging = nvml("count 1\nhang nvmlDeviceGetCount_v2 60")
    environ = environ_with(tmp_path, HANG) | hanging
    began = time.monotonic()
    ended = command(environ, "--json", "--runs-dir", str(tmp_path / "runs"))
    assert time.monotonic() - began < 15.0 + well
    assert (ended.returncode, ended.stderr.strip()) == (0, "[]")
    checks = {check["check"]: check for check in json.loads(ended.stdout)["checks"]}
    assert "NVML has not answered" in checks["driver"]["found"]
    assert "import torch had not ended" in checks["torch"]["found"]


def test_the_command_finds_the_slip_and_stays_out_of_torch(tmp_path: Path, nvml: Any) -> None:
    environ = environ_with(tmp_path, GPUS, CUDA_VISIBLE_DEVICES="0,9") | nvml("count 2\ndriver 580.95.05")
    ended = command(environ, "--runs-dir", str(tmp_path / "runs"))
    assert (ended.returncode, ended.stderr.strip()) == (0, "[]")
    assert 'CUDA stops reading at "9"' in ended.stdout
    assert not (tmp_path / "runs").exists()


def test_the_command_in_a_locale_without_the_glyphs(tmp_path: Path) -> None:
    ended = command({**environ_with(tmp_path, GPUS), "PYTHONIOENCODING": "ascii"}, "--runs-dir", str(tmp_path))
    assert ended.returncode == 0
    assert "? ok" in ended.stdout


# -- any mixture ----------------------------------------------------------------------------------------------------------

words = st.sampled_from(["", "Error 802: x", "Error 803: y", "Error 805: z", "Error 999: w", "too old", "No CUDA GPUs are available"])
maybe = st.booleans() | st.none()
number = st.none() | st.integers(0, 9)
codes = st.sampled_from([0, errno.EPERM, errno.EACCES, errno.EIO, errno.ETIMEDOUT])
versions = st.none() | st.sampled_from(["2.9.0", "2.13.0+cpu", "nonsense", "13.0", "12.4", "470.1", "580.95.05", ""])

samples = st.builds(
    lambda index, fields: card(index, **fields),
    st.integers(0, 3),
    st.fixed_dictionaries(
        {
            "status": st.sampled_from(["ok", "hidden", "lost", "reset required", "no permission", "unknown error", "not responding"]),
            "uuid": st.sampled_from([None, "GPU-1", "GPU-2", "MIG-1"]),
            "instance": st.none() | st.integers(0, 3),
            "cuda_index": number,
            "pci_bus_id": st.sampled_from([None, "00000000:11:00.0"]),
            "mig": maybe,
            "compute_mode": st.sampled_from([None, "default", "prohibited", "exclusive process"]),
            "processes": st.sampled_from([None, (), (ProcessSample(pid=1, name=None, user=None, memory=None),)]),
        }
    ),
)
seen = st.builds(
    lambda devices, error, driver, cuda, taken, stalled: machines.snapshot(
        *devices, error=error, driver=driver, cuda=cuda, taken=taken, stalled_seconds=stalled
    ),
    st.lists(samples, max_size=4),
    st.none() | st.sampled_from([sentence(code) for code in (-1, 4, 9, 12, 17, 18, 999)]),
    versions,
    versions,
    st.none() | st.just(1.0),
    st.sampled_from([0.0, 7.0]),
)
systems = st.builds(
    SystemFacts,
    adapters=st.none()
    | st.lists(
        st.builds(
            Adapter,
            slot=st.sampled_from(["0000:11:00.0", "odd"]),
            vendor=st.sampled_from([machines.NVIDIA, machines.AMD, 1]),
            driver=st.sampled_from([None, "nouveau", "vfio-pci", "nvidia"]),
        ),
        max_size=3,
    ).map(tuple),
    switches=st.integers(0, 2),
    module_loaded=st.booleans(),
    module_version=versions,
    known=st.none() | st.lists(st.tuples(st.sampled_from(["0000:11:00.0", "x"]), number), max_size=3).map(tuple),
    nodes=st.lists(st.builds(Node, name=st.sampled_from(["nvidia0", "nvidia1"]), error=codes), max_size=3).map(tuple),
    uvm=st.none() | st.builds(Node, name=st.just("nvidia-uvm"), error=codes),
    libraries=st.lists(st.sampled_from(["580.95.05", "550.1"]), max_size=2).map(tuple),
    compat_paths=st.sampled_from([(), ("/usr/local/cuda/compat",)]),
    container=st.sampled_from([None, "Docker", "a container"]),
    wsl=st.booleans(),
    dxg=st.booleans(),
    wsl_library=st.booleans(),
    daemons=st.sampled_from([frozenset(), frozenset({"nv-fabricmanager", "nvidia-cuda-mps-server"})]),
    distribution=st.sampled_from([(), ("ubuntu", "debian"), ("plan9",)]),
    shared_memory=st.sampled_from([None, 64 << 20]),
)
torches = st.builds(
    TorchFacts,
    asked=st.booleans(),
    installed=st.booleans(),
    failed=st.none() | words,
    hung_at=st.sampled_from([None, "import torch", "start CUDA"]),
    hung_seconds=st.sampled_from([0.0, 9.0]),
    version=versions,
    cuda=versions,
    hip=st.sampled_from([None, "7.2"]),
    nccl=maybe,
    count=number,
    started=maybe,
    start_error=st.none() | words,
    architectures=st.sampled_from([(), ("sm_90a", "compute_80", "gfx942", "sm_5")]),
    devices=st.lists(st.builds(TorchDevice, capability=st.sampled_from([None, (6, 1), (12, 0)]), error=st.none() | words), max_size=3).map(
        tuple
    ),
    peer=maybe,
    words=words,
)
mixtures = st.builds(
    Facts,
    snapshot=seen,
    environ=st.dictionaries(
        st.sampled_from(["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID", "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_VISIBLE_DEVICES"]),
        st.sampled_from(["", "0", "0,0", "9", "GPU-1", "MIG-1", "all", "\x1b[2J"]),
    ),
    system=systems,
    torch=torches,
    terminal=st.builds(TerminalFacts, is_one=st.booleans(), columns=st.integers(0, 200), term=st.sampled_from(["", "dumb", "xterm"])),
    storage=st.none() | st.builds(StorageFacts, folder=st.just("/x"), free=number, hung=st.booleans(), error=st.none() | st.just("full")),
    logout=st.builds(LogoutFacts, systemd=st.booleans(), kills=maybe),
)


@settings(max_examples=150, deadline=None)
@given(mixtures)
def test_no_mixture_raises_and_every_finding_has_a_mend(facts: Facts) -> None:
    report = diagnose(facts)
    assert report.conclusion.strip()
    assert len({check.check for check in report.checks}) == len(report.checks)
    for check in report.checks:
        assert (check.mend is not None) == (check.verdict != "ok")
        assert check.found
    assert "\x1b" not in as_text(report)
    assert msgspec.json.decode(as_json(report))["verdict"] == report.verdict


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["version", "modules"]), st.binary(max_size=40)), st.binary(max_size=60))
def test_any_bytes_in_proc_are_read(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], noise: bytes) -> None:
    root = tmp_path_factory.mktemp("machine")
    put(root, "proc/driver/nvidia/version")
    for name, content in files.items():
        (root / "proc" / ("modules" if name == "modules" else "driver/nvidia/version")).write_bytes(content)
    put(root, "proc/self/mountinfo")
    (root / "proc/self/mountinfo").write_bytes(b"1 1 0:1 / /dev/shm rw - tmpfs shm rw," + noise)
    put(root, "etc/os-release")
    (root / "etc/os-release").write_bytes(noise)
    put(root, "sys/bus/pci/devices/0000:01:00.0/vendor")
    (root / "sys/bus/pci/devices/0000:01:00.0/vendor").write_bytes(noise)
    put(root, "etc/systemd/logind.conf")
    (root / "etc/systemd/logind.conf").write_bytes(noise)
    report = report_on(root, machines.no_driver(), machines.torch_for_cpu())
    assert named(report, "versions").verdict == "ok"
    assert os.linesep not in report.conclusion

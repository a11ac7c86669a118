"""The processes on a card: their kinds, what the system knows of them, and numbers that mean nothing here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from nvml_stub.fixture import write

from tuitrain.devices import ProcessSample
from tuitrain.devices.cards import CardReader
from tuitrain.devices.nvml import Nvml
from tuitrain.devices.processes import COMMAND_LENGTH, Listed, ProcessTable
from tuitrain.python import ELSEWHERE, PACKAGES, module_arguments

GIB = 2**30
NOBODY = 4194305
"""More than the kernel's highest number for a process."""
Load = Callable[[str], dict[str, str]]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that is at work, with a long command line and a control character in it."""
    command = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "\x1b[2J", "x" * 500]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def processes(reader: CardReader) -> list[ProcessSample]:
    """Those of the only card."""
    (card,) = reader.sample().devices
    return list(card.processes or ())


def test_kinds(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(
        f"""
count 1
process 0 compute {NOBODY} 1
process 0 graphics {NOBODY + 1} 2
process 0 compute {NOBODY + 2} -
process 0 graphics {NOBODY + 2} 3
process 0 mps {NOBODY + 3} 4
process 0 compute {NOBODY + 4} 5
process 0 mps {NOBODY + 4} 5
"""
    )
    assert [(process.kind, process.memory) for process in processes(reader)] == [("C", 1), ("G", 2), ("C+G", 3), ("M+C", 4), ("M+C", 5)]


def test_how_much_of_the_card_each_process_takes(nvml_here: Load, reader: CardReader) -> None:
    listed = "".join(f"process 0 compute {NOBODY + number} 1\n" for number in range(5))
    # The newest sample counts, in whatever order they come; one of long ago is no answer, nor is a number that cannot be.
    shares = f"share 0 {NOBODY} 60\nshare 0 {NOBODY} 5 0.5\nshare 0 {NOBODY + 1} 7 0.3\nshare 0 {NOBODY + 1} 30\n"
    shares += f"share 0 {NOBODY + 2} 80 5\nshare 0 {NOBODY + 3} 4294967290\nshare 0 {NOBODY + 9} 99\nshare 1 {NOBODY + 4} 50\n"
    nvml_here(f"count 2\n{listed}{shares}process 1 compute {NOBODY} 1\n")
    first, second = reader.sample().devices
    assert [process.utilization for process in first.processes or ()] == [60, 30, 0, None, 0]
    # The sample is of a number that is not listed, as in a container.
    assert [process.utilization for process in second.processes or ()] == [None]


@pytest.mark.parametrize(
    ("scenario", "taken"),
    [
        ("count 1\n", [0]),
        ("count 1\nerror nvmlDeviceGetProcessUtilization 3\n", [None]),
        ("count 1\nmissing nvmlDeviceGetProcessUtilization\n", [None]),
    ],
    ids=["no sample", "not supported", "an old driver"],
)
def test_a_driver_without_samples_of_processes(nvml_here: Load, reader: CardReader, scenario: str, taken: list[float | None]) -> None:
    nvml_here(f"{scenario}process 0 compute {NOBODY} 1\n")
    assert [process.utilization for process in processes(reader)] == taken
    assert reader.sample().devices[0].status == "ok"


def test_memory_that_cannot_be_is_none(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(f"count 1\nprocess 0 compute {NOBODY} {900 * GIB}\nprocess 0 compute {NOBODY + 1} -\nprocess 0 compute {NOBODY + 2} 0\n")
    assert [process.memory for process in processes(reader)] == [None, None, None]


@pytest.mark.parametrize(
    ("driver", "newer_list"),
    [("530.30.02", True), ("535.43.02", False), ("535.98", False), ("535.104.05", True), ("5351.50", True), ("nonsense", True)],
)
def test_of_drivers_whose_newer_list_is_scrambled_the_older_one_is_asked_for(
    nvml_here: Load, reader: CardReader, driver: str, newer_list: bool
) -> None:
    other = "v2" if newer_list else "v3"
    nvml_here(f"count 1\ndriver {driver}\nerror nvmlDeviceGetComputeRunningProcesses_{other} 3\nprocess 0 compute {NOBODY} 7\n")
    assert [(process.pid, process.memory) for process in processes(reader)] == [(NOBODY, 7)]


def test_no_number_is_believed_for_its_size_alone_where_nobody_tells_the_cards_memory(nvml_here: Load, reader: CardReader) -> None:
    nobody = "error nvmlDeviceGetMemoryInfo 4\nerror nvmlDeviceGetMemoryInfo_v2 4\n"
    nvml_here(f"count 1\n{nobody}process 0 compute {NOBODY} {900 * GIB}\nprocess 0 compute {NOBODY + 1} {2**63}\n")
    assert [process.memory for process in processes(reader)] == [900 * GIB, None]


def test_a_process_of_this_machine_is_described(nvml_here: Load, reader: CardReader, child: subprocess.Popen[bytes]) -> None:
    nvml_here(f"count 1\nprocess 0 compute {child.pid} 1048576\n")
    (first,) = processes(reader)
    system = psutil.Process(child.pid)
    assert (first.name, first.user, first.started) == (system.name(), system.username(), system.create_time())
    assert first.command is not None
    assert len(first.command) == COMMAND_LENGTH
    assert "·[2J" in first.command
    assert (first.host_memory or 0) > 2**20
    assert (first.cpu_percent, first.foreign) == (None, False)
    (second,) = processes(reader)
    assert second.cpu_percent is not None


def test_a_process_that_has_ended_and_still_has_the_card_keeps_its_name(
    nvml_here: Load, reader: CardReader, child: subprocess.Popen[bytes]
) -> None:
    child.kill()
    # Nobody has asked how it ended, so the system keeps it.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    nvml_here(f"count 1\nprocess 0 compute {child.pid} 1048576\n")
    (process,) = processes(reader)
    assert (process.name, process.user, process.command) == (psutil.Process(child.pid).name(), psutil.Process().username(), None)


def test_cpu_is_of_one_core_since_the_last_look(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(f"count 1\nprocess 0 compute {os.getpid()} 1\n")
    processes(reader)
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    (busy,) = processes(reader)
    # The machine may have other work, so that only a part of the time was ours.
    assert 1 < (busy.cpu_percent or 0) < 200


def test_a_process_that_has_ended_is_only_a_number(nvml_here: Load, reader: CardReader) -> None:
    nvml_here(f"count 1\nprocess 0 compute {NOBODY} 1\n")
    (ended,) = processes(reader)
    assert (ended.name, ended.user, ended.command, ended.foreign) == (None, None, None, False)


def test_a_number_given_to_another_process_is_noticed(monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]) -> None:
    table = ProcessTable()
    here = os.getpid()
    first = table.sample(here, Listed("C", 1))
    table.end_round()

    class Newcomer(psutil.Process):
        def __init__(self, pid: int) -> None:
            super().__init__(child.pid)

    monkeypatch.setattr(psutil, "Process", Newcomer)
    second = table.sample(here, Listed("C", 1))
    assert second.command != first.command
    assert second.cpu_percent is None


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (module_arguments("tuitrain.engine.ranks.rank", "--number", "1"), "-m tuitrain.engine.ranks.rank --number 1"),
        (("-c", ELSEWHERE + "main()", PACKAGES, "_host"), "-m tuitrain _host"),
        (("-c", ELSEWHERE + "main()", PACKAGES), "-m tuitrain"),
        (("-c", "import train", "x"), "-c import train x"),
        (("train.py",), "train.py"),
        ((), ""),
    ],
)
def test_a_process_of_tuitrains_is_named_by_what_it_does(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], shown: str) -> None:
    monkeypatch.setattr(psutil.Process, "cmdline", lambda process: ["/env/bin/python3", *arguments])
    seen = ProcessTable().sample(os.getpid(), Listed("C", 1))
    assert seen.short_command == f"python3 {shown}".strip()
    assert (seen.name == "tuitrain") == ("-m tuitrain" in shown)


def test_a_rank_is_of_whoever_started_its_launcher(monkeypatch: pytest.MonkeyPatch, child: subprocess.Popen[bytes]) -> None:
    assert ProcessTable().sample(child.pid, Listed("C", 1)).rank_of is None
    rank = ["python", *module_arguments("tuitrain.engine.ranks.rank")]
    monkeypatch.setattr(psutil.Process, "cmdline", lambda process: rank)
    seen = ProcessTable().sample(child.pid, Listed("C", 1))
    assert (seen.rank_of, seen.ours) == (os.getppid(), False)
    assert (seen.belongs_to(os.getppid()), seen.belongs_to(os.getpid()), seen.belongs_to(None)) == (True, False, False)


def test_a_process_on_two_cards_is_looked_up_once_a_round(nvml_here: Load, monkeypatch: pytest.MonkeyPatch, reader: CardReader) -> None:
    nvml_here(f"count 2\nprocess 0 compute {os.getpid()} 1\nprocess 1 compute {os.getpid()} 2\n")
    looks: list[int] = []
    real = ProcessTable._look
    monkeypatch.setattr(ProcessTable, "_look", lambda table, pid: (looks.append(pid), real(table, pid))[1])
    first, second = (card.processes or () for card in reader.sample().devices)
    assert looks == [os.getpid()]
    assert [process.memory for process in (*first, *second)] == [1, 2]


# -- in a container -------------------------------------------------------------------------------------------------------


def fake_proc(folder: Path, namespace: str, **files: str) -> str:
    """A /proc with our namespace, and for each `pid_N` a process with that file open."""
    (folder / "self" / "ns").mkdir(parents=True)
    (folder / "self" / "ns" / "pid").symlink_to(namespace)
    for name, target in files.items():
        opened = folder / name.removeprefix("pid_") / "fd"
        opened.mkdir(parents=True)
        (opened / "0").symlink_to("/dev/null")
        (opened / "7").symlink_to(target)
    return str(folder)


CONTAINER = "pid:[4026532210]"
MACHINE = "pid:[4026531836]"


@pytest.mark.parametrize(
    ("namespace", "file", "foreign"),
    [
        (CONTAINER, "/dev/nvidia0", False),
        (CONTAINER, "/dev/nvidia-uvm", False),
        (CONTAINER, "/home/alice/nvidia.txt", True),
        (MACHINE, "/home/alice/nvidia.txt", False),
    ],
)
def test_a_number_that_exists_in_a_container_is_believed_if_a_card_is_open(
    nvml_here: Load, tmp_path: Path, namespace: str, file: str, foreign: bool
) -> None:
    nvml_here(f"count 1\nprocess 0 compute {os.getpid()} 1048576\n")
    proc = fake_proc(tmp_path / "proc", namespace, **{f"pid_{os.getpid()}": file})
    (process,) = processes(CardReader(Nvml(), proc=proc))
    assert (process.foreign, process.name is None, process.memory) == (foreign, foreign, 1048576)


def test_a_process_that_was_believed_once_stays_so_when_it_closes_the_card(nvml_here: Load, tmp_path: Path) -> None:
    nvml_here(f"count 1\nprocess 0 compute {os.getpid()} 1\n")
    reader = CardReader(Nvml(), proc=fake_proc(tmp_path / "proc", CONTAINER, **{f"pid_{os.getpid()}": "/dev/nvidia0"}))
    assert [process.foreign for process in processes(reader)] == [False]
    (tmp_path / "proc" / str(os.getpid()) / "fd" / "7").unlink()
    assert [process.foreign for process in processes(reader)] == [False]


def test_a_number_that_does_not_exist_in_a_container_is_foreign(nvml_here: Load, tmp_path: Path) -> None:
    nvml_here(f"count 1\nprocess 0 compute {NOBODY} 1\n")
    (process,) = processes(CardReader(Nvml(), proc=fake_proc(tmp_path / "proc", CONTAINER)))
    assert (process.foreign, process.name, process.user) == (True, None, None)


def test_a_process_whose_files_may_not_be_looked_at_is_foreign(nvml_here: Load, tmp_path: Path) -> None:
    nvml_here(f"count 1\nprocess 0 compute {os.getpid()} 1\n")
    (process,) = processes(CardReader(Nvml(), proc=fake_proc(tmp_path / "proc", CONTAINER)))
    assert (process.foreign, process.name) == (True, None)


def test_a_system_without_proc_is_no_container(nvml_here: Load, tmp_path: Path) -> None:
    environment = nvml_here(f"count 1\nprocess 0 compute {os.getpid()} 1\n")
    reader = CardReader(Nvml(), proc=str(tmp_path / "nothing"))
    assert [process.foreign for process in processes(reader)] == [False]
    write(environment, "count 1\n")
    assert processes(reader) == []

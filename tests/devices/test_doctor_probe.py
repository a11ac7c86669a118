"""Torch is asked in a process of its own, whatever state it is in; and two of them are set to add up."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from doctor_torches import GPUS, HANG, RANKS, RANKS_DISTRIBUTED, environ_with, environ_without
from pasted_commands import assert_pasteable

from tuitrain.devices.doctor.bounded import Ended, within
from tuitrain.devices.doctor.exchange import all_reduce, two_devices
from tuitrain.devices.doctor.torch_probe import probe, read_answer

BOUND = 60.0
"""Seconds for what ends by itself, on a slow machine."""


def test_the_real_torch_of_this_machine() -> None:
    import importlib.metadata

    facts = probe(dict(os.environ), BOUND)
    assert facts.version is not None
    assert facts.version.startswith(importlib.metadata.version("torch").partition("+")[0])
    assert (facts.failed, facts.hung_at) == (None, None)
    assert facts.count is not None


def test_two_gpus(tmp_path: Path) -> None:
    facts = probe(environ_with(tmp_path, GPUS, FULL="1"), BOUND)
    assert (facts.version, facts.cuda, facts.count, facts.started, facts.nccl, facts.peer) == ("2.13.0+cu130", "13.0", 2, True, True, True)
    assert facts.architectures == ("sm_80", "sm_90")
    assert [(device.name, device.capability, device.error) for device in facts.devices] == [
        ("GPU 0", (9, 0), ""),
        ("GPU 1", (9, 0), "CUDA out of memory"),
    ]


def test_a_gpu_that_computes_wrongly(tmp_path: Path) -> None:
    facts = probe(environ_with(tmp_path, GPUS, SUM="0"), BOUND)
    assert [device.error for device in facts.devices] == ["1 + 1 is 0.0 there"] * 2


def test_cuda_does_not_start(tmp_path: Path) -> None:
    facts = probe(environ_with(tmp_path, GPUS, CUDA_SAYS="Error 802: system not yet initialized\x1b[2J"), BOUND)
    assert (facts.count, facts.started, facts.failed) == (2, False, None)
    assert facts.start_error == "Error 802: system not yet initialized·[2J"


def test_no_torch(tmp_path: Path) -> None:
    facts = probe(environ_without(tmp_path), BOUND)
    assert (facts.installed, facts.failed, facts.version) == (False, None, None)


@pytest.mark.parametrize(
    ("init", "said"),
    [
        ("raise ImportError('libcudnn.so.9: cannot open shared object file')", "ImportError: libcudnn.so.9"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV at: import torch"),
        ("print('{\"count\": 7')\nprint('[1]')\nraise SystemExit(3)", "exit code 3"),
    ],
)
def test_a_broken_torch(tmp_path: Path, init: str, said: str) -> None:
    facts = probe(environ_with(tmp_path, init), BOUND)
    assert said in str(facts.failed)
    assert (facts.count, facts.installed) == (None, True)


def test_an_import_that_hangs_is_killed(tmp_path: Path) -> None:
    facts = probe(environ_with(tmp_path, HANG), 1.0)
    assert facts.hung_at == "import torch"
    assert facts.version is None


def test_what_was_known_before_a_hang_is_kept(tmp_path: Path) -> None:
    stop, done = threading.Event(), []
    environ = environ_with(tmp_path, GPUS.replace('said == "hang"', 'open(os.environ["MARK"], "w") and said == "hang"'))
    environ |= {"CUDA_SAYS": "hang", "MARK": str(tmp_path / "mark")}
    thread = threading.Thread(target=lambda: done.append(probe(environ, BOUND, stop)))
    thread.start()
    deadline = time.monotonic() + BOUND
    while not (tmp_path / "mark").exists() and time.monotonic() < deadline:
        thread.join(0.02)
    stop.set()
    thread.join(BOUND)
    assert (done[0].hung_at, done[0].count, done[0].cuda) == ("start CUDA", 2, "13.0")


def test_the_time_in_a_step_is_that_steps() -> None:
    out = '{"step": "import torch", "at": 100.0}\n{"step": "start CUDA", "at": 104.0}\n'
    assert read_answer(Ended(None, out, "", 110.0)).hung_seconds == 6.0
    assert read_answer(Ended(None, out + '{"step": "end", "at": 105.0}\n', "", 110.0)).hung_at is None
    assert read_answer(Ended(-signal.SIGKILL, "", "", 1.0)).failed == "the process was ended by SIGKILL at: import torch"


def test_python_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    facts = probe({}, 1.0)
    assert (facts.asked, "could not be started" in str(facts.failed)) == (False, True)


def test_work_that_raises_or_hangs_is_answered_for() -> None:
    let_go = threading.Event()

    def fail() -> str:
        raise PermissionError

    assert within(BOUND, lambda: "done", "") == "done"
    assert within(BOUND, fail, "otherwise") == "otherwise"
    assert within(0.01, lambda: str(let_go.wait(BOUND)), "otherwise") == "otherwise"
    let_go.set()


# -- two ranks ------------------------------------------------------------------------------------------------------------


def test_two_ranks_over_gloo_on_this_cpu() -> None:
    found = all_reduce(["cpu", "cpu"], seconds=BOUND)
    assert (found.check, found.verdict) == ("all-reduce", "ok")
    assert "on the CPU added up over gloo" in found.found


def ranks(tmp_path: Path, **variables: str) -> dict[str, str]:
    return environ_with(tmp_path, RANKS, RANKS_DISTRIBUTED, **variables)


@pytest.mark.parametrize("devices", [("cuda:0", "cuda:1"), ("cpu", "cpu")])
def test_a_hanging_rank_is_named(tmp_path: Path, devices: tuple[str, str]) -> None:
    environ = ranks(tmp_path, HANGING_RANK="1", NCCL_P2P_DISABLE="1")
    found = all_reduce(devices, environ=environ, seconds=3.0)
    assert found.verdict == "problem"
    assert f"rank 1 ({devices[1]}) did not end within 3 s, at: meeting the other process" in found.found
    assert_pasteable(found)


def test_a_hang_between_peers_is_told_from_others(tmp_path: Path) -> None:
    found = all_reduce(("cuda:0", "cuda:1"), environ=ranks(tmp_path, PEERS_HANG="1"), seconds=6.0)
    assert found.verdict == "problem"
    assert "peer to peer" in found.found
    assert found.command == "export NCCL_P2P_DISABLE=1"
    assert_pasteable(found)


def test_ranks_that_work_and_ranks_that_do_not(tmp_path: Path) -> None:
    works = all_reduce(("cuda:0", "cuda:1"), environ=ranks(tmp_path), seconds=BOUND)
    assert (works.verdict, "cuda:0 and cuda:1 added up over NCCL" in works.found) == ("ok", True)
    wrong = all_reduce(("cuda:0", "cuda:1"), environ=ranks(tmp_path, WRONG="1"), seconds=BOUND)
    assert (wrong.verdict, "the sum is wrong" in wrong.found) == ("problem", True)
    assert_pasteable(wrong)
    assert "tuitrain doctor --all-reduce" in str(wrong.command)


def test_a_rank_that_fails_is_named(tmp_path: Path) -> None:
    found = all_reduce(("cpu", "cpu"), environ=ranks(tmp_path, FAILING_RANK="1"), seconds=BOUND)
    assert found.verdict == "problem"
    assert "rank 1 (cpu) failed at: meeting the other process (RuntimeError: no route to gloo)" in found.found


def test_a_stopped_test_ends_at_once(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    assert "stopped" in all_reduce(("cpu", "cpu"), environ=ranks(tmp_path, HANGING_RANK="0"), seconds=BOUND, stop=stop).found


@pytest.mark.parametrize("devices", [(), ("cpu",), ("cpu", "cuda:0"), ("cuda:0", "cuda:1", "cuda:2")])
def test_devices_that_make_no_pair(devices: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="needs two GPUs"):
        all_reduce(devices)


def test_the_pair_is_the_first_two_gpus_that_cuda_offers() -> None:
    import doctor_machines as machines

    cards = [machines.card(number, cuda_index=index) for number, index in enumerate((None, 2, 0, 1))]
    assert two_devices(machines.snapshot(*cards)) == ("cuda:0", "cuda:1")
    assert two_devices(machines.snapshot(cards[1])) == ("cpu", "cpu")

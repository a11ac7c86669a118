"""What is left when the processes of a group begin badly, or when the one that asked for a trial is killed: nothing."""

from __future__ import annotations

import argparse
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_groups import AGENT, BOUND, RANK, events_of, processes_of, quiet_control, small_run, wait_until

from tuitrain.config import ConfigError
from tuitrain.engine.ranks.launcher import launch
from tuitrain.events import Notice, RunEnded
from tuitrain.session.elastic import elastic_train
from tuitrain.session.rank_silence import Bounds
from tuitrain.session.ranks import HERE
from tuitrain.wire import Refused, Unpacker

TRIAL = """
import threading
from tuitrain.recipes import load_recipe
from tuitrain.session.preflight.plans import Plan
from tuitrain.session.preflight.trials import ProcessTrials
ProcessTrials(steps=10**6, seconds=300).measure(load_recipe("random-linear"), Plan("ddp", ("cpu", "cpu")), threading.Event())
"""


@contextmanager
def trial(folder: Path, **environment: str) -> Iterator[psutil.Process]:
    """A process that waits for the answer of a trial of two ranks."""
    (folder / "tmp").mkdir()
    asker = psutil.Popen([sys.executable, "-c", TRIAL], env={**os.environ, "TMPDIR": str(folder / "tmp"), **environment})
    try:
        yield asker
    finally:
        for process in (*asker.children(recursive=True), asker) if asker.poll() is None else ():
            process.kill()
        asker.wait(BOUND)


@pytest.mark.parametrize("begun", ["importing torch", "ranks"])
def test_a_trial_does_not_outlive_the_one_that_asked(begun: str, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    if begun == "importing torch":
        (modules / "torch").mkdir(parents=True)
        (modules / "torch" / "__init__.py").write_text(f"import time\nopen({str(tmp_path / 'imported')!r}, 'w')\ntime.sleep(600)\n")
    with trial(tmp_path, PYTHONPATH=str(modules)) as asker:
        if begun == "ranks":
            wait_until(lambda: len(processes_of(asker.pid, RANK)) == 2, BOUND)
        else:
            wait_until((tmp_path / "imported").exists, BOUND)
        family = asker.children(recursive=True)
        assert family
        asker.kill()
        assert not psutil.wait_procs(family, timeout=BOUND)[1]
    wait_until(lambda: not list((tmp_path / "tmp").iterdir()), BOUND)


def test_ranks_that_refuse_leave_nothing_and_a_long_path_for_temporary_files_leaves_room_for_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("long" * 30)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", None)
    made, make = list[Path](), tempfile.mkdtemp

    def noted(*args: Any, **kwargs: Any) -> str:
        made.append(Path(make(*args, **kwargs)))
        return str(made[-1])

    monkeypatch.setattr(tempfile, "mkdtemp", noted)
    # A rank says it, over the socket, before the run has begun.
    with pytest.raises(ConfigError, match="even_split: batch_size is 5"):
        events_of(small_run(2, batch_size=5, even_split=True), tmp_path / "run")
    assert [folder.parent for folder in made] == [long, Path("/tmp")]
    assert not [folder for folder in made if folder.exists()]


def test_an_interface_that_is_not_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,none0")
    with pytest.raises(ConfigError, match=r"^GLOO_SOCKET_IFNAME: 'none0' is no network interface of this machine; it must be one of lo"):
        events_of(small_run(2), tmp_path / "run")


def test_ranks_for_whose_output_there_is_no_place_are_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(logging, "disable", lambda level: None)
    # As where a disk is full: the folder for it cannot be made.
    (tmp_path / "logs").symlink_to("nowhere")
    options = argparse.Namespace(ranks=2, max_restarts=3, rank_module=RANK, nnodes="1", endpoint=HERE)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert launch(options, theirs, tmp_path) == 1
        (said,) = Unpacker().feed(ours.recv(1 << 16))
    assert said == Refused(text=f"strategy: ddp cannot start its processes: File exists ({tmp_path / 'logs'}); use split.")


def test_ranks_that_never_say_a_word_are_named_and_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "silent_rank.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = small_run(2, max_restarts=0)
    events, seen = [], list[psutil.Process]()
    for event in elastic_train(config, quiet_control(), agent=AGENT, rank="silent_rank", bounds=Bounds(silent=1, hung=2)):
        events.append(event)
        seen = seen or processes_of(os.getpid(), "silent_rank")
    notices = [event.text for event in events if isinstance(event, Notice)]
    for rank, process in enumerate(seen):
        silent = rf"rank {rank} \(cpu, pid {process.pid}\) was started and has not said a word for \d+ s"
        assert any(re.search(silent, text) for text in notices), notices
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.state == "failed"
    assert re.search(r"did not answer for \d+ s and was killed, and max_restarts is 0\.", ended.error or "")
    assert len(seen) == 2
    assert not psutil.wait_procs(seen, timeout=BOUND)[1]


def test_the_last_words_of_a_rank_need_no_end_of_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short_rank.py").write_text("import sys\nprint('first')\nprint('so it ends', end='', flush=True)\nsys.exit(3)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config, control, printed = small_run(1, strategy="ddp", max_restarts=0), quiet_control(), list[str]()
    control.output = printed.append
    *_, ended = elastic_train(config, control, agent=AGENT, rank="short_rank")
    assert printed == ["rank 0: first", "rank 0: so it ends"]
    assert isinstance(ended, RunEnded)
    assert ended.error == "rank 0 (cpu) died (exit code 3), and max_restarts is 0. It said last: so it ends"


def test_what_a_rank_printed_that_died_before_the_run_began_goes_to_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "misfit_rank.py").write_text(
        "from tuitrain.engine.ranks import rank\n"
        "def fail(*given):\n    raise RuntimeError('Failed to register memory\\x1b: system error.\\nLast Error: \\n')\n"
        "rank._train = fail\nrank.main()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config, control = small_run(1, strategy="ddp", max_restarts=0), quiet_control()
    control.prints_errors = True
    *_, ended = elastic_train(config, control, agent=AGENT, rank="misfit_rank")
    assert isinstance(ended, RunEnded)
    said = "It said last: RuntimeError: Failed to register memory·: system error (misfit_rank.py, line 3)"
    assert ended.error == f"rank 0 (cpu) died (exit code 1), and max_restarts is 0. {said}"
    printed = capsys.readouterr().err.splitlines()
    assert printed[0] == "rank 0: Traceback (most recent call last):"
    assert "rank 0: Last Error: " in printed


CRASHING_NET = """
import signal

from torch import nn


class Net(nn.Linear):
    def __init__(self):
        super().__init__(5, 2)
        self.count = 0

    def forward(self, inputs):
        self.count += 1
        if self.count == 3:
            signal.raise_signal(signal.SIGABRT)
        return super().forward(inputs)
"""


def test_a_rank_that_crashes_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crashing_net.py").write_text(CRASHING_NET)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = small_run(1, strategy="ddp", max_restarts=0, model="crashing_net:Net")
    ended = events_of(config, tmp_path / "run")[-1]
    assert isinstance(ended, RunEnded)
    assert ended.error == (
        "rank 0 (cpu) died (SIGABRT), and max_restarts is 0. It crashed: Aborted, in forward (crashing_net.py, line 15)."
    )
    assert "Current thread" in (tmp_path / "run" / "ranks" / "rank-0.log").read_text()


def test_the_last_words_of_a_launcher_need_none_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "short_agent.py").write_text("print('first\\nso it ends', end='')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"the launcher of the processes died \(exit code 0\) before the run began: so it ends\."):
        list(elastic_train(small_run(2), quiet_control(), agent="short_agent", rank=RANK))


def test_a_launcher_whose_host_dies_before_torch_is_loaded_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(f"import time\nopen({str(tmp_path / 'imported')!r}, 'w')\ntime.sleep(600)\n")
    program = "from tuitrain.session.ranks import Ranks; from tuitrain.config import RunConfig; import time\n"
    program += f"Ranks({AGENT!r}, {RANK!r}, RunConfig(device='cpu,cpu', strategy='ddp')); time.sleep(600)"
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    host = subprocess.Popen([sys.executable, "-c", program], env=environment)
    try:
        wait_until((tmp_path / "imported").exists, BOUND)
        launchers = processes_of(host.pid, AGENT)
        assert len(launchers) == 1
    finally:
        host.kill()
        host.wait()
    assert not psutil.wait_procs(launchers, timeout=BOUND)[1]
    wait_until(lambda: not list((tmp_path / "tmp").iterdir()), BOUND)

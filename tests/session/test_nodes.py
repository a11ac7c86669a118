"""Several machines: two network namespaces, each with a host name of its own, of which nothing but the network is shared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_groups import BOUND, events_of, losses_of, small_run, wait_until

PORT = 29500
FIRST, SECOND = "10.213.0.1", "10.213.0.2"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machines() -> Iterator[tuple[str, str]]:
    """The names of two network namespaces with a cable between them."""
    if shutil.which("ip") is None:
        pytest.skip("needs ip of iproute2 (a Debian package)")
    names = (f"tuitrain-{os.getpid()}-a", f"tuitrain-{os.getpid()}-b")
    try:
        for name in names:
            ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.decode().strip()}")
    try:
        ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, (FIRST, SECOND), strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                ip("-n", name, "link", "set", link, "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


class Machine:
    """`tuitrain run` typed on one of the machines; what it prints is read all the time."""

    def __init__(self, namespace: str, name: str, folder: Path, temporary: str, *options: str) -> None:
        self.events: list[dict[str, Any]] = []
        command = ["ip", "netns", "exec", namespace, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', name, sys.executable]
        command += ["-m", "tuitrain", "run", "random-linear", "--strategy", "ddp", "--device", "cpu", "--precision", "fp64", "--json"]
        command += ["--set", "nnodes=2", "--set", f"rdzv_endpoint={FIRST}:{PORT}", "--runs-dir", str(folder / name), *options]
        self.errors = folder / f"{name}.txt"
        with self.errors.open("w") as errors:
            environment = {**os.environ, "TMPDIR": temporary}
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def family(self) -> list[psutil.Process]:
        command = psutil.Process(self.process.pid)
        return [command, *command.children(recursive=True)]

    def kill(self) -> None:
        """As when the machine loses its power."""
        for process in self.family() if self.process.poll() is None else ():
            process.kill()
        self.end()

    def end(self) -> int:
        """Wait for the command; its exit code."""
        code = self.process.wait(BOUND)
        self._reader.join()
        return code

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                self.events.append(json.loads(line))


@pytest.fixture
def typed(machines: tuple[str, str], tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Types the command on machine 0 or 1."""
    found: list[Machine] = []
    # A machine without power leaves its temporary files.
    with tempfile.TemporaryDirectory(prefix="nodes-") as temporary:

        def start(number: int, *options: str) -> Machine:
            found.append(Machine(machines[number], f"node-{number}", tmp_path, temporary, *options))
            return found[-1]

        yield start
        for machine in found:
            machine.kill()


@pytest.mark.netns
def test_two_machines_train_one_run_and_the_one_that_dies_may_come_back(typed: Callable[..., Machine], tmp_path: Path) -> None:
    host, guest = typed(0, "--epochs", "1000000"), typed(1, "--epochs", "1000000")
    wait_until(lambda: len(host.of("checkpoint")) > 5 or host.process.poll() is not None, BOUND)
    begun = host.of("run_started")[0]
    assert begun["device"] == ["cpu", "node-1/cpu"]
    assert f"Joined the run {begun['run']} on node-0 as rank 1." in guest.errors.read_text()
    guest.kill()
    wait_until(lambda: "has gone; waiting for the machines to meet again" in host.errors.read_text(), BOUND)

    guest = typed(1, "--epochs", "1000000")
    wait_until(lambda: len(host.of("run_started")) > 1 or host.process.poll() is not None, BOUND)
    again = host.of("run_started")[1]
    assert (again["run"], again["resumed_from"] >= 20) == (begun["run"], True)
    assert f"the group started again from step {again['resumed_from']}" in host.errors.read_text()
    told = len(host.events)
    wait_until(lambda: any(event["event"] == "step" for event in host.events[told:]), BOUND)

    # Any of the machines ends the run, with a checkpoint, and all commands with it.
    families = [process for machine in (host, guest) for process in machine.family()]
    guest.process.send_signal(signal.SIGINT)
    assert (host.end(), guest.end()) == (130, 130)
    ended = host.of("run_ended")[0]
    assert (ended["state"], guest.of("run_ended")[0]["run"]) == ("interrupted", begun["run"])
    assert [path.name for path in (tmp_path / "node-0").iterdir()] == [begun["run"]]
    assert (tmp_path / "node-0" / begun["run"] / "checkpoints" / f"step-{ended['step']:08d}").is_dir()
    assert not (tmp_path / "node-1").exists()
    assert not psutil.wait_procs(families, timeout=BOUND)[1]

    alone = losses_of(events_of(small_run(1, max_steps=20, epochs=100), tmp_path / "alone"))
    losses = {event["step"]: event["loss"] for event in host.of("step")}
    assert {step: losses[step] for step in alone} == pytest.approx(alone, rel=1e-9)


@pytest.mark.netns
def test_machines_that_are_asked_for_different_things_say_what_differs(typed: Callable[..., Machine], tmp_path: Path) -> None:
    host, guest = typed(0, "--lr", "0.01"), typed(1, "--lr", "0.02")
    assert (host.end(), guest.end()) == (2, 2)
    for machine in (host, guest):
        assert (
            machine.errors.read_text()
            .strip()
            .endswith("lr: it is 0.01 on node-0 (rank 0) and 0.02 on node-1 (rank 1); all must train with the same.")
        )
    assert not (tmp_path / "node-0").exists()

"""A run that is started over ssh, loses its connection, and is attached to from a second login: through a real sshd on this machine."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from programs import state, until
from terminal import TUITRAIN, Terminal

BRAILLE = "[\u2801-\u28ff]"


class Sshd:
    """An OpenSSH server on loopback with keys of its own, for this user alone."""

    def __init__(self, folder: Path, program: str, port: int) -> None:
        self._folder, self._port = folder, port
        folder.mkdir(mode=0o700)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True, timeout=30)
        shutil.copy(folder / "user.pub", folder / "authorized")
        (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text(encoding='ascii')}", encoding="ascii")
        (folder / "config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\nPidFile none\n"
            "UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
            "PermitUserRC no\nPrintMotd no\n",
            encoding="ascii",
        )
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen([program, "-D", "-e", "-f", str(folder / "config")], stderr=log, stdin=subprocess.DEVNULL)

    def __enter__(self) -> Sshd:
        until(self._listens, what=lambda: self.log)
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=20)

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def login(self, env: dict[str, str], *command: str) -> Terminal:
        """A terminal that is logged in, in which `command` runs."""
        remote = shlex.join(["env", *(f"{name}={value}" for name, value in env.items()), *command])
        options = {
            "IdentityFile": f"{self._folder}/user",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f"{self._folder}/known",
            "BatchMode": "yes",
            "EscapeChar": "none",
        }
        flags = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        return Terminal(["ssh", "-F", "none", "-tt", "-p", str(self._port), *flags, f"{getpass.getuser()}@127.0.0.1", remote], {}, 100, 30)

    def _listens(self) -> bool:
        assert self._process.poll() is None, self.log
        with socket.socket() as there:
            return there.connect_ex(("127.0.0.1", self._port)) == 0


@pytest.fixture
def sshd(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Sshd]:
    program = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None or shutil.which("ssh") is None:
        pytest.skip("OpenSSH's server or client is missing: each is a Debian package")
    with Sshd(tmp_path / "ssh", program, free_port()) as server:
        yield server


@pytest.mark.sshd
def test_a_lost_connection_costs_nothing_and_a_second_login_shows_the_run_again(env: dict[str, str], sshd: Sshd) -> None:
    env |= {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    runs = Path(env["TUITRAIN_RUNS"])
    pid = 0
    try:
        training = ("--data", "synthetic", "--device", "cpu", "--batch-size", "16", "--epochs", "1000")
        with sshd.login(env, TUITRAIN, "run", "seed-cnn", "--tui", *training) as first:
            first.wait(r"\[16, 3, 32, 32\]")
            first.wait(BRAILLE)
            (run,) = os.listdir(runs)
            # The screen shows it before it is written.
            until(lambda: [state(env, run)[name] for name in ("state", "attached")] == ["running", 1], what=lambda: state(env, run))
            before = state(env, run)
            pid = before["pid"]
            assert psutil.Process(pid).terminal() is not None
            # The connection is cut: nothing is said to the other side.
            os.kill(first.pid, signal.SIGKILL)
            until(lambda: state(env, run)["attached"] == 0, what=lambda: state(env, run))
            lost_at = state(env, run)["step"]
        until(lambda: state(env, run)["step"] > lost_at + 5, what=lambda: state(env, run))
        listed = subprocess.run([TUITRAIN, "runs"], env={**os.environ, **env}, capture_output=True, text=True, timeout=60)
        assert "running, detached" in listed.stdout
        assert state(env, run)["pid"] == pid, "the same process goes on"
        with sshd.login(env, TUITRAIN, "attach", "last") as second:
            second.wait("running")
            second.wait(BRAILLE)
            until(lambda: state(env, run)["attached"] == 1, what=lambda: second.text)
            shown = step_on(second)
            until(lambda: second.read(0.05) and step_on(second) > shown + 5, what=lambda: second.text)
            second.press("x")
            second.wait("stopped")
            second.press("q")
            assert second.exit_code() == 0
        until(lambda: not psutil.pid_exists(pid), what=lambda: state(env, run))
    finally:
        if pid and psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
    after = state(env, run)
    assert (after["state"], after["attached"], after["pid"]) == ("stopped", 0, pid)
    assert after["step"] > lost_at
    assert list((runs / run / "checkpoints").glob(f"step-{after['step']:08d}/manifest.json"))


def step_on(terminal: Terminal) -> int:
    """The step that the screen shows."""
    return int(terminal.wait(r"step +([\d,]+)/").group(1).replace(",", ""))

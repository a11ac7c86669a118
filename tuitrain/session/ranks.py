"""The processes of a group on this machine as their host sees them: the launcher, one connection for each rank, and what they print."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tuitrain.config import RunConfig
from tuitrain.events import Event
from tuitrain.paths import LONGEST_SOCKET_PATH
from tuitrain.python import module_arguments
from tuitrain.runs.process import is_same, start_time
from tuitrain.wire import ADDRESS, Hello, Unpacker, pack

END_SECONDS = 3.0
HERE = "127.0.0.1:0"
"""Where the ranks of one machine meet: any free port."""
_PIECE = 1 << 16


@dataclass
class Peer:
    """One connection, or with no `line` a rank that was started and has not said a word yet.

    `heard`: when it last said something, or was started. `number` is the rank, `None` for the launcher.
    """

    line: socket.socket | None
    heard: float
    number: int | None = None
    pid: int = 0
    pid_started: float | None = None
    named: bool = False
    unpacker: Unpacker = field(default_factory=Unpacker)


class Ranks:
    """Starts the launcher, and ends everything that it started. All calls come from one thread.

    Args:
        agent, rank: the modules that the launcher and each rank run.
        config: its devices have a rank each.

    Raises:
        OSError: no process can be started.
    """

    def __init__(self, agent: str, rank: str, config: RunConfig) -> None:
        self.peers: list[Peer] = []
        self.expected: list[Peer] = []
        """Ranks that have not said a word yet."""
        self.output: list[str] = []
        """Lines that the ranks and the launcher printed and nobody has taken yet."""
        self._pids: dict[int, float | None] = {}
        """Of each rank that was started its process, and when that began."""
        self._folder = _private_folder()
        self._selector = selectors.DefaultSelector()
        self._rest = b""
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            address = self._folder / "host"
            self._listener.bind(str(address))
            self._listener.listen()
            self._listener.setblocking(False)
            asked = ["--rank-module", rank, "--ranks", str(len(config.device.split(",")))]
            asked += ["--max-restarts", str(config.max_restarts), "--nnodes", config.nnodes, "--endpoint", config.rdzv_endpoint or HERE]
            quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR", "LOGLEVEL": "ERROR"}
            self.process = subprocess.Popen(
                [sys.executable, *module_arguments(agent, *asked)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**quiet, **os.environ, ADDRESS: str(address)},
                # Ctrl+C in the terminal is for the host, which lets the ranks end in their own way.
                start_new_session=True,
            )
        except OSError:
            self._listener.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self.process.stdout, selectors.EVENT_READ)

    def receive(self, timeout: float) -> Iterator[tuple[Peer, Event]]:
        """What was said within `timeout` seconds, with who said it."""
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, Peer):
                yield from self._read(key.data)
            else:
                self._read_output()

    def rank(self, number: int) -> Peer | None:
        """The connection of a rank, where it has one."""
        return next((peer for peer in self.peers if peer.number == number), None)

    def send(self, peer: Peer, message: Event) -> None:
        """Tell one of them; one that has gone hears nothing."""
        assert peer.line is not None
        with suppress(OSError):
            peer.line.sendall(pack(message))

    def expect(self, pids: dict[int, int]) -> None:
        """These ranks (process by rank) were started; any of them may have spoken already."""
        known = {peer.pid for peer in self.peers}
        self.expected = [
            Peer(None, time.monotonic(), number, pid, self._pids.setdefault(pid, start_time(pid)))
            for number, pid in pids.items()
            if pid not in known
        ]

    def forget_numbers(self) -> None:
        """The ranks have died: what their connections still say is nobody's."""
        self.expected = []
        for peer in self.peers:
            peer.number = None

    def kill(self, peer: Peer) -> None:
        """End a rank that obeys nothing."""
        _kill(peer.pid, peer.pid_started)

    def wait(self, seconds: float) -> bool:
        """Let the launcher end by itself, and read what is printed meanwhile; whether it has."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            for _ in self.receive(0.05):
                pass
        if self.process.poll() is None:
            return False
        self.read_rest()
        return True

    def read_rest(self) -> None:
        """When the launcher has ended: what was printed until then and not read yet."""
        for _ in range(2):  # a pipe holds no more than one piece, and after it comes the end
            self._read_output()

    def close(self) -> None:
        """End what still lives, with a bound, and leave no file; called again it does no harm."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            if not self.wait(END_SECONDS):
                self.process.kill()
        for pid, started in self._pids.items():
            _kill(pid, started)
        self.process.wait()
        self.read_rest()
        self.process.stdin.close()
        self.process.stdout.close()
        for peer in list(self.peers):
            self._forget(peer)
        self._selector.close()
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _accept(self) -> None:
        line, _ = self._listener.accept()
        peer = Peer(line, time.monotonic())
        self.peers.append(peer)
        self._selector.register(line, selectors.EVENT_READ, peer)

    def _read(self, peer: Peer) -> Iterator[tuple[Peer, Event]]:
        assert peer.line is not None
        try:
            piece = peer.line.recv(_PIECE)
            messages = peer.unpacker.feed(piece)
        except (OSError, msgspec.DecodeError):
            piece, messages = b"", []
        peer.heard = time.monotonic()
        for message in messages:
            if isinstance(message, Hello):
                peer.number, peer.pid = message.rank, message.pid
                peer.pid_started = self._pids[message.pid] = start_time(message.pid)
                self.expected = [other for other in self.expected if other.pid != message.pid]
            yield peer, message
        if not piece:
            self._forget(peer)

    def _forget(self, peer: Peer) -> None:
        if peer in self.peers and peer.line is not None:
            self.peers.remove(peer)
            self._selector.unregister(peer.line)
            peer.line.close()

    def _read_output(self) -> None:
        assert self.process.stdout is not None
        try:
            piece = os.read(self.process.stdout.fileno(), _PIECE)
        except (BlockingIOError, ValueError):
            return
        if not piece and self.process.stdout in self._selector.get_map():
            self._selector.unregister(self.process.stdout)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if not piece and self._rest:
            # Whoever aborts does not end its last line.
            lines, self._rest = [self._rest], b""
        self.output += [line.decode(errors="replace") for line in lines]


def _private_folder() -> Path:
    """A new folder of this user's alone, with a path that leaves room for the name of a socket.

    Raises:
        OSError: none can be made.
    """
    folder = Path(tempfile.mkdtemp(prefix="tuitrain-"))
    if len(os.fsencode(folder / "host")) <= LONGEST_SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="tuitrain-", dir="/tmp"))


def _kill(pid: int, started: float | None) -> None:
    """Kill a process, unless its number belongs to another one by now."""
    if started is not None and is_same(pid, started):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

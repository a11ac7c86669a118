"""The app in a real terminal: open, train, see shapes and curve, quit, and find the terminal as it was."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import runs, tuitrain, until
from terminal import TUITRAIN, Terminal

BRAILLE = "[\u2801-\u28ff]"
SIZES = [(80, 24), (120, 40)]


def states(env: dict[str, str]) -> list[str]:
    """The state of every run below `env`."""
    return [row["state"] for row in runs(env)]


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_the_main_job_from_the_first_frame_to_the_last(env: dict[str, str], columns: int, rows: int) -> None:
    with Terminal([TUITRAIN], env, columns, rows) as terminal:
        terminal.wait("seed-cnn")
        terminal.wait(r"\bcpu\b")
        assert "libtorch" not in Path(f"/proc/{terminal.pid}/maps").read_text(encoding="utf-8"), "the first frame must not wait for torch"
        terminal.wait("Enter")
        terminal.press("Enter")
        terminal.wait(r"\[64, 3, 32, 32\]")
        terminal.wait(BRAILLE)
        terminal.wait("running")
        terminal.press(" ")
        terminal.wait("paused")
        terminal.press(" ")
        terminal.wait("running")
        terminal.press("x")
        terminal.wait("stopped")
        terminal.press("q")
        assert terminal.exit_code() == 0
    assert b"\x1b[?1049l" in terminal.raw, "the screen before the app must come back"
    assert terminal.raw.rfind(b"\x1b[?25h") > terminal.raw.rfind(b"\x1b[?25l"), "the cursor must be visible again"
    assert states(env) == ["stopped"]


@pytest.mark.parametrize("elsewhere", ["2>kept", "| tee kept"])
def test_either_standard_stream_may_go_elsewhere(env: dict[str, str], tmp_path: Path, elsewhere: str) -> None:
    with Terminal(["sh", "-c", f"cd {tmp_path} && {TUITRAIN} {elsewhere}"], env) as terminal:
        terminal.wait("seed-cnn")
        terminal.press("q")
        assert terminal.exit_code() == 0
    assert b"\x1b[?1049l" in terminal.raw
    assert "\x1b" not in (tmp_path / "kept").read_text(encoding="utf-8")


def test_a_model_that_asks_something_takes_no_key_from_the_app(env: dict[str, str]) -> None:
    argv = [TUITRAIN, "run", "random-linear", "--device", "cpu", "--set", "model=small_net:make_asking", "--tui"]
    with Terminal(argv, env) as terminal:
        terminal.wait(r"small_net:make_asking' raised EOFError")
        terminal.press("q")
        assert terminal.exit_code() == 0
    assert states(env) == []


def test_quit_while_training_stops_and_saves(env: dict[str, str], tmp_path: Path) -> None:
    with Terminal([TUITRAIN, "run", "seed-cnn", "--data", "synthetic", "--device", "cpu", "--tui"], env) as terminal:
        terminal.wait(r"\[64, 3, 32, 32\]")
        terminal.press("q")
        terminal.wait("(?i)stop and save")
        terminal.press("Enter")
        assert terminal.exit_code() == 0
    assert states(env) == ["stopped"]
    assert list((tmp_path / "runs").glob("*/checkpoints/step-*"))


def test_a_failed_run_leaves_the_app_alive(env: dict[str, str]) -> None:
    with Terminal([TUITRAIN, "run", "seed-cnn", "--data", "synthetic", "--device", "cpu", "--lr", "1e30", "--tui"], env) as terminal:
        terminal.wait("failed")
        terminal.wait("(?i)nan|inf|not finite")
        terminal.press("q")
        assert terminal.exit_code() == 0
    assert states(env) == ["failed"]


def test_what_libraries_print_lands_in_the_log_and_never_on_the_screen(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import ctypes, os, sys, torch\n"
        "def make(config):\n"
        "    print('from python \\x1b[2J')\n"
        "    print('from stderr', file=sys.stderr)\n"
        "    os.write(2, b'from the descriptor\\n')\n"
        "    ctypes.CDLL(None).puts(b'from C')\n"
        "    ctypes.CDLL(None).fflush(None)\n"
        "    return torch.nn.Linear(5, 2)\n",
        encoding="utf-8",
    )
    command = ["sh", "-c", f"cd {tmp_path} && exec {TUITRAIN} run random-linear --device cpu --set model=noisy:make --tui"]
    with Terminal(command, env) as terminal:
        terminal.wait("finished")
        terminal.press("o")
        for text in ("from python", "from stderr", "from the descriptor", "from C"):
            terminal.wait(text)
        assert b"from python \x1b[2J" not in terminal.raw
        terminal.press("q")
        assert terminal.exit_code() == 0
    log = next((tmp_path / "runs").glob("*/log.txt")).read_text(encoding="utf-8")
    assert "from the descriptor" in log
    assert "from C" in log


def test_resizing_while_training(env: dict[str, str]) -> None:
    with Terminal([TUITRAIN, "run", "seed-cnn", "--data", "synthetic", "--device", "cpu", "--tui"], env) as terminal:
        terminal.wait(r"\[64, 3, 32, 32\]")
        for columns, rows in ((80, 24), (40, 10), (1, 1), (200, 60), (120, 40)):
            terminal.resize(columns, rows)
            assert terminal.read(0.2), terminal.text
        terminal.wait(r"\[64, 3, 32, 32\]")
        terminal.press("x")
        terminal.wait("stopped")
        terminal.press("q")
        assert terminal.exit_code() == 0


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    """A tmux server of the test's own."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is missing: it is a Debian package")
    command = ["tmux", "-S", str(tmp_path / "tmux.sock"), "-f", "/dev/null"]
    yield command
    subprocess.run([*command, "kill-server"], capture_output=True, check=False)


Tell = Callable[..., str]


@pytest.fixture
def pane(env: dict[str, str], tmux: list[str]) -> tuple[Tell, Callable[[str], str]]:
    """Commands to tmux, and waiting for what a pane of its session `t` shows."""

    def tell(*args: str) -> str:
        return subprocess.run([*tmux, *args], capture_output=True, text=True, check=True, timeout=30, env={**os.environ, **env}).stdout

    def wait(pattern: str) -> str:
        end = time.monotonic() + 60
        while not re.search(pattern, screen := tell("capture-pane", "-p", "-t", "t")):
            assert time.monotonic() < end, f"{pattern!r} did not come:\n{screen}"
            time.sleep(0.05)
        return screen

    return tell, wait


@pytest.mark.tmux
def test_inside_tmux(env: dict[str, str], pane: tuple[Tell, Callable[[str], str]]) -> None:
    tell, wait = pane
    tell("new-session", "-d", "-s", "t", "-x", "80", "-y", "24", f"{TUITRAIN}; echo left with $?; exec cat")
    wait("seed-cnn")
    tell("send-keys", "-t", "t", "Enter")
    wait(r"\[64, 3, 32, 32\]")
    wait(BRAILLE)
    tell("send-keys", "-t", "t", "x")
    wait("stopped")
    tell("send-keys", "-t", "t", "q")
    wait("left with 0")
    assert states(env) == ["stopped"]


@pytest.mark.tmux
def test_kept_runs_inside_tmux(env: dict[str, str], pane: tuple[Tell, Callable[[str], str]]) -> None:
    for name in ("alpha", "beta"):
        done = tuitrain(env, "run", "seed-cnn", "--data", "synthetic", "--device", "cpu", "--max-steps", "12", "--name", name)
        assert done.returncode == 0, done.stderr
    for term in ("screen", "tmux-256color"):
        look_at_kept_runs(pane, term)


def has_whole_frames(screen: str) -> bool:
    framed = [line for line in screen.splitlines() if line.startswith(("│", "├", "╭", "╰"))]
    return bool(framed) and all(len(line) == 80 and line.endswith(("│", "┤", "╮", "╯")) for line in framed)


def look_at_kept_runs(pane: tuple[Tell, Callable[[str], str]], term: str) -> None:
    """Every screen of kept runs, by its keys, in a terminal of this kind; each line of each has its full width."""
    tell, wait = pane
    shell = f"env -u COLORTERM TERM={term} {TUITRAIN}; echo left with $?; exec cat"
    tell("new-session", "-d", "-s", "t", "-x", "80", "-y", "24", shell)
    # Without its last session the server would end, maybe while the next one is asked of it.
    tell("set-option", "-s", "exit-empty", "off")
    wait("Enter trains seed-cnn")
    for keys, pattern in (
        ("r", r"▸ ▢ ✓ finished +beta[^\n]+\n[^\n]+▢ ✓ finished +alpha"),
        ("Enter", r"beta · built-in synthetic data"),
        ("p", r"test sample \d+"),
        ("m", r"recall"),
        ("p", r"s Settings"),
        ("Escape", r"Selected"),
        ("Space Space v", r"1 beta +2 alpha"),
        ("Escape", r"Selected"),
        ("Escape", r"Enter trains seed-cnn"),
    ):
        tell("send-keys", "-t", "t", *keys.split())
        until(lambda pattern=pattern: has_whole_frames(wait(pattern)), what=lambda pattern=pattern: wait(pattern))  # type: ignore[misc]
    tell("send-keys", "-t", "t", "q")
    wait("left with 0")
    tell("kill-session", "-t", "t")

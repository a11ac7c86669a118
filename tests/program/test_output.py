"""What commands print, and what `export` writes, where that is no ordinary file."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import struct
import subprocess
import termios
import threading
from pathlib import Path

import pytest
from programs import tuitrain, until
from terminal import TUITRAIN

RUN = ("run", "random-linear", "--device", "cpu", "--max-steps", "2")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which there is one short run."""
    home = tmp_path_factory.mktemp("home")
    env = {"TUITRAIN_RUNS": str(home / "runs"), "XDG_CACHE_HOME": str(home / "cache"), "HOME": str(home)}
    assert tuitrain(env, *RUN).returncode == 0
    return env


def shell(env: dict[str, str], line: str) -> subprocess.CompletedProcess[str]:
    """A line for the shell, with `tuitrain` in it."""
    env = {**os.environ, **env, "PATH": f"{Path(TUITRAIN).parent}:{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", line], env=env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)


COMMANDS = ("--help", "recipes", "runs", "show last --json", "gpus --json", "export last --format csv", "export last --format py -o -")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_or_closed_standard_output_is_a_sentence(kept: dict[str, str], command: str) -> None:
    full = shell(kept, f"tuitrain {command} >/dev/full")
    assert (full.returncode, full.stderr) == (1, "tuitrain: standard output: No space left on device.\n")
    closed = shell(kept, f"tuitrain {command} >&-")
    assert (closed.returncode, closed.stderr) == (1, "tuitrain: standard output: it is closed.\n")


def test_unbuffered_output_is_whole_and_its_failure_a_sentence(kept: dict[str, str]) -> None:
    env = {**kept, "PYTHONUNBUFFERED": "1"}
    assert tuitrain(env, "recipes").stdout == tuitrain(kept, "recipes").stdout
    full = shell(env, "tuitrain recipes >/dev/full")
    assert (full.returncode, full.stderr) == (1, "tuitrain: standard output: No space left on device.\n")


def test_a_pipe_that_does_not_block_is_waited_for(kept: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    command = [TUITRAIN, "run", *RUN[1:4], "--batch-size", "1", "--max-steps", "1000", "--epochs", "1000", "--json"]
    with open(reading, encoding="utf-8") as lines, subprocess.Popen(command, env={**os.environ, **kept}, stdout=writing) as process:
        os.close(writing)
        # It holds 64 KB.
        until(lambda: struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, b"0000"))[0] > 60_000)
        told = [json.loads(line)["event"] for line in lines]
        assert process.wait(60) == 0
    assert told.count("step") == 1000
    assert told[-1] == "run_ended"


@pytest.mark.parametrize("command", ["recipes", "export last --format csv"])
def test_a_pipe_that_nobody_reads_is_no_error_to_speak_of(kept: dict[str, str], command: str) -> None:
    done = shell(kept, f"{{ sleep 0.1; tuitrain {command}; echo $? >&2; }} | true")
    assert done.stderr == "1\n"


def test_a_run_goes_on_when_what_it_prints_to_is_full(kept: dict[str, str]) -> None:
    full = shell(kept, f"tuitrain {' '.join(RUN)} --name full --json >/dev/full")
    assert full.returncode == 0
    assert "tuitrain: standard output: No space left on device; the run goes on without it." in full.stderr.splitlines()
    (run,) = [run for run in json.loads(tuitrain(kept, "runs", "--json").stdout) if run["name"] == "full"]
    assert run["state"] == "finished"
    assert shell(kept, f"tuitrain {' '.join(RUN)} --json 2>/dev/full | tail -1").stdout.startswith('{"event":"run_ended"')


def test_a_script_is_not_written_where_the_working_directory_has_gone(kept: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    done = shell(kept, f"cd {tmp_path}/here; rmdir ../here; tuitrain export last --format py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tuitrain: the working directory has been deleted, ")
    assert done.stderr.count("\n") == 1


def test_what_is_for_programs_is_utf8_in_every_locale(tmp_path: Path) -> None:
    env = {**os.environ, "TUITRAIN_RUNS": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}

    def said(encoding: str, *args: str) -> str:
        command = [TUITRAIN, *args]
        done = subprocess.run(command, env={**env, "PYTHONIOENCODING": encoding}, capture_output=True, check=True, stdin=subprocess.DEVNULL)
        return done.stdout.decode("utf-8")

    # An encoding that lacks the letters fails, and one that has others for them is taken for UTF-8.
    for encoding in ("ascii", "latin-1"):
        events = said(encoding, *RUN, "--name", "Größe×", "--set", "note=20 °C", "--json")
        assert [json.loads(line)["event"] for line in events.splitlines()][-1] == "run_ended"
        assert "Größe×" in said(encoding, "export", "last", "--format", "py")
    for encoding in ("ascii", "latin-1", "utf-8"):
        assert {run["name"] for run in json.loads(said(encoding, "runs", "--json"))} == {"Größe×"}
        assert json.loads(said(encoding, "show", "last", "--json"))["config"]["note"] == "20 °C"


@pytest.fixture
def talking(tmp_path: Path) -> Path:
    """The folder of `talking.py`, whose model prints."""
    (tmp_path / "talking.py").write_text(
        "import os\nfrom torch import nn\n"
        "class Net(nn.Linear):\n"
        "    def forward(self, x):\n"
        "        print('a word of Python')\n"
        "        os.write(1, b'a word of C\\n')\n"
        "        return super().forward(x)\n"
        "def make(config):\n    return Net(5, 2)\n"
    )
    return tmp_path


def test_json_has_standard_output_to_itself(kept: dict[str, str], talking: Path) -> None:
    done = tuitrain(kept, *RUN, "--set", "model=talking:make", "--json", cwd=talking)
    assert done.returncode == 0
    told = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert (told[0], told[-1]) == ("run_started", "run_ended")
    words = done.stderr.splitlines()
    assert "a word of Python" in words
    assert "a word of C" in words
    plain = tuitrain(kept, *RUN, "--set", "model=talking:make", cwd=talking)
    assert "a word of C" in plain.stdout.splitlines()


def test_nothing_meant_for_a_closed_standard_error_comes_on_standard_output(kept: dict[str, str], talking: Path) -> None:
    wrong = shell(kept, "tuitrain run no-such-recipe 2>&-")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    done = shell(kept, f"cd {talking} && tuitrain {' '.join(RUN)} --set model=talking:make --json 2>&-")
    told = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert (done.returncode, told[0], told[-1]) == (0, "run_started", "run_ended")


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- >&- 2>&-"])
def test_the_app_without_standard_streams_needs_a_terminal(kept: dict[str, str], closed: str) -> None:
    words = "tuitrain: the app needs a terminal; without one use `tuitrain run RECIPE`.\n"
    refused = shell(kept, f"tuitrain {closed}")
    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", "" if "2>&-" in closed else words)


@pytest.mark.parametrize("format_", ["csv", "json", "py", "pt"])
def test_export_refuses_names_that_no_file_can_have(
    kept: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, format_: str
) -> None:
    modules = tmp_path_factory.mktemp("modules")
    (modules / "torch.py").write_text("raise SystemExit('nobody waits for torch to hear a refusal')")
    env = {**kept, "PYTHONPATH": str(modules)}
    empty = tuitrain(env, "export", "last", "--format", format_, "-o", "", cwd=tmp_path)
    assert (empty.returncode, empty.stderr) == (2, "tuitrain: -o: '' is not allowed; it must be the name of a file.\n")
    for length in (241, 256):
        long = tuitrain(env, "export", "last", "--format", format_, "-o", "x" * length, cwd=tmp_path)
        why = "its name is too long, at most 240 bytes are allowed"
        assert (long.returncode, long.stderr) == (2, f"tuitrain: -o: {'x' * length} cannot be written: {why}.\n")
    nowhere = tuitrain(env, "export", "last", "--format", format_, "-o", "nowhere/x", cwd=tmp_path)
    assert (nowhere.returncode, nowhere.stderr) == (2, "tuitrain: -o: nowhere/x cannot be written: No such file or directory.\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", ["csv", "json", "py", "pt"])
def test_export_writes_into_a_fifo_and_into_a_file_of_the_longest_name(kept: dict[str, str], tmp_path: Path, format_: str) -> None:
    fifo, plain = tmp_path / "fifo", tmp_path / ("x" * 240)
    os.mkfifo(fifo)
    read: list[bytes] = []
    # Should the FIFO be replaced, then the reader waits for ever.
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()
    assert tuitrain(kept, "export", "last", "--format", format_, "-o", str(fifo)).returncode == 0
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    reader.join(60)
    assert tuitrain(kept, "export", "last", "--format", format_, "-o", plain.name, cwd=tmp_path).returncode == 0
    assert len(read[0]) == len(plain.read_bytes()) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [fifo.name, plain.name]


def test_export_writes_to_descriptors_by_their_names(kept: dict[str, str]) -> None:
    expected = tuitrain(kept, "export", "last", "--format", "csv").stdout
    for target in ("-", "/dev/stdout", "/dev/fd/1"):
        assert tuitrain(kept, "export", "last", "--format", "csv", "-o", target).stdout == expected
    assert shell(kept, "tuitrain export last --format csv -o >(cat) | cat").stdout == expected


def test_weights_are_whole_between_what_else_goes_to_a_file(kept: dict[str, str], tmp_path: Path) -> None:
    out, plain = tmp_path / "out", tmp_path / "plain"
    assert tuitrain(kept, "export", "last", "--format", "pt", "-o", str(plain)).stdout.endswith(f" to {plain}\n")
    done = shell(kept, f"{{ echo before; tuitrain export last --format pt -o /dev/stdout; echo after; }} >{out}")
    assert done.stderr.endswith(" to /dev/stdout\n")
    written = out.read_bytes()
    # Their bytes differ from one time to the next, and not in number.
    assert written.startswith(b"before\nPK")
    assert written.endswith(b"after\n")
    assert len(written) == len(b"before\n") + plain.stat().st_size + len(b"after\n")


def test_weights_do_not_go_to_standard_output(kept: dict[str, str], tmp_path: Path) -> None:
    done = tuitrain(kept, "export", "last", "--format", "pt", "-o", "-", cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "weights are not text" in done.stderr

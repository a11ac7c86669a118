from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tuitrain.tui.terminal.glyphs import speaks_utf8, to_ascii

PRELUDE = "import ctypes, os, subprocess, sys\nfrom tuitrain.capture import Capture\nlines = []\n"


def run(body: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own: the capture takes the file descriptors of a process."""
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def test_everything_that_is_printed_comes_as_lines() -> None:
    done = run("""
        with Capture() as capture:
            print("before the sink")
            capture.send_to(lines.append)
            print("from python")
            print("to stderr", file=sys.stderr)
            os.write(1, b"raw stdout\\n")
            os.write(2, b"raw stderr\\n")
            libc = ctypes.CDLL(None)
            libc.printf(b"from C\\n")
            libc.fflush(None)
            subprocess.run(["sh", "-c", "echo from a child; echo and its stderr >&2"])
            sys.stdout.write("no newline at the end")
        print(sorted(lines))
    """)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    expected = [
        "and its stderr",
        "before the sink",
        "from C",
        "from a child",
        "from python",
        "no newline at the end",
        "raw stderr",
        "raw stdout",
    ]
    assert done.stdout.strip() == str(sorted([*expected, "to stderr"]))


def test_lines_are_clean_and_progress_bars_show_their_last_state() -> None:
    done = run("""
        with Capture() as capture:
            capture.send_to(lines.append)
            os.write(2, b"\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07end\\x00\\n")
            os.write(2, b"\\r 10%\\r 50%\\r100%\\n\\n")
            os.write(2, b"\\xff\\xfe\\n")
            os.write(2, b"\\r" + b"\\r".join(b"%d bytes" % i for i in range(2000)))
        print(ascii(lines))
    """)
    assert done.returncode == 0, done.stderr
    lines = eval(done.stdout)
    assert lines[:3] == ["red end\u00b7", "100%", "\ufffd\ufffd"]
    assert lines[-1] == "1999 bytes"


def test_everything_is_restored_also_after_an_exception() -> None:
    done = run("""
        before = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        try:
            with Capture() as capture:
                assert sys.__stderr__ is capture.terminal
                assert sys.stdout.fileno() > 0
                print("on the terminal", file=capture.terminal)
                1 / 0
        except ZeroDivisionError:
            pass
        assert (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) == before
        print("stdout again")
        print("stderr again", file=sys.stderr)
        import threading
        assert threading.active_count() == 1
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "stdout again\n"
    assert done.stderr == "on the terminal\nstderr again\n"


def test_a_child_that_lives_on_does_not_hold_the_exit_up() -> None:
    done = run("""
        import time
        with Capture() as capture:
            child = subprocess.Popen(["sleep", "30"])
            begin = time.monotonic()
        took = time.monotonic() - begin
        child.kill()
        assert took < 5, took
    """)
    assert done.returncode == 0, done.stderr


def test_much_output_at_once_arrives_whole() -> None:
    done = run("""
        with Capture() as capture:
            capture.send_to(lines.append)
            for index in range(20000):
                print("line", index)
        assert lines == [f"line {index}" for index in range(20000)], len(lines)
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("environment", "utf8"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({}, True),
        ({"LANG": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "en_US.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": "C"}, False),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8", "TERM": "linux"}, False),
        ({"LANG": "en_US.ISO-8859-1"}, False),
    ],
)
def test_which_terminals_get_unicode(environment: dict[str, str], utf8: bool) -> None:
    assert speaks_utf8(environment, "utf-8") is utf8


def test_ascii_is_as_wide_as_what_it_stands_for() -> None:
    assert to_ascii("● 深 → ▣") == "* ?? > #"
    assert to_ascii("plain") == "plain"


# -- what is read -----------------------------------------------------------------------------------------------------


def test_keys_are_read_by_the_app_alone_and_given_back() -> None:
    done = run("""
        from tuitrain.tui.terminal.keyboard import Keyboard
        reading, writing = os.pipe()
        os.dup2(reading, 0)
        os.write(writing, b"keys")
        before = sys.stdin, sys.__stdin__
        with Keyboard() as keyboard:
            assert sys.stdin.read() == "" == subprocess.run(["cat"], stdout=subprocess.PIPE, text=True).stdout
            try:
                input()
            except EOFError:
                print("nobody answers")
            assert os.read(sys.__stdin__.fileno(), 4) == b"keys"
        assert (sys.stdin, sys.__stdin__) == before
        os.write(writing, b"a line for the shell\\n")
        assert input() == "a line for the shell"
        with Keyboard() as keyboard:
            os.write(writing, b"to nobody")
            keyboard.leave_terminal()
            assert os.read(sys.__stdin__.fileno(), 4) == b""
        print("given back")
    """)
    assert (done.stdout, done.stderr) == ("nobody answers\ngiven back\n", "")

"""What gives the terminal back after an app that could not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tuitrain.tui.terminal import guardian
from tuitrain.tui.terminal.guardian import Guardian

PROGRAM = """
import os, signal, sys
from tuitrain.tui.terminal.guardian import Guardian
guardian = Guardian(1, "it crashed")
words = ""
for words in sys.argv[1:]:
    guardian.tell(words)
def forward():
    signal.raise_signal(signal.SIGSEGV)
if words == "crash":
    forward()
os._exit(1)
"""


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """What is read of a terminal, and the terminal."""
    reads, writes = os.openpty()
    yield reads, writes
    os.close(reads)


def shown(terminal: tuple[int, int]) -> bytes:
    """All that came to the terminal, once nobody has it any more."""
    reads, writes = terminal
    os.close(writes)
    data = b""
    try:
        while piece := os.read(reads, 4096):
            data += piece
    except OSError:  # as Linux has the end of it
        pass
    return data


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([], "it crashed"),
        (["run 1"], "run 1"),
        (["run 1", "it crashed", "run 2 goes \N{EM DASH} on: %s \\n $HOME `id`"], "run 2 goes \N{EM DASH} on: %s \\n $HOME `id`"),
        (["a\nb\x1b[31m"], "a·b·[31m"),
    ],
)
def test_the_newest_words_come_when_the_process_has_gone(terminal: tuple[int, int], told: list[str], said: str) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, *told], stdout=terminal[1], check=False, timeout=60)
    assert shown(terminal).decode() == f"{guardian._GIVE_BACK}{said}\r\n"


def test_a_crash_is_told_with_its_place(terminal: tuple[int, int]) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, "crash"], stdout=terminal[1], check=False, timeout=60)
    said = shown(terminal).decode().removeprefix(guardian._GIVE_BACK)
    assert re.fullmatch(
        r"crash\r\nFatal Python error: Segmentation fault\r\nCurrent thread 0x\w+ .*\(most recent call first\):\r\n"
        r'  File "<string>", line 9 in forward\r\n  File "<string>", line 11 in <module>\r\n(\r\n)?',
        said,
    )


@pytest.mark.parametrize("told", [[""], ["run 1", ""]])
def test_nothing_is_given_back_that_was_not_taken(terminal: tuple[int, int], told: list[str]) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, *told], stdout=terminal[1], check=False, timeout=60)
    assert shown(terminal) == b""


@pytest.mark.parametrize("killed", [False, True])
def test_one_that_is_dismissed_is_gone_without_a_word_and_one_that_was_killed_is_not_missed(
    terminal: tuple[int, int], killed: bool
) -> None:
    told = Guardian(terminal[1], "it crashed")
    process = told._process
    assert process is not None
    if killed:
        process.kill()
        process.wait()
        told.tell("run 1")
    told.dismiss()
    assert process.poll() is not None
    told.tell("too late")
    told.dismiss()
    assert shown(terminal) == b""


def test_an_app_does_without_where_there_is_no_shell(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: object, **options: object) -> None:
        raise FileNotFoundError("/bin/sh")

    monkeypatch.setattr(subprocess, "Popen", none)
    told = Guardian(terminal[1], "it crashed")
    told.tell("run 1")
    told.dismiss()
    assert shown(terminal) == b""

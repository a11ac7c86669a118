"""Keys, words, pastes, clicks, drags and sizes at random, on the whole program: it always answers, and ends only because it was left."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copy, which

import psutil
from commands import HERE
from fixture import LIBRARY, SCENARIO, build
from tally import Tally
from terminal import KEYS, Terminal
from terminals import app

ACTIONS = 250
"""In each walk; where the app is left, it is started again."""
BURST = 12
ANSWER_SECONDS = 15.0

_LETTERS = [*"nrgdtowpiCxcmlzZab/syYSDvReuhA+-[]<>,.?0123456789jkq ", "\x0c", "\x10", "\x7f", "\x1bOP", "\x1b[Z", "\x1b[5~", "\x1b[6~"]
"""All but `f`, which fetches."""
_OFTEN = ["Enter", "Enter", "Enter", "Esc", "Esc", "Esc", *KEYS]
_WORDS = ["seed-cnn", "lr=0.01", "~/", "[bold]x[/bold]", "[/", "ünïcode 漢字", "1e9", "-5", "0", "cpu,cpu", "split", "a" * 300]
_SIZES = [(80, 24), (120, 40), (200, 60), (72, 20), (40, 10), (10, 3), (300, 100)]
_BUTTONS = [0, 0, 0, 2, 35, 64, 65]
"""The left one mostly; the right one, a move, and the wheel."""
_NOBODY = 1 << 30
"""No process has such a number: `x` on the GPUs' screen ends nobody."""


def walks(scratch: Path, times: int) -> Tally:
    """Each walk is made of a seed; every other one begins with a run that trains."""
    tally = Tally("keys, clicks, pastes and sizes at random")
    if which("cc") is None:
        tally.left_out = "the cards are a stand-in, which needs a C compiler"
        return tally
    starts, slowest = 0, 0.0
    for number in range(times):
        home, dice, left = scratch / str(number), random.Random(number), ACTIONS
        with tally.trial(f"seed {number}"), _machine(home) as cards:
            while left > 0:
                starts += 1
                with app(home, at_once=bool(number % 2), folder=home, **cards) as (terminal, _):
                    there = True
                    while there and left > 0:
                        burst = dice.randint(1, BURST)
                        left -= burst
                        there = _act(dice, terminal, burst)
                        slowest = max(slowest, _answer(terminal) if there else 0.0)
    tally.facts = [f"{times * ACTIONS:,} of them, {starts} starts of the app", f"an answer after at most {slowest:.1f} s"]
    return tally


def _act(dice: random.Random, terminal: Terminal, times: int) -> bool:
    """Do something so often, and take in what comes of it; `False` where the app has been left, which is told by its exit code."""
    with suppress(OSError):  # its terminal is closed while it ends
        while times > 0:
            # As a slow line brings them: several in one piece.
            together = min(times, dice.choice((1, 1, 2, 6)))
            times -= together
            terminal.press("".join(_input(dice) for _ in range(together)))
            if dice.random() < 0.05:
                terminal.resize(*dice.choice(_SIZES))
            terminal.read(dice.choice((0.0, 0.02, 0.05, 0.2)))
    if terminal.read(0.05):
        return True
    assert terminal.exit_code() == 0, terminal.raw[-3000:].decode(errors="replace")
    return False


def _input(dice: random.Random) -> str:
    """What the terminal sends for one of the many things that a person may do."""
    match dice.choices(("key", "often", "word", "paste", "drag", "click"), (50, 30, 4, 5, 3, 8))[0]:
        case "key":
            return dice.choice(_LETTERS)
        case "often":
            return KEYS[dice.choice(_OFTEN)]
        case "word":
            return dice.choice(_WORDS)
        case "paste":
            return f"\x1b[200~{dice.choice(_WORDS)}\x1b[201~"
        case "drag":
            begin, end = (f"{dice.randint(1, 120)};{dice.randint(1, 40)}" for _ in range(2))
            # Where the button is let go outside of its window, some terminals do not tell.
            return f"\x1b[<0;{begin}M\x1b[<32;{end}M" + (f"\x1b[<0;{end}m" if dice.random() < 0.8 else "")
        case _:
            place = f"{dice.choice(_BUTTONS)};{dice.randint(1, 120)};{dice.randint(1, 40)}"
            return f"\x1b[<{place}M\x1b[<{place}m" * dice.choice((1, 1, 2))


def _answer(terminal: Terminal) -> float:
    """How long it takes to paint all of the screen again."""
    began, already = time.monotonic(), len(terminal.raw)
    with suppress(OSError):
        terminal.press("\x0c")
    while terminal.read(0.05) and len(terminal.raw) == already:
        assert time.monotonic() - began < ANSWER_SECONDS, f"no answer within {ANSWER_SECONDS:.0f} s:\n{terminal.text}"
    return time.monotonic() - began


@contextmanager
def _machine(home: Path) -> Iterator[dict[str, str]]:
    """What is to train, and four cards that are used by processes that are not there; at the end every process of the walk is killed."""
    folder = home / "nvml"
    folder.mkdir(parents=True)
    copy(HERE / "workload.py", home)
    lines = ["driver 570.1", "cuda 12080", "count 4", "card * name NVIDIA H100 80GB HBM3", "card * utilization 0 10 40 90"]
    for card in range(4):
        lines += [f"process {card} compute {_NOBODY + card} {card + 1 << 30}", f"share {card} {_NOBODY + card} {card * 20}"]
    (folder / "scenario.txt").write_text("\n".join(lines) + "\n")
    build("", folder).rename(folder / LIBRARY)
    try:
        yield {"LD_LIBRARY_PATH": str(folder), SCENARIO: str(folder / "scenario.txt")}
    finally:
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("TUITRAIN_RUNS") == str(home / "runs"):
                    process.kill()

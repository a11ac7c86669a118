"""Files of a run that are not as they were written: a bit, a half, all of it. Nothing is taken for good that is not."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from host import STEPS, Host, small_config
from tally import Tally
from truth import tensorboard_steps, whole

from tuitrain.config import ConfigError
from tuitrain.paths import METRICS
from tuitrain.runs import catalogue
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.saved import load_record
from tuitrain.runs.schema import LOSS
from tuitrain.runs.summary import RunSummary
from tuitrain.session.resume import plan

KILLED_AT = 200
OLD_SECONDS = 300.0


def flip(path: Path, draw: random.Random) -> None:
    """One bit, anywhere."""
    content = bytearray(path.read_bytes())
    if content:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def cut(path: Path, draw: random.Random) -> None:
    """The end is missing."""
    content = path.read_bytes()
    path.write_bytes(content[: draw.randrange(max(len(content), 1))])


def empty(path: Path, draw: random.Random) -> None:
    """All is missing."""
    path.write_bytes(b"")


def remove(path: Path, draw: random.Random) -> None:
    """The file is missing."""
    path.unlink()


def zero(path: Path, draw: random.Random) -> None:
    """A block of nothing, as a file system leaves it after a power cut."""
    content = bytearray(path.read_bytes())
    place = draw.randrange(max(len(content), 1)) // 512 * 512
    content[place : place + 512] = bytes(len(content[place : place + 512]))
    path.write_bytes(content)


KINDS: tuple[Callable[[Path, random.Random], None], ...] = (flip, cut, zero, flip, empty, remove, flip)


def damaged(scratch: Path, times: int) -> Tally:
    """Each file of a run that was killed, damaged in each way; then it is listed, opened and gone on with."""
    tally = Tally("a damaged file of a run, then resume")
    draw, outcomes = random.Random(9), Counter[str]()
    base = _killed_run(scratch)
    names = sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file() or path.is_symlink())
    for number in range(times):
        name, kind = names[number % len(names)], KINDS[number // len(names) % len(KINDS)]
        with tally.trial(f"{kind.__name__} {name}"):
            copy = scratch.with_name(f"copy-{number}") / base.name
            shutil.copytree(base, copy)
            kind(copy / name, draw)
            old = time.time() - OLD_SECONDS
            if (copy / name).exists():
                os.utime(copy / name, (old, old))
            outcomes[_look_and_go_on(copy, name)] += 1
            shutil.rmtree(copy.parent)
    tally.facts = [f"{count} {outcome}" for outcome, count in sorted(outcomes.items())]
    return tally


def _killed_run(scratch: Path) -> Path:
    whole()
    host = Host(scratch, small_config(keep_checkpoints=3))
    host.wait_for("step", KILLED_AT)
    host.kill()
    return host.folder


def _look_and_go_on(folder: Path, name: str) -> str:
    """What became of it; every way but silence about something wrong will do.

    Raises:
        AssertionError: it does not go on as the unbroken run, and nobody says so.
    """
    (row,) = catalogue.list_runs(folder.parent)
    config = small_config(keep_checkpoints=3)
    if refusal := _refusal(row):
        assert refusal.endswith((".", "?")), refusal
        assert name in ("state.json", "run.toml", METRICS), f"refused: {refusal}"
        if name != METRICS:
            return "refused with a sentence"
    host = Host(folder.parent, config, resume=folder)
    ended = host.wait()
    if ended == "refused":
        sentence = str(host.words("ended")[0][2])
        assert name in ("run.toml", "state.json"), f"refused: {sentence}"
        assert sentence
        return "refused with a sentence"
    assert ended == "finished", f"{ended}: {host.words('ended')[0][2]} {host.complaint()}"
    said = " ".join(host.words("notices")[0][1])
    resumed = host.resumed_from
    assert resumed is not None
    _compare(folder, resumed, name, said)
    return f"gone on with{', which said what was wrong' if said else ''}"


def _refusal(row: RunSummary) -> str:
    """Why the run cannot be opened, or cannot go on; empty where it can."""
    try:
        load_record(row.path)
        plan(row, {})
    except ConfigError as error:
        return str(error)
    return ""


def _compare(folder: Path, resumed: int, name: str, said: str) -> None:
    with MetricsReader(folder / METRICS) as reader:
        kept = {step: value for steps, values in reader.points(LOSS) for step, value in zip(steps, values, strict=True)}
    new = range(resumed + 1, STEPS + 1)
    if name == "run.toml" and said:
        return
    assert [kept.get(step) for step in new] == [whole()[step - 1] for step in new], f"other losses after step {resumed}; said: {said!r}"
    assert set(new) <= set(tensorboard_steps(folder)), "TensorBoard lacks steps that were made after the damage"
    if name != METRICS:
        before = range(1, resumed + 1)
        assert [kept.get(step) for step in before] == [whole()[step - 1] for step in before], "the losses before are not what they were"
    elif "set aside" not in said and "missing" not in said:
        wrong = [step for step in range(1, resumed + 1) if kept.get(step) != whole()[step - 1]]
        assert len(wrong) <= 1, f"{len(wrong)} losses of the file are others, and nobody says so"

"""Speed runs beside plain PyTorch: seed by seed in turn, as many as there is time for, and what each gave is said at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from benchmarks import plain_speedrun, speedrun
from benchmarks.pairs import Figure, Wanted
from benchmarks.speedrun import TIMED_SEEDS, Ended


@pytest.fixture
def take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Wanted], list[Figure]]:
    """Takes the figures on a machine with a GPU, with a plain script of these lines, and runs in the app that take a tenth less."""
    monkeypatch.setattr(speedrun, "gpus", lambda: ["a card"])
    monkeypatch.setattr(speedrun, "HERE", tmp_path)
    monkeypatch.setattr(speedrun, "_in_app", lambda folder, seed, *given: Ended(0.9 + seed / 100, 1.8 + seed))
    monkeypatch.setattr(speedrun, "_headless", lambda folder, steps, device, seed: Ended(0.9 + seed / 100, 9.9))

    def taken(script: str, wanted: Wanted) -> list[Figure]:
        (tmp_path / "plain_speedrun.py").write_text(script)
        return speedrun.speedrun(wanted)

    return taken


ANSWERS = """import sys
for seed in map(int, sys.stdin):
    print(f'{{"seed": {seed}, "accuracy": {0.9 + seed / 100}, "seconds": {2.0 + seed}}}', flush=True)
"""


def test_both_have_the_same_seeds_in_turn(take: Callable[[str, Wanted], list[Figure]], capsys: pytest.CaptureFixture[str]) -> None:
    accuracy, seconds = take(ANSWERS, Wanted(Path("data"), seeds=3))
    assert (accuracy.name, accuracy.ratio, accuracy.holds) == ("speed run, mean accuracy", 1.0, True)
    assert (seconds.ours, seconds.peer, seconds.pairs) == ("2.8 s (1.8 to 3.8)", "3 s, plain PyTorch, seeds 0 to 2", 3)
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        *("in the app", "plain PyTorch", "plain PyTorch", "in the app", "in the app", "plain PyTorch")
    ]


def test_where_time_is_over_the_seeds_that_were_made_count(take: Callable[[str, Wanted], list[Figure]]) -> None:
    accuracy, seconds = take(ANSWERS, Wanted(Path("data"), seeds=20, within=0.0))
    assert accuracy.peer == "90.00 % (90.00 to 90.00), plain PyTorch, 1 seeds of each"
    assert (seconds.ours, seconds.pairs) == ("1.8 s", 1)


def test_of_the_later_seeds_only_the_accuracy_counts(
    take: Callable[[str, Wanted], list[Figure]], capsys: pytest.CaptureFixture[str]
) -> None:
    accuracy, seconds = take(ANSWERS, Wanted(Path("data"), seeds=TIMED_SEEDS + 3))
    assert accuracy.ours == "94.00 % (90.00 to 98.00)"
    assert accuracy.peer == "94.00 % (90.00 to 98.00), plain PyTorch, 9 seeds of each"
    assert (seconds.ours, seconds.pairs) == ("4.3 s (1.8 to 6.8)", TIMED_SEEDS)
    said = capsys.readouterr().err.splitlines()
    assert {line.split(":")[0] for line in said[:6]} == {
        f"{what}, seed {seed}" for what in ("without a screen", "plain PyTorch") for seed in (6, 7, 8)
    }


def test_a_plain_script_that_fails_is_said(take: Callable[[str, Wanted], list[Figure]]) -> None:
    with pytest.raises(RuntimeError, match=r"plain_speedrun\.py ended with 3"):
        take("raise SystemExit(3)", Wanted(Path("data")))


def test_the_plain_script_trains_the_seeds_that_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("train", "test"):
        for shade in (40, 200):
            folder = tmp_path / part / str(shade)
            folder.mkdir(parents=True)
            for number in range(4):
                Image.effect_noise((32, 32), shade + number).convert("RGB").save(folder / f"{number}.png")
    monkeypatch.setattr("sys.argv", ["plain_speedrun.py", str(tmp_path), "--asked", "--steps", "1", "--device", "cpu"])
    monkeypatch.setattr(sys, "stdin", ["5\n", "2\n"])
    plain_speedrun.main()
    first, second = capsys.readouterr().out.splitlines()
    assert '"seed": 5' in first
    assert '"seed": 2' in second

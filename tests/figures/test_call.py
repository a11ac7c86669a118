"""A call of the benchmarks: what it prints, keeps and answers, whatever becomes of a figure."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as call
from benchmarks import awaited, figures, machine
from benchmarks import images as made_images
from benchmarks.awaited import Awaited, NotMeasured
from benchmarks.pairs import Figure, Wanted, alone
from benchmarks.results import Kept, newest
from benchmarks.table import markdown
from tuitrain.config import DEFAULTS
from tuitrain.engine.data import Dataset
from tuitrain.engine.datasets.imagefolder import load_imagefolder

LINES = (
    Awaited("there", "seen", "≤ 5 ms", "never"),
    Awaited("gpu", "speed, GPU", "≥ 3", "no GPU here"),
    Awaited("gpu", "screen, GPU", "≥ 0.98", "no GPU here"),
    Awaited("later", "of a figure that is not written", "≥ 1", "nobody wrote it"),
)


def there(wanted: Wanted) -> list[Figure]:
    assert (wanted.data / "train").is_dir()
    return [alone("seen", 4, most=5, unit="ms"), alone("missed", 6, most=5, unit="ms")]


def broken(wanted: Wanted) -> list[Figure]:
    raise RuntimeError("the screen never showed it")


def without_gpu(wanted: Wanted) -> list[Figure]:
    raise NotMeasured("the GPU is busy")


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Calls the benchmarks with arguments, and gives the exit code and where the figures went."""
    monkeypatch.setattr(figures, "ALL", {"there": there, "broken": broken, "gpu": without_gpu})
    monkeypatch.setattr(awaited, "LINES", LINES)
    monkeypatch.setattr(machine, "describe", lambda: {"cpu": "some"})
    (tmp_path / "data" / "train").mkdir(parents=True)

    def called(*arguments: str) -> tuple[int, Path]:
        results = tmp_path / "results"
        monkeypatch.setattr("sys.argv", ["benchmarks", str(tmp_path / "data"), "--results", str(results), *arguments])
        return call.main(), results

    return called


def test_a_line_that_was_not_measured_says_why_and_a_broken_figure_costs_only_itself(answer, capsys: pytest.CaptureFixture[str]) -> None:
    code, results = answer()
    said = capsys.readouterr()
    assert code == 1
    assert "| seen | 4 ms | - | - | ≤ 5 ms | yes |" in said.out
    assert "| broken | not measured | | | | |" in said.out
    assert "the screen never showed it" in said.err
    for line in ("| speed, GPU | not measured | - | - | ≥ 3 | the GPU is busy |", "| screen, GPU | not measured | - | - | ≥ 0.98 |"):
        assert line in said.out
    assert "| of a figure that is not written | not measured | - | - | ≥ 1 | nobody wrote it |" in said.out
    assert said.out.count("| seen |") == 1
    assert "1 of 2 targets hold" in said.err
    assert "missed: missed\nnot measured: broken\n" in said.err
    assert [kept.figure.name for kept in newest(results)] == ["seen", "missed"]


def test_only_what_was_asked_for_is_taken_and_what_this_machine_cannot_take_is_no_failure(
    answer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, results = answer("--only", "gpu")
    said = capsys.readouterr()
    assert code == 0
    assert "speed, GPU" in said.out
    assert "seen" not in said.out
    assert "of a figure that is not written" not in said.out
    assert not results.exists()


def test_a_folder_without_train_is_refused(answer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data" / "train").rmdir()
    with pytest.raises(SystemExit, match="2"):
        answer()
    assert "has no folder train" in capsys.readouterr().err


def test_the_readme_names_what_was_never_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited, "LINES", LINES)
    machine = {"cpu": "some", "cores": 2, "gpus": [], "bf16_instructions": True, "python": "3", "torch": "2", "textual": "8"}
    kept = [Kept(alone("seen", 4, most=5, unit="ms"), "20261121-0338", machine)]
    text = markdown(kept)
    assert "| seen | 4 ms | - | - | ≤ 5 ms | yes | A, 2026-11-21 |\n| speed, GPU | not measured | - | - | ≥ 3 | no GPU here | - |\n" in text


def test_without_a_folder_one_is_made_and_its_cache_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setattr(made_images, "output_of", lambda command: Path(command[-1]).mkdir())
    with made_images.images(None) as folder:
        assert folder.is_dir()
        assert os.environ["XDG_CACHE_HOME"].startswith(str(folder.parent))
    assert not folder.parent.exists()
    assert os.environ["XDG_CACHE_HOME"] == "/somewhere"
    with made_images.images(Path("given")) as folder:
        assert folder == Path("given")


def result(steps: Generator[object, None, Dataset]) -> Dataset:
    """What they come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_the_images_that_are_made_can_be_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    inputs = torch.arange(20 * 3 * 32 * 32).remainder(256).to(torch.uint8).view(20, 3, 32, 32)
    for part in ("train", "test"):
        made_images.write(tmp_path / part, inputs, torch.arange(20) % 10)
    data = result(load_imagefolder(tmp_path, DEFAULTS, lambda: False))
    assert len(data.classes) == 10
    assert {image.numpy().tobytes() for image in data.train.inputs} == {image.numpy().tobytes() for image in inputs}

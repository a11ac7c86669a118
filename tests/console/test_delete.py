"""`tuitrain delete` with several runs, without starting the program."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tuitrain.cli.kept import delete
from tuitrain.cli.usage import sentence_of
from tuitrain.config import ConfigError

IDS = [f"20260101-000{number}-x-{letters}" for number, letters in enumerate(("aaa", "bbb", "ccc"))]


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    """Three runs, of which only the folders and their names are left."""
    for run in IDS:
        (tmp_path / run).mkdir()
        (tmp_path / run / "run.toml").touch()
    return tmp_path


def typed(runs_dir: Path, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(delete, [*arguments, "--runs-dir", str(runs_dir)], obj=None, input=answer, standalone_mode=False)


def test_several_runs_go_at_once_and_each_once(runs_dir: Path) -> None:
    done = typed(runs_dir, "last", "20260101-0000", IDS[2], "--yes")
    assert done.output == f"deleted {IDS[2]}\ndeleted {IDS[0]}\n"
    assert os.listdir(runs_dir) == [IDS[1]]


def test_one_question_names_them_all(runs_dir: Path) -> None:
    kept = typed(runs_dir, *IDS[:2], answer="n\n")
    assert kept.return_value == 1
    assert kept.output.startswith(f"Delete 2 runs: {IDS[0]}, {IDS[1]} with their checkpoints and metrics? [y/N]")
    assert sorted(os.listdir(runs_dir)) == IDS


def test_none_goes_where_one_is_not_there(runs_dir: Path) -> None:
    refused = typed(runs_dir, IDS[0], "2027", "--yes")
    assert isinstance(refused.exception, ConfigError)
    assert str(refused.exception).startswith("RUN: there is no run '2027'.")
    assert sorted(os.listdir(runs_dir)) == IDS


def test_without_a_run_it_says_what_one_is() -> None:
    with pytest.raises(click.MissingParameter) as refused:
        delete.make_context("delete", ["--yes"])
    assert sentence_of(refused.value).startswith("RUN is missing; it must be an id")

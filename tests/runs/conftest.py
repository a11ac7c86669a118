"""A runs folder, and one with a finished run in it."""

from pathlib import Path

import pytest
from small_runs import make_run


@pytest.fixture
def runs_dir(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def path(tmp_path):
    """Where the metrics of a run are written."""
    return tmp_path / "metrics.sqlite"


@pytest.fixture
def run_folder(runs_dir):
    return make_run(runs_dir)


@pytest.fixture
def opened(monkeypatch, runs_dir):
    """The files under `runs_dir` that were opened, as they are."""
    found = []
    really = open

    def noted(file, *rest, **named):
        if isinstance(file, (str, Path)) and Path(file).is_relative_to(runs_dir):
            found.append(Path(file))
        return really(file, *rest, **named)

    monkeypatch.setattr("builtins.open", noted)
    monkeypatch.setattr("io.open", noted)
    return found

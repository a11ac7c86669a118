"""A runs folder, and one with a finished run in it."""

import pytest
from small_runs import make_run


@pytest.fixture
def runs_dir(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def run_folder(runs_dir):
    return make_run(runs_dir)

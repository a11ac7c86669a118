"""A torch that is missing or broken is one sentence of every command that needs it. A made-up one stands in torch's place."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import tuitrain

from tuitrain.python import PACKAGES

LIBRARY = "libcudart.so.12: cannot open shared object file: No such file or directory"
BROKEN = f"torch cannot be imported: {LIBRARY}; `tuitrain doctor` says why."
MISSING = "torch is not installed for this Python; `tuitrain doctor` says how to install it."
RUN = ("run", "random-linear", "--device", "cpu")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one short run."""
    folder = tmp_path_factory.mktemp("home")
    assert tuitrain(env_of(folder), *RUN, "--max-steps", "2").returncode == 0
    return folder


def states(home: Path) -> dict[Path, bytes]:
    """What is known of each run."""
    return {path: path.read_bytes() for path in (home / "runs").glob("*/state.json")}


def env_of(home: Path) -> dict[str, str]:
    folders = {"TUITRAIN_RUNS": str(home / "runs"), "XDG_CACHE_HOME": str(home / "cache"), "HOME": str(home)}
    return folders | {"PYTHONPATH": PACKAGES, "CUDA_VISIBLE_DEVICES": ""}


def without_torch(home: Path, error: str) -> dict[str, str]:
    """The environment in which importing torch raises `error`."""
    package = home / "modules" / "torch"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(f"raise {error}\n")
    return env_of(home) | {"PYTHONPATH": f"{package.parent}:{PACKAGES}"}


@pytest.mark.parametrize(
    "args",
    [
        RUN,
        (*RUN, "--json"),
        ("run", "random-linear", "--device", "cpu,cpu", "--strategy", "ddp"),
        (*RUN, "--detach"),
        (*RUN, "--queue"),
        ("resume", "last", "--max-steps", "4"),
        ("export", "last", "--format", "py"),
        ("export", "last", "--format", "pt", "-o", "weights.pt"),
        ("bench", "--steps", "2"),
    ],
    ids=" ".join,
)
def test_a_broken_torch_is_one_sentence_of_every_command_that_needs_it(home: Path, args: tuple[str, ...]) -> None:
    before = states(home)
    done = tuitrain(without_torch(home, f"ImportError({LIBRARY!r})"), *args, cwd=home)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"tuitrain: {BROKEN}"
    assert "Traceback" not in done.stderr
    assert states(home) == before, "nothing is left of it, and the run that would have gone on is as it was"
    assert not (home / "weights.pt").exists()


def test_a_torch_that_is_not_there(home: Path) -> None:
    done = tuitrain(without_torch(home, "ModuleNotFoundError(\"No module named 'torch'\", name='torch')"), *RUN)
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (2, "", f"tuitrain: {MISSING}")


def test_a_torch_that_a_variable_stops(home: Path) -> None:
    done = tuitrain(env_of(home) | {"TORCH_LOGS": "x"}, *RUN)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("tuitrain: torch cannot be imported: Invalid log settings: x")
    assert "Traceback" not in done.stderr


def test_a_model_whose_import_fails_keeps_its_own_sentence(home: Path) -> None:
    (home / "nets.py").write_text("import libcudart\n")
    done = tuitrain(env_of(home), *RUN, "--set", "model=nets:make_model", cwd=home)
    assert done.returncode == 2
    assert "model: 'nets:make_model': importing nets failed: ModuleNotFoundError: No module named 'libcudart'" in done.stderr
    assert "torch" not in done.stderr.splitlines()[-1]

"""`pip install .` leaves the torch that is there untouched."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def python_with_old_torch(tmp_path: Path) -> Path:
    """An interpreter that sees everything installed here, except that its torch says it is 2.6.0."""
    pytest.importorskip("pip", reason="needs pip, which an environment that uv made has not")
    venv.create(tmp_path / "venv", with_pip=False)
    site = next((tmp_path / "venv" / "lib").glob("python*")) / "site-packages"
    (site / "here.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    metadata = site / "torch-2.6.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n", encoding="utf-8")
    (metadata / "INSTALLER").write_text("pip\n", encoding="utf-8")
    (metadata / "RECORD").write_text("", encoding="utf-8")
    return tmp_path / "venv" / "bin" / "python"


def dry_run(python: Path, *wanted: str) -> subprocess.CompletedProcess[str]:
    """What pip would install for `wanted`, without any index to take a newer torch from."""
    command = [python, "-m", "pip", "install", "--dry-run", "--no-index", "--no-build-isolation", "--disable-pip-version-check", *wanted]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={"PIP_CONFIG_FILE": os.devnull, "PATH": os.defpath})


def test_an_installed_torch_is_left_untouched(python_with_old_torch: Path) -> None:
    done = dry_run(python_with_old_torch, str(PROJECT))
    assert done.returncode == 0, done.stderr
    would = [line for line in done.stdout.splitlines() if line.startswith("Would install")]
    assert len(would) == 1
    assert "torch" not in would[0].replace("tuitrain", "")
    assert "torch>=2.6" in done.stdout
    assert "(2.6.0)" in done.stdout


def test_the_dry_run_would_show_a_torch_that_must_change(python_with_old_torch: Path) -> None:
    done = dry_run(python_with_old_torch, str(PROJECT), "torch>=2.7")
    assert done.returncode != 0
    assert "torch>=2.7" in done.stderr


def test_the_metadata_names_every_python_it_supports() -> None:
    text = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'requires-python = ">=3.10"' in text
    for minor in range(10, 15):
        assert f"Python :: 3.{minor}" in text
    assert sys.version_info >= (3, 10)


@pytest.mark.parametrize("path", sorted((PROJECT / "tuitrain").rglob("*.py")), ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_module_is_in_the_syntax_of_the_oldest_python(path: Path) -> None:
    assert ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10)).body


def test_the_syntax_check_knows_what_is_newer() -> None:
    with pytest.raises(SyntaxError):
        ast.parse("try:\n    pass\nexcept* OSError:\n    pass\n", feature_version=(3, 10))

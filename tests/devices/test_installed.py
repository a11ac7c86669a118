"""What the files of an installed torch say of its build."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tuitrain.devices.installed import cpu_only_torch

CPU = "from typing import Optional\n__version__ = '2.13.0'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that comes before all others; torch counts as not imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return tmp_path


def install(packages: Path, version: str | bytes | None) -> None:
    (packages / "torch").mkdir()
    (packages / "torch" / "__init__.py").write_text("raise ImportError('nobody may import it')")
    if version is not None:
        content = version.encode() if isinstance(version, str) else version
        (packages / "torch" / "version.py").write_bytes(content)
    importlib.invalidate_caches()


@pytest.mark.parametrize(
    ("version", "cpu_only"),
    [
        (CPU, True),
        ("cuda = None\nhip = None\n", True),
        ("cuda = None\n", True),
        (CPU.replace("cuda: Optional[str] = None", "cuda: Optional[str] = '12.8'"), False),
        (CPU.replace("hip: Optional[str] = None", "hip: Optional[str] = '6.2'"), False),
        ("cuda = found()\n", False),
        ("__version__ = '2.13.0+cpu'\n", False),
        ("cuda = None = 3", False),
        (b"\xff\x00", False),
        (None, False),
    ],
)
def test_a_torch_without_cuda_and_rocm_is_for_the_cpu_only(packages: Path, version: str | bytes | None, cpu_only: bool) -> None:
    install(packages, version)
    assert cpu_only_torch() is cpu_only
    assert "torch" not in sys.modules


def test_a_file_of_that_name_says_nothing(packages: Path) -> None:
    (packages / "torch.py").touch()
    (packages / "version.py").write_text(CPU)
    importlib.invalidate_caches()
    assert not cpu_only_torch()

"""Whole programs get folders of their own and a machine without NVIDIA cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuitrain.python import PACKAGES


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Runs and caches below `tmp_path`; nothing of the person's own is read or written.

    The programs are those of this tree, and find `small_net`.
    """
    folders = {"TUITRAIN_RUNS": str(tmp_path / "runs"), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    return folders | {"PYTHONPATH": f"{Path(__file__).parent}:{PACKAGES}", "CUDA_VISIBLE_DEVICES": ""}

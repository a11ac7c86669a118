"""Processes that are killed while they save, again and again: there is always a newest checkpoint that loads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from killed_saves import KilledSaves

KILLS = 40

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def test_a_process_killed_at_any_moment_of_a_save_leaves_one_that_loads(tmp_path: Path) -> None:
    saves = KilledSaves(tmp_path)
    for _ in range(KILLS):
        saves.kill_one()
    # Else the test would be about nothing.
    assert saves.within > KILLS // 4

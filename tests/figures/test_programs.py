"""The programs that are measured: nothing of one is left beside the next."""

from __future__ import annotations

import psutil
import pytest

from benchmarks.programs import Screen


@pytest.mark.parametrize("end", ["wait", "trap '' TERM; wait; wait"], ids=["when asked", "by force"])
def test_nothing_outlives_a_screen(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.programs.ENDING_SECONDS", 0.5)
    screen = Screen(["bash", "-c", f"setsid sleep 1000 & echo begun; {end}"], {})
    screen.wait(lambda text: "begun" in text)
    (left,) = psutil.Process(screen.child.pid).children()
    screen.close()
    assert psutil.wait_procs([left], timeout=60)[1] == []

from __future__ import annotations

import pytest

from tuitrain.runs.report import short_devices


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("cpu",), "cpu"),
        (("cpu", "cpu"), "cpu ×2"),
        (("auto:2",), "auto:2"),
        (tuple(f"cuda:{index}" for index in range(8)), "cuda:0-7"),
        (("cuda:0", "cuda:1", "cuda:3", "cpu"), "cuda:0-1, cuda:3, cpu"),
        (("cuda:9", "cuda:10", "cuda:0"), "cuda:9-10, cuda:0"),
        (("cuda:0", "cuda:0", "cuda:1"), "cuda:0 ×2, cuda:1"),
        ((), ""),
    ],
)
def test_many_devices_take_few_cells(names: tuple[str, ...], shown: str) -> None:
    assert short_devices(names) == shown

from __future__ import annotations

import resource
import sys

import pytest
import torch

from tuitrain.engine.allocator import _CHOICES, kept_memory


def page_faults(steps: int) -> int:
    """Of steps that each allocate six tensors of 8 MB and free them all."""

    def step() -> None:
        [torch.ones(2 * 2**20) for _ in range(6)]

    for _ in range(5):
        step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(sys.platform != "linux", reason="it is about glibc")
def test_a_step_does_not_pay_for_fresh_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _CHOICES:
        monkeypatch.delenv(name, raising=False)
    with kept_memory():
        # 122,880 pages are touched; without the setting most of them are faults, where pages are not huge.
        assert page_faults(steps=10) < 2_000


def test_the_persons_own_choice_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(name: object) -> None:
        raise AssertionError

    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    monkeypatch.setattr("tuitrain.engine.allocator.ctypes.CDLL", lambda name: type("Libc", (), {"mallopt": never, "malloc_trim": never}))
    with kept_memory():
        pass

"""Threads of torch: several test processes share the cores, where threads that wait for each other cost more than they gain."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# Before torch is loaded: OpenMP threads otherwise spin while they wait.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import torch

torch.set_num_threads(1)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """As on a machine of one's own, for what has to come out alike however the work is shared out."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)

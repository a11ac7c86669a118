"""The training engine: the only room that imports torch. Import `tuitrain.engine.train` when a run starts, not before."""

from __future__ import annotations

import os

# For tensors of 2 MB and more torch asks the kernel for huge pages then. It looks once, before its first tensor.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

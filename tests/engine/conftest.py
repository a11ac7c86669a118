"""Set before torch is loaded: on a busy machine the tests' tiny tensors otherwise wait for OpenMP threads that spin."""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

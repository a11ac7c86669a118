from __future__ import annotations

import os

# Several test processes share the cores: OpenMP threads that spin while they wait would take them from each other.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

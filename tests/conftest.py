from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Several test processes share the cores: OpenMP threads that spin while they wait would take them from each other.
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

# On shared cores an example may take long without being wrong.
settings.register_profile("shared-cores", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared-cores")

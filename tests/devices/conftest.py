"""The stand-in NVML for the tests of this room."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from nvml_stub.fixture import nvml, nvml_here

__all__ = ["nvml", "nvml_here"]

"""Packages named torch that a fresh Python finds before the real one."""

from __future__ import annotations

import os
from pathlib import Path

HANG = "import threading; threading.Event().wait()"

GPUS = """
import os, types
__version__ = "2.13.0+cu130"
version = types.SimpleNamespace(cuda="13.0", hip=None)

class Tensor:
    def __add__(self, other):
        return self
    def item(self):
        return float(os.environ.get("SUM", 2))

def ones(*_, device):
    if device == "cuda:1" and "FULL" in os.environ:
        raise RuntimeError("CUDA out of memory")
    return Tensor()

def start():
    said = os.environ.get("CUDA_SAYS")
    if said == "hang":
        import threading
        threading.Event().wait()
    if said:
        raise RuntimeError(said)

cuda = types.SimpleNamespace(
    device_count=lambda: 2, get_arch_list=lambda: ["sm_80", "sm_90"], init=start, get_device_name=lambda n: "GPU %d" % n,
    get_device_capability=lambda n: (9, 0), can_device_access_peer=lambda a, b: True,
)
"""
DISTRIBUTED = """
def is_available():
    return True
is_nccl_available = is_available
"""

RANKS = """
import os, types
float32 = None

class Tensor:
    def min(self):
        return self
    max = min
    def __getitem__(self, _):
        return self
    def item(self):
        return 3.0 if "WRONG" not in os.environ else 2.0

def full(*_, device):
    return Tensor()

cuda = types.SimpleNamespace(set_device=lambda device: None)
"""
RANKS_DISTRIBUTED = """
import os, threading

def init_process_group(backend, rank, **_):
    global number
    number = rank
    if os.environ.get("HANGING_RANK") == str(rank):
        threading.Event().wait()
    if os.environ.get("FAILING_RANK") == str(rank):
        raise RuntimeError("no route to " + backend)

def all_reduce(tensor):
    if "PEERS_HANG" in os.environ and "NCCL_P2P_DISABLE" not in os.environ:
        threading.Event().wait()

def destroy_process_group():
    pass
"""


def environ_with(folder: Path, init: str, distributed: str = DISTRIBUTED, **variables: str) -> dict[str, str]:
    """An environment in which `import torch` runs `init`."""
    package = folder / "fake" / "torch"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(init)
    (package / "distributed.py").write_text(distributed)
    return {**_plain(), "PYTHONPATH": str(package.parent), **variables}


def environ_without(folder: Path) -> dict[str, str]:
    """An environment in which no torch is installed."""
    (folder / "bare").mkdir(exist_ok=True)
    (folder / "bare/sitecustomize.py").write_text("import sys\nsys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n")
    return {**_plain(), "PYTHONPATH": str(folder / "bare")}


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "NCCL_", "PYTHONPATH", "SLURM_"))}

"""What the figures were taken on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def describe() -> dict[str, object]:
    """Processor, cores, bf16 instructions and AMX, GPU names and the versions that matter."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    model = next((line.partition(":")[2].strip() for line in cpuinfo.splitlines() if line.startswith("model name")), platform.processor())
    flags = next((line.split() for line in cpuinfo.splitlines() if line.startswith("flags")), [])
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "bf16_instructions": any(flag in flags for flag in ("avx512_bf16", "amx_bf16")),
        "amx": "amx_bf16" in flags,
        "gpus": gpus(),
        "python": sys.version.split()[0],
        "torch": version("torch"),
        "textual": version("textual"),
        "tuitrain": version("tuitrain"),
    }


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs, as nvidia-smi lists them."""
    try:
        listed = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return [line.strip() for line in listed.stdout.splitlines() if line.strip()]

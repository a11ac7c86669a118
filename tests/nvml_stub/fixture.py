"""Fixtures that put a stand-in libnvidia-ml.so.1 under the real pynvml. The scenario's words are at the top of nvml_stub.c.

`nvml(scenario)` gives the environment for a whole program; `nvml_here(scenario)` loads it into this process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
SCENARIO = "TUITRAIN_NVML_SCENARIO"
LIBRARY = "libnvidia-ml.so.1"

Environment = dict[str, str]


def build(scenario: str, folder: Path) -> Path:
    """Compile the stand-in into `folder`, without the functions that the scenario calls missing; one that is there already is kept."""
    missing = sorted({line.split()[1] for line in scenario.splitlines() if line.startswith("missing ")})
    library = folder / f"nvml-{hashlib.sha256(' '.join(missing).encode()).hexdigest()[:12]}.so"
    if library.exists():
        return library
    hidden = "".join(f"{name}; " for name in missing)
    exports = library.with_suffix(".map")
    exports.write_text(f"{{ global: nvml*; local: {hidden}*; }};\n")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("the stand-in for NVML needs a C compiler (cc)")
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,--version-script={exports}", "-pthread"]
    subprocess.run([compiler, *options, "-o", str(library), str(SOURCE)], check=True)
    return library


def write(environment: Environment, scenario: str) -> None:
    """Give a running stand-in another scenario."""
    path = Path(environment[SCENARIO])
    fresh = path.with_suffix(".new")
    fresh.write_text(scenario)
    fresh.replace(path)


@pytest.fixture
def nvml(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """`nvml(scenario)`: the environment variables under which a program finds the stand-in."""

    def prepare(scenario: str) -> Environment:
        folder = tmp_path / "nvml"
        folder.mkdir()
        # Each test has a copy: the loader keeps one state for one file.
        shutil.copy(build(scenario, tmp_path_factory.getbasetemp()), folder / LIBRARY)
        environment = {"LD_LIBRARY_PATH": str(folder), SCENARIO: str(folder / "scenario.txt")}
        write(environment, scenario)
        return environment

    return prepare


@pytest.fixture
def nvml_here(nvml: Callable[[str], Environment], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Environment]:
    """`nvml_here(scenario)`: the same, loaded into this process."""
    import pynvml

    def load(scenario: str) -> Environment:
        environment = nvml(scenario)
        library = os.path.join(environment["LD_LIBRARY_PATH"], LIBRARY)
        monkeypatch.setenv(SCENARIO, environment[SCENARIO])
        monkeypatch.setattr(pynvml, "CDLL", lambda name: ctypes.CDLL(library))
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        return environment

    return load

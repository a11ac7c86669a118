"""`python tests/cuda_standin [--devices N] COMMAND ...`: run COMMAND as on a machine with NVIDIA GPUs.

It needs a torch that is built for CUDA 12 or 13 in the Python that it is run with, and a C++ compiler. Torch then finds cards, makes
contexts, allocates, queues, records and exchanges as ever, but the libraries beneath it are stand-ins, compiled from the sources in this
folder, and what its operators compute they compute on the CPU. NVML's lists the processes that use CUDA's, and what they hold. So it tells
whether what is done with GPUs works, and nothing of how fast it is, nor whether a real driver agrees. `make gpu-standin` runs the tests on
it that are marked `gpu`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
NVML = HERE.parent / "nvml_stub" / "nvml_stub.c"
SITE = Path(sysconfig.get_path("purelib"))
# Triton, which such a torch brings, has all of CUDA's headers, but perhaps of another CUDA; the runtime's own package lacks some.
HEADERS = SITE / "triton/backends/nvidia/include"
INCLUDES = [*(path.parent for path in SITE.glob("nvidia/*/include/cuda_runtime_api.h")), HEADERS]

RUNTIME = next((path.name for path in SITE.glob("nvidia/*/lib/libcudart.so.*")), "libcudart.so.13")
DRIVER, NCCL, NVML_LIBRARY = "libcuda.so.1", "libnccl.so.2", "libnvidia-ml.so.1"
SOURCES = {RUNTIME: HERE / "runtime.cpp", DRIVER: HERE / "driver.cpp", NCCL: HERE / "nccl.cpp", NVML_LIBRARY: NVML}
EXPORTS = {RUNTIME: f"{RUNTIME} {{ global: cuda*; __cuda*; standin_*; local: *; }};", DRIVER: "{ global: cu*; local: *; };"}
EXPORTS |= {NCCL: "{ global: nccl*; local: *; };", NVML_LIBRARY: "{ global: nvml*; local: *; };"}
# Symbols of a C++ library of their own would take the place of those that torch's exceptions are caught by.
OPTIONS = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-static-libstdc++", "-static-libgcc", "-pthread"]
MEMORY = 2 << 30


def main() -> None:
    """Build what is not built, and become COMMAND."""
    parser = argparse.ArgumentParser(prog="cuda_standin", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2, help="how many cards there are (%(default)s)")
    parser.add_argument("--memory", type=int, default=MEMORY, help="bytes of each (%(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    args = parser.parse_args()
    if not args.command:
        parser.error("COMMAND is missing")
    if not HEADERS.is_dir():
        parser.error(f"{sys.executable} has no torch that is built for CUDA: {HEADERS} is missing")
    folder = build()
    scenario = folder / f"{args.devices}-cards-{args.memory}.txt"
    held = folder / "held"
    held.mkdir(exist_ok=True)
    scenario.write_text(nvml_scenario(args.devices, args.memory, held))
    environment = {
        "LD_PRELOAD": f"{folder / RUNTIME} {folder / NCCL}",
        "LD_LIBRARY_PATH": f"{folder}",
        "PYTHONPATH": os.pathsep.join([str(HERE / "hook"), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "STANDIN_DEVICES": str(args.devices),
        "STANDIN_MEMORY": str(args.memory),
        "STANDIN_HELD": str(held),
        "TUITRAIN_NVML_SCENARIO": str(scenario),
    }
    os.execvpe(args.command[0], args.command, os.environ | environment)


def build() -> Path:
    """Compile the libraries into a folder of this Python's environment, unless these sources are compiled there; the folder."""
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in (*SOURCES.values(), Path(__file__))))
    folder = Path(sys.prefix) / "cuda_standin" / digest.hexdigest()[:12]
    if not folder.is_dir():
        making = folder.with_suffix(f".{os.getpid()}")
        making.mkdir(parents=True)
        for name in SOURCES:
            compile_library(name, making)
        making.rename(folder)
    return folder


def compile_library(name: str, folder: Path) -> None:
    """The driver's stand-in asks the runtime's, which comes first."""
    exports = folder / f"{name}.map"
    exports.write_text(EXPORTS[name])
    compiler = ["cc"] if name == NVML_LIBRARY else ["c++", "-std=c++17", *(f"-I{folder}" for folder in INCLUDES)]
    named = [f"-Wl,-soname,{name}", f"-Wl,--version-script={exports}", "-o", str(folder / name), str(SOURCES[name])]
    subprocess.run([*compiler, *OPTIONS, *named, *([str(folder / RUNTIME)] if name == DRIVER else [])], check=True)


def nvml_scenario(devices: int, memory: int, held: Path) -> str:
    """The cards as runtime.cpp has them, for the stand-in for NVML; it finds in `held` what processes take of them."""
    cards = [f"card {n} uuid GPU-face0000-0000-0000-0000-{n:012x}" for n in range(devices)]
    sizes = [f"card * memory_total {memory}", "card * memory_used 0", "card * memory_reserved 0"]
    return "\n".join(["driver 580.65.06", "cuda 13000", f"count {devices}", *sizes, *cards, f"held {held}", ""])


if __name__ == "__main__":
    main()

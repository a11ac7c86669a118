"""The two-rank test on request: two processes add a tensor up over NCCL or gloo, within a bound.

GPUs that cannot reach one another directly, though the driver says so, hang here and not in a training run.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuitrain.devices.doctor.bounded import Ended, python_script, run_all
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject
from tuitrain.devices.samples import DeviceSnapshot
from tuitrain.text import clean

EXCHANGE = Subject("all-reduce", "Two devices together", "two processes that add a tensor of 4 MB up between them")
SECONDS = 28.0
FIRST_SHARE = 0.6
"""Of the time, for the first try; what is left is for the one without direct access, which only comes after a hang."""
WITHOUT_PEERS = "NCCL_P2P_DISABLE"
_IN_WORDS = "NCCL_DEBUG=INFO NCCL_DEBUG_FILE=nccl-%p.txt tuitrain doctor --all-reduce"

SCRIPT = r"""
import sys
rank, backend, device, meeting = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
def at(step):
    print(step, flush=True)
at("importing torch")
import datetime, torch, torch.distributed
if device != "cpu":
    torch.cuda.set_device(device)
at("meeting the other process")
patience = datetime.timedelta(seconds=60)
torch.distributed.init_process_group(backend, init_method="file://" + meeting, rank=rank, world_size=2, timeout=patience)
at("adding up")
for _ in range(3):
    tensor = torch.full((1 << 20,), float(rank + 1), device=device)
    torch.distributed.all_reduce(tensor)
    assert tensor.min().item() == tensor.max().item() == 3.0, "the sum is wrong: %s" % tensor[0].item()
at("done")
torch.distributed.destroy_process_group()
"""
_STEPS = ("starting", "importing torch", "meeting the other process", "adding up", "done")


def two_devices(snapshot: DeviceSnapshot) -> tuple[str, str]:
    """The first two GPUs that CUDA offers, or the CPU twice where there are fewer."""
    offered = sorted(card.cuda_index for card in snapshot.devices if card.cuda_index is not None and card.status == "ok")
    return (f"cuda:{offered[0]}", f"cuda:{offered[1]}") if len(offered) > 1 else ("cpu", "cpu")


def all_reduce(
    devices: Sequence[str], *, environ: Mapping[str, str] = os.environ, seconds: float = SECONDS, stop: threading.Event | None = None
) -> Check:
    """Let two processes, one on each of the two `devices` ("cuda:0", or "cpu" for both), add numbers up; blocks `seconds` + 1 at most.

    Raises:
        ValueError: `devices` are not two, or mix "cpu" with GPUs.
    """
    on_cpu = [device == "cpu" for device in devices]
    if len(devices) != 2 or any(on_cpu) != all(on_cpu):
        raise ValueError(f"an all-reduce needs two GPUs, or cpu twice, not {', '.join(devices) or 'nothing'}")
    began = time.monotonic()
    first = seconds if all(on_cpu) or WITHOUT_PEERS in environ else seconds * FIRST_SHARE
    try:
        ranks = _run(devices, environ, first, stop)
        if stop is not None and stop.is_set():
            return EXCHANGE.ok("stopped before it had an answer")
        if _done(ranks):
            return _worked(devices, time.monotonic() - began)
        hung = any(rank.code is None for rank in ranks) and all(rank.code in (None, 0) for rank in ranks)
        if hung and first < seconds and _reached(ranks, "meeting the other process"):
            again = _run(devices, {**environ, WITHOUT_PEERS: "1"}, seconds - (time.monotonic() - began), stop)
            if _done(again):
                return _peers_hang(devices)
    except OSError as error:
        return EXCHANGE.warning(
            f"the two processes could not be started ({clean(error.strerror or str(error))})", "Free memory, and try again."
        )
    return _hung(devices, ranks, first) if hung else _failed(devices, ranks)


def _run(devices: Sequence[str], environ: Mapping[str, str], seconds: float, stop: threading.Event | None) -> tuple[Ended, ...]:
    backend = "gloo" if devices[0] == "cpu" else "nccl"
    # Gloo looks its own host name up, which fails on many machines; both processes are on this one.
    local = {"GLOO_SOCKET_IFNAME": "lo"} if Path("/sys/class/net/lo").exists() else {}
    with tempfile.TemporaryDirectory(prefix="tuitrain-doctor-", ignore_cleanup_errors=True) as folder:
        meeting = os.path.join(folder, "meeting")
        commands = [python_script(SCRIPT, [str(rank), backend, device, meeting]) for rank, device in enumerate(devices)]
        return run_all(commands, {**local, **environ, "OMP_NUM_THREADS": "1"}, max(1.0, seconds), stop)


def _step(rank: Ended) -> str:
    """The last step that the process began."""
    return next((line for line in reversed(rank.out.splitlines()) if line in _STEPS), _STEPS[0])


def _done(ranks: Sequence[Ended]) -> bool:
    return all(_step(rank) == "done" and rank.code in (0, None) for rank in ranks)


def _reached(ranks: Sequence[Ended], step: str) -> bool:
    return all(_STEPS.index(_step(rank)) >= _STEPS.index(step) for rank in ranks)


def _worked(devices: Sequence[str], seconds: float) -> Check:
    if devices[0] == "cpu":
        return EXCHANGE.ok(f"two processes on the CPU added up over gloo in {seconds:.0f} s; this says nothing about GPUs")
    return EXCHANGE.ok(f"{devices[0]} and {devices[1]} added up over NCCL in {seconds:.0f} s")


def _peers_hang(devices: Sequence[str]) -> Check:
    return EXCHANGE.problem(
        f"{devices[0]} and {devices[1]} hang when they talk to one another directly (peer to peer), and work through the main memory",
        f"`export {WITHOUT_PEERS}=1`; to mend it for good turn IOMMU (ACS) off in the BIOS, or boot with iommu=pt.",
    )


def _hung(devices: Sequence[str], ranks: Sequence[Ended], seconds: float) -> Check:
    behind = min(range(2), key=lambda number: _STEPS.index(_step(ranks[number])))
    both = _step(ranks[0]) == _step(ranks[1])
    who = "both ranks" if both else f"rank {behind} ({devices[behind]})"
    where = _step(ranks[behind])
    mend = "Look what the machine waits for, and ask again; other work on it can make this slow."
    if devices[0] != "cpu":
        mend = f"/dev/shm may be too small; what NCCL waits for is then in nccl-*.txt: `{_IN_WORDS}`"
    return EXCHANGE.problem(f"{who} did not end within {seconds:.0f} s, at: {where}", mend)


def _failed(devices: Sequence[str], ranks: Sequence[Ended]) -> Check:
    failed = next((number for number, rank in enumerate(ranks) if rank.code not in (None, 0)), 0)
    lines = [line.strip() for line in ranks[failed].err.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    said = clean((errors or lines or [f"exit code {ranks[failed].code}"])[-1][:240])
    return EXCHANGE.problem(
        f"rank {failed} ({devices[failed]}) failed at: {_step(ranks[failed])} ({said})",
        "What is wrong above goes first" + ("." if devices[0] == "cpu" else f"; what NCCL says is then in nccl-*.txt: `{_IN_WORDS}`"),
    )

"""Checks of the cards themselves: lost, closed to computing, cut into MIG instances, shared through MPS."""

from __future__ import annotations

from tuitrain.devices.doctor.counting import left_by_variable, take_instance
from tuitrain.devices.doctor.driver import LAST_LINES
from tuitrain.devices.doctor.facts import Facts
from tuitrain.devices.doctor.model import Check
from tuitrain.devices.doctor.subject import Subject, cards
from tuitrain.devices.fields import PROHIBITED, default_mode, is_exclusive
from tuitrain.devices.inventory import computing_alone
from tuitrain.devices.samples import MPS_PROGRAMS, UNNAMED, DeviceSample, Status

STATE = Subject("cards", "State of the cards", "NVML's answer for each card, and a small sum that torch does on it")
MODE = Subject("compute-mode", "Compute mode", "NVML's compute mode of each card, and who is on it")
MIG = Subject("mig", "MIG", "NVML's MIG mode and instances of each card")
MPS = Subject("mps", "MPS", "CUDA_MPS_PIPE_DIRECTORY and the running processes")
_MENDS: dict[Status, str] = {
    "lost": f"Reboot (a card that fell off the bus needs power off and on); read why with: {LAST_LINES}.",
    "reset required": "Stop all that uses it or looks at it, tuitrain too, then: `sudo nvidia-smi --gpu-reset -i NUMBERS`; or reboot.",
    "not responding": f"Reboot if it stays so; read why with: {LAST_LINES}.",
    "unknown error": f"Reboot if it stays so; read why with: {LAST_LINES}.",
    "no permission": "Ask the administrator for access to this card; the others work without it.",
}
"""The worst first."""
_MPS_ERRORS = ("error 805", "error 806", "error 807", "mps client", "mps server")


def state(facts: Facts) -> Check | None:
    """Cards that are lost, need a reset, do not answer or do not compute."""
    if not facts.cards:
        return None
    unwell = [(status, hit) for status in _MENDS if (hit := [card for card in facts.cards if card.status == status])]
    if not unwell or ((facts.silent or facts.snapshot.error) and all(card.status == "not responding" for card in facts.cards)):
        # Where the whole driver is silent, its own check says why.
        return _sums(facts)
    found = "; ".join(f"{_named(hit)}: {status}" + (f" ({hit[0].reason})" if hit[0].reason else "") for status, hit in unwell)
    # A card of somebody else's, beside cards that work, is a machine that is shared on purpose.
    if [status for status, _ in unwell] == ["no permission"] and len(unwell[0][1]) < len(facts.cards):
        return STATE.ok(found)
    return STATE.problem(found, " ".join(_mend(status, hit, alone=len(unwell) == 1) for status, hit in unwell))


def _mend(status: Status, hit: list[DeviceSample], *, alone: bool) -> str:
    numbers = [str(card.nvml_index) for card in hit]
    whose = "" if alone else f"{', '.join(f'GPU {number}' for number in numbers)}: "
    return whose + _MENDS[status].replace("NUMBERS", ",".join(numbers))


def _sums(facts: Facts) -> Check:
    at, error = next(((at, device.error) for at, device in enumerate(facts.torch.devices) if device.error), (0, ""))
    words = error.lower()
    if "out of memory" in words:
        return STATE.warning(f"cuda:{at} has no memory left for even one number", "See who holds it with: `tuitrain gpus`")
    # Of the last two the checks of the architecture and of the compute mode say why.
    if not words or "no kernel image" in words or "busy or unavailable" in words:
        return STATE.ok(f"{cards(len(facts.cards))}, none lost and none in need of a reset")
    return STATE.problem(f"torch cannot compute on cuda:{at}: {error[:200]}", f"Reboot if it stays so; read why with: {LAST_LINES}")


def compute_mode(facts: Facts) -> Check | None:
    """Cards that let nobody compute, or one process only."""
    prohibited = [card for card in facts.cards if card.compute_mode == PROHIBITED]
    if prohibited:
        numbers = ",".join(str(card.nvml_index) for card in prohibited)
        return MODE.problem(f"{_named(prohibited)}: compute mode is prohibited, so no CUDA program may use it", _default_mode(numbers))
    exclusive = [card for card in facts.cards if is_exclusive(card.compute_mode)]
    held = [card for card in exclusive if computing_alone(card)]
    if held:
        holder = computing_alone(held[0])[0]
        who = f"{holder.name or 'a process'} (PID {holder.pid})"
        return MODE.warning(
            f"{_named(held)}: compute mode is exclusive, and {who} has it; torch counts the card but cannot use it until that ends",
            f"Wait for it, take another card, or: {_default_mode(str(held[0].nvml_index))}",
        )
    busy = [at for at, device in enumerate(facts.torch.devices) if "busy or unavailable" in (device.error or "").lower()]
    if busy:
        return MODE.warning(
            f"CUDA says that cuda:{busy[0]} is busy or unavailable: another process has it for itself", "See who with: `tuitrain gpus`"
        )
    if exclusive:
        seen = [process for card in exclusive for process in card.processes or ()]
        shared = any(process.kind == "M+C" or process.serves_mps for process in seen)
        how = "which is that of MPS: through it several may compute" if shared else "and free"
        return MODE.ok(f"{_named(exclusive)}: exclusive, one process at a time, {how}")
    return MODE.ok("every card lets several processes compute") if facts.cards else None


def _default_mode(numbers: str) -> str:
    return f"`{default_mode(numbers)}`"


def mig(facts: Facts) -> Check | None:
    """MIG: a process gets one instance, whatever nvidia-smi lists."""
    cut = [card for card in facts.cards if card.mig]
    instances = [row for row in facts.snapshot.devices if row.instance is not None]
    if not cut and not instances and not facts.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-"):
        return None
    if not instances and cut and not facts.torch.count:
        return MIG.problem(
            f"{_named(cut)}: MIG is on, but there is no instance on it that CUDA could use",
            f"Make one: `sudo nvidia-smi mig -i {cut[0].nvml_index} -cgi 0 -C`; or turn MIG off: {_without_mig(cut)}",
        )
    if len(instances) + len(facts.cards) - len(cut) > 1:
        return MIG.warning(
            f"MIG is on for {_named(cut)}: one process sees one instance only, so torch counts 1 whatever nvidia-smi lists",
            f"{take_instance(facts, 'Take another one')}; for several GPUs in one run turn MIG off: {_without_mig(cut)}",
        )
    return MIG.ok("this process uses one MIG instance")


def _without_mig(cut: list[DeviceSample]) -> str:
    numbers = ",".join(str(card.nvml_index) for card in cut) or "0"
    return f"`sudo nvidia-smi -i {numbers} -mig 0`, with tuitrain closed"


def mps(facts: Facts) -> Check | None:
    """The MPS daemon, which stands between CUDA and the cards."""
    running = any(daemon.startswith(MPS_PROGRAMS) for daemon in facts.system.daemons)
    chosen = "CUDA_MPS_PIPE_DIRECTORY" in facts.environ
    complaint = facts.torch.complaint.lower()
    # The daemon's own list may leave no card, and CUDA then says no more than that there is none.
    emptied = (running or chosen) and "no cuda gpus" in complaint and (left_by_variable(facts).count or 0) > 0
    if emptied or any(error in complaint for error in _MPS_ERRORS):
        return MPS.problem(
            "CUDA goes through the MPS daemon, and does not start; the daemon also renumbers the cards by its own CUDA_VISIBLE_DEVICES",
            ("`unset CUDA_MPS_PIPE_DIRECTORY`; or start" if chosen else "Start") + " the daemon again, with every card: "
            "`echo quit | nvidia-cuda-mps-control; env -u CUDA_VISIBLE_DEVICES nvidia-cuda-mps-control -d`",
        )
    if running or chosen:
        return MPS.ok("CUDA goes through the MPS daemon, whose own CUDA_VISIBLE_DEVICES decides about numbers")
    return None


def _named(found: list[DeviceSample]) -> str:
    return ", ".join(f"GPU {card.nvml_index}" + ("" if card.name == UNNAMED else f" ({card.name})") for card in found)

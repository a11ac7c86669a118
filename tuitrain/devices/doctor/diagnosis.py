"""From the facts to the report: every check, the counting, and the sentence that names where a GPU got lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from tuitrain.devices.doctor import cards as cards_checks
from tuitrain.devices.doctor import container, counting, cuda_start, driver, logout, several, storage, terminal, torch_build
from tuitrain.devices.doctor.facts import Facts
from tuitrain.devices.doctor.model import Check, Count, Report
from tuitrain.devices.doctor.subject import Subject, cards
from tuitrain.text import plural

VERSIONS = Subject("versions", "Versions", "the installed packages, NVML and the kernel")
UNEXPLAINED = Subject("count", "The counting", "the steps from the PCI bus to torch")

_CHECKS: tuple[Callable[[Facts], Check | None], ...] = (
    driver.driver,
    driver.unbound_card,
    driver.wsl,
    container.container,
    container.device_nodes,
    cards_checks.state,
    cards_checks.compute_mode,
    cards_checks.mig,
    cards_checks.mps,
    counting.adapters,
    counting.visible_devices,
    counting.device_order,
    torch_build.torch,
    torch_build.build,
    torch_build.driver_age,
    cuda_start.fabric_manager,
    cuda_start.compat_library,
    cuda_start.uvm,
    torch_build.architecture,
    torch_build.torch_version,
    torch_build.pynvml,
    several.shared_memory,
    several.nccl,
    several.peer_access,
    storage.disk,
    storage.space,
    storage.writing,
    terminal.colours,
    terminal.unicode,
    terminal.size,
    logout.logout,
)
_TORCH = (
    "torch",
    "torch-build",
    "driver-age",
    "fabric-manager",
    "compat-library",
    "mps",
    "uvm",
    "mig",
    "wsl",
    "architecture",
    "cuda-start",
)
_CAUSES: dict[str, tuple[str, ...]] = {
    counting.KNOWN: ("container", "driver", "unbound-card", "cards"),
    counting.OPENABLE: ("container", "device-nodes", "driver"),
    counting.SEEN: ("container", "device-nodes", "driver", "cards"),
    counting.LEFT: ("visible-devices", "mig"),
    # A build for the CPU counts none, however well the cards are.
    counting.COUNTED: ("torch-build", "cards", *_TORCH, "compute-mode"),
}
"""What may take a GPU away at each step, the likeliest first."""
_ABOUT_GPUS = ("driver", "unbound-card", "container", "device-nodes", "cards", "compute-mode", "visible-devices", *_TORCH, "nccl")


def diagnose(facts: Facts) -> Report:
    """The report on a machine."""
    ladder = counting.counts(facts)
    checks = [check for examine in _CHECKS if (check := examine(facts)) is not None]
    start = cuda_start.cuda_start(facts)
    # What CUDA said in its own words helps only where no check knows what it means.
    if start is not None and (start.verdict == "ok" or not _any_problem(checks)):
        checks.append(start)
    loss = _first_loss(ladder, checks)
    if loss is not None and loss.cause is None:
        checks.append(_unexplained(loss))
        loss = msgspec.structs.replace(loss, cause=checks[-1])
    return Report(conclusion=_conclude(ladder, checks, loss), counts=ladder, checks=(_versions(facts), *checks))


class _Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A step that has fewer GPUs than the one before, and the check that says why."""

    before: Count
    after: Count
    cause: Check | None

    @property
    def words(self) -> str:
        """Such as: 2 GPUs are seen by NVML, but only 1 is counted by torch."""
        before, after = self.before.count or 0, self.after.count or 0
        return f"{cards(before)} {_verb(self.before, before)}, but {f'only {after}' if after else 'none'} {_verb(self.after, after or 1)}"


def _verb(count: Count, number: int) -> str:
    if count.step == counting.OPENABLE:
        return count.step
    # Where nobody set the variable, it is not what leaves fewer.
    unset = count.step == counting.LEFT and count.note.startswith(counting.NOT_SET)
    return f"{'is' if number == 1 else 'are'} {'left for CUDA' if unset else count.step}"


def _first_loss(ladder: Sequence[Count], checks: Sequence[Check]) -> _Loss | None:
    """The first loss that somebody should do something about; else the first that is meant; `None` where no GPU is lost."""
    known = [count for count in ladder if count.count is not None]
    losses = [
        _Loss(before=before, after=after, cause=_cause(after.step, checks))
        for before, after in pairwise(known)
        if (after.count or 0) < (before.count or 0)
    ]
    to_mend = [loss for loss in losses if loss.cause is None or loss.cause.verdict != "ok"]
    return next(iter(to_mend or losses), None)


def _cause(step: str, checks: Sequence[Check]) -> Check | None:
    """The check that explains the step: one that found something wrong, else one that found it meant."""
    by_id = {check.check: check for check in checks}
    candidates = [by_id[name] for name in _CAUSES[step] if name in by_id]
    wrong = [check for verdict in ("problem", "warning") for check in candidates if check.verdict == verdict]
    meant = [check for check in candidates if check.check in _MEANT_BY[step]]
    return next(iter(wrong or meant), None)


_MEANT_BY: dict[str, tuple[str, ...]] = {
    counting.KNOWN: ("container", "unbound-card"),
    counting.OPENABLE: ("container", "device-nodes"),
    counting.SEEN: (),
    counting.LEFT: ("mig", "visible-devices", "cards"),
    counting.COUNTED: ("mig",),
}
"""The checks whose "ok" may say that GPUs are kept away on purpose."""


def _any_problem(checks: Sequence[Check]) -> bool:
    return any(check.verdict == "problem" and check.check in _ABOUT_GPUS for check in checks)


def _unexplained(loss: _Loss) -> Check:
    return UNEXPLAINED.problem(
        f"{loss.words}, and none of the known causes fits",
        "Ask in a forum, with this report: `tuitrain doctor`",
    )


def _conclude(ladder: Sequence[Count], checks: Sequence[Check], loss: _Loss | None) -> str:
    if loss is not None and loss.cause is not None and loss.cause.verdict != "ok":
        return _sentence(loss.cause.found if loss.cause.check == UNEXPLAINED.check else f"{loss.words}: {loss.cause.found}")
    problem = next((check for check in checks if check.verdict == "problem" and check.check in _ABOUT_GPUS), None)
    counted = ladder[-1].count
    if problem is not None:
        before = f"torch counts {cards(counted)}, but " if counted and problem.check not in ("torch", "driver") else ""
        return _sentence(f"{before}{problem.found}")
    return _healthy(ladder, checks, loss)


def _healthy(ladder: Sequence[Count], checks: Sequence[Check], loss: _Loss | None) -> str:
    counted = ladder[-1].count
    most = max((count.count or 0 for count in ladder), default=0)
    rest = _rest(checks)
    if not most:
        return f"This machine has no NVIDIA GPU, and that is fine: training runs on the CPU.{rest}"
    if counted is None:
        why = next((check.found for check in checks if check.check == "torch" and check.verdict != "ok"), "it was not asked")
        return _sentence(f"there {'is' if most == 1 else 'are'} {cards(most)}, and how many torch counts is not known: {why}") + rest
    if loss is not None and loss.cause is not None:
        return _sentence(f"torch counts {counted} of {cards(most)}, as meant: {loss.cause.found}") + rest
    every = {1: "the one GPU", 2: "both GPUs"}.get(counted, f"all {counted} GPUs")
    return f"All is well: torch counts {every} of this machine and can use {'it' if counted == 1 else 'them'}.{rest}"


def _rest(checks: Sequence[Check]) -> str:
    wrong = sum(check.verdict == "problem" for check in checks)
    doubtful = sum(check.verdict == "warning" for check in checks)
    words = [f"{number} {plural(word, number)}" for number, word in ((wrong, "problem"), (doubtful, "warning")) if number]
    return f" Beside the GPUs: {' and '.join(words)}, below." if words else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _versions(facts: Facts) -> Check:
    torch, versions = facts.torch, facts.versions
    builds = f" (CUDA {torch.cuda})" if torch.cuda else ""
    parts = (
        f"tuitrain {versions.tuitrain}",
        f"Python {versions.python}",
        f"torch {torch.version or 'unknown'}{builds}",
        f"NVIDIA driver {driver.version(facts) or ('unknown' if facts.refused else 'none')}",
        versions.system,
    )
    return VERSIONS.ok(", ".join(parts))

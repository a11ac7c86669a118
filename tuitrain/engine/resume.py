"""Going on with a run: its newest checkpoint that can be used, and what is no longer exact when it goes on with something else."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tuitrain.config import ConfigError
from tuitrain.engine.checkpoint import BadCheckpoint, Contents, OtherFormat, Unreadable, load, set_aside
from tuitrain.engine.group import Group
from tuitrain.engine.snapshot import tidy
from tuitrain.events import Notice
from tuitrain.paths import CHECKPOINTS, saved_folders
from tuitrain.text import clean

DAMAGED = "damaged-"

_FACTS = {
    **{"torch": "torch", "cuda": "CUDA", "gpu": "the GPU", "threads": "the number of CPU threads"},
    "planned_steps": "the number of planned steps",
}
"""Of an origin, what the losses depend on, and how a sentence calls it."""
_EVERYWHERE = ("torch", "planned_steps")
"""Those that count on other devices too."""


DECIDING = (
    *("model", "data", "image_size", "batch_size", "loss", "label_smoothing", "optimizer", "lr", "momentum", "nesterov", "weight_decay"),
    *("max_grad_norm", "lr_schedule", "warmup_steps", "averaging", "shuffle", "augment", "dropout", "seed", "deterministic", "precision"),
    *("compile", "batch_dim"),
)
"""Fields that a run keeps when it goes on. A checkpoint has them too, so that a run.toml that was damaged or edited does not go unseen."""


class NoCheckpoint(Exception):
    """A run cannot go on: one sentence that says why."""


def newest_valid(parent: Path) -> Generator[Notice, None, Contents | None]:
    """The newest checkpoint that is as it was written; newer ones are named, and set aside where they are damaged.

    Raises:
        OtherFormat: the newest is from another version of tuitrain.
    """
    tidy(parent)
    for folder in reversed(saved_folders(parent)):
        try:
            return load(folder)
        except OtherFormat:
            raise
        except Unreadable as error:
            text = f"A checkpoint is left where it is, because it cannot be read now: {str(error).rstrip('.')}; the one before is taken."
            yield Notice(level="warning", text=text)
        except BadCheckpoint as error:
            aside = set_aside(folder, DAMAGED)
            where = f"it is set aside as {aside.name}" if aside else "it cannot be set aside"
            text = f"A damaged checkpoint is not used: {str(error).rstrip('.')}; {where}, and the one before is taken."
            yield Notice(level="warning", text=text)
    return None


def required(parent: Path) -> Generator[Notice, None, Contents]:
    """The newest checkpoint that is as it was written, for a run that cannot go on without.

    Raises:
        NoCheckpoint: there is none.
    """
    count = len(saved_folders(parent))
    try:
        found = yield from newest_valid(parent)
    except OtherFormat as error:
        raise NoCheckpoint(str(error)) from None
    if found is None:
        what = f"none of its {count} checkpoints can be used" if count else "it was never saved"
        # Those that are damaged have been set aside.
        then = "try again when they can be read" if saved_folders(parent) else "start it anew"
        raise NoCheckpoint(f"the run cannot go on: {what}; {then}.")
    return found


def of_group(folder: Path, group: Group) -> Generator[Notice, None, tuple[bool, Contents | None]]:
    """Whether a group goes on with a run that began before, and what from; rank 0 alone has the run's folder.

    Raises:
        ConfigError: the newest checkpoint is from another version of tuitrain.
    """
    again, found = group.leads and folder.is_absolute(), None
    if again:
        try:
            found = yield from newest_valid(folder / CHECKPOINTS)
        except OtherFormat as error:
            raise ConfigError(str(error)) from None
    shared: tuple[bool, Contents | None] = group.share((again, found))
    return shared


def restore_threads(contents: Contents, device: str, strategy: str) -> None:
    """On the CPU the number of threads is part of the result, where the run goes on with the same `device` and `strategy`."""
    wanted = contents.origin.get("threads")
    same = _way(contents.origin) == _way({"device": device, "strategy": strategy})
    if same and isinstance(wanted, int) and 0 < wanted != torch.get_num_threads():
        torch.set_num_threads(wanted)


def unsaved(model: nn.Module, devices: Sequence[torch.device]) -> list[str]:
    """What of a run on `devices` no checkpoint has, as parts of a sentence."""
    recurrent = (module for module in model.modules() if isinstance(module, nn.RNNBase))
    # On a GPU a recurrent layer of torch's is cuDNN's, and so is the generator of its dropout, which nobody can read or set.
    if any(module.dropout > 0 for module in recurrent) and any(device.type == "cuda" for device in devices):
        return ["cuDNN alone knows what the dropout between recurrent layers draws"]
    return []


def check_fits(contents: Contents, origin: dict[str, Any], steps_per_epoch: int, unsaved: Sequence[str]) -> Iterator[Notice]:
    """Check that a checkpoint fits what the run has now; what is no longer exact.

    Args:
        origin: what the run trains on now, as `prepare.Prepared.origin` says.
        steps_per_epoch: of the data as it is now.
        unsaved: what a checkpoint of such a run has not, as the function of that name says.

    Raises:
        ConfigError: the data has changed.
    """
    before, at = contents.origin, contents.position
    samples, had = origin["train_samples"], before.get("train_samples", origin["train_samples"])
    if samples != had or at.step != (at.epoch - 1) * steps_per_epoch + at.batches:
        raise ConfigError(f"data: the run was trained on {had:,} training samples, and there are {samples:,} now; it needs the same ones.")
    if (mark := before.get("data_mark")) is not None and mark != origin["data_mark"]:
        text = f"The data is not what the run was trained on up to step {at.step:,}: it has other samples, or other labels."
        yield Notice(level="warning", text=f"{text} What was measured until then, its best checkpoint too, is of the old data.")
    changes = list(unsaved)
    changes += [f"{clean(name)} was edited" for name, mark in before.get("code", {}).items() if origin["code"].get(name, mark) != mark]
    if (was := _way(before)) != (now := _way(origin)) and before:
        changes.append(f"it trains on {now}, and did on {was}")
    kept = before.get("config", {})
    for field, value in origin["config"].items():
        if kept.get(field, value) != value:
            changes.append(clean(f"{field} is {value}, and was {kept[field]}"))
    for fact, name in _FACTS.items():
        if (fact in _EVERYWHERE or was == now) and before.get(fact) is not None and before.get(fact) != origin.get(fact):
            changes.append(f"{name} is {origin.get(fact, 'none')}, and was {before[fact]}")
    if changes:
        text = f"From step {at.step + 1} on the losses are not bit for bit those of a run that was never interrupted: {'; '.join(changes)}."
        yield Notice(level="warning", text=text)


def _way(origin: dict[str, Any]) -> str:
    return f"{origin.get('device')} ({origin.get('strategy')})"

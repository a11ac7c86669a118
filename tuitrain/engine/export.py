"""A run as something that needs no tuitrain: a plain PyTorch script, or the weights alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import torch

from tuitrain.array_files import named_in
from tuitrain.config import OF_CLASSES, ConfigError, RunConfig
from tuitrain.engine import checkpoint
from tuitrain.engine.datasets.arrays import first_image
from tuitrain.engine.datasets.fitting import side_for
from tuitrain.engine.environment import ALONE, OF_LOADERS, PARTS, READ_ANEW, SEVERAL, SIDE
from tuitrain.engine.models import are_large
from tuitrain.engine.own.imports import arguments_of_run
from tuitrain.engine.script.array_file import is_file
from tuitrain.engine.script.facts import Facts
from tuitrain.engine.script.parts import data_part, header, model_part, training_part
from tuitrain.events import DataKind, RunStarted
from tuitrain.files import written_where_asked
from tuitrain.paths import CHECKPOINTS, best_name, expected_data
from tuitrain.recipes import TRAINED_BEFORE
from tuitrain.text import clean

NOTHING_KNOWN: Mapping[str, Any] = MappingProxyType({})

_HAS_TEST: dict[DataKind, bool | None] = {"random": False, "custom": None}
"""Whether data of a kind has a test set, where the answer is not yes; `None` where nobody knows before it is read."""


def script(config: RunConfig, started: RunStarted | None = None, environment: Mapping[str, Any] = NOTHING_KNOWN) -> str:
    """The run as a standalone script: the same batches, the same arithmetic, the same losses.

    It prints `step N loss X` for every step and, where there is test data, `epoch E test loss MEAN (sum over batches SUM) accuracy A`,
    the last where there is an accuracy.

    Args:
        config: the configuration of the run as in its `run.toml`: devices and strategy are named.
        started: the run's first event; it says what kind the data is, and whether there is test data. Without one, what a start would
            find now: then `data` may be "auto".
        environment: what else decided the run's numbers, as its `run.toml` says.

    Raises:
        ConfigError: without `started`, the data is not there, or a file of it cannot be read.
    """
    if started is None:
        data, kind = expected_data(config.data)
        config, has_test = msgspec.structs.replace(config, data=data), _HAS_TEST.get(kind, True)
    else:
        kind, has_test = started.data, started.test_samples > 0
    threads, anew, side = (environment.get(name) for name in ("threads", READ_ANEW, SIDE))
    parts = _parts(environment.get(PARTS))
    if not parts and is_file(config, kind):
        has_test = True  # its own, or what is held out
        parts, side = _of_file(config)
    facts = Facts(
        kind=kind,
        has_test=has_test,
        targets=started.targets if started is not None else "classes" if config.loss in OF_CLASSES else "numbers",
        whole=environment.get("inputs") == "whole numbers" if environment else None,
        several=_several(environment.get(SEVERAL)),
        given=arguments_of_run(config, environment),
        parts=parts,
        of_loaders=tuple(name for name in ("train", "test") if name in str(environment.get(OF_LOADERS, "")).split(", ")),
        side=side if isinstance(side, int) else None,
        large=environment.get("images") == "large" if environment else are_large((3, config.image_size, config.image_size)),
        scores=anew if isinstance(anew, int) else None,
        classes_last=environment.get("scores") == "classes last",
        contiguous=environment.get("memory_format") == "contiguous" if environment else None,
        threads=threads if isinstance(threads, int) else None,
        trained_before=str(environment.get(TRAINED_BEFORE, "")),
    )
    pieces = (piece(config, facts) for piece in (header, data_part, model_part, training_part))
    return "\n\n".join(piece.strip("\n") + "\n" for piece in pieces)


def _several(noted: Any) -> tuple[str, ...] | None:
    """What the environment says of several inputs."""
    if isinstance(noted, int):
        return ("",) * noted
    return tuple(noted.split(", ")) if isinstance(noted, str) else None


def _parts(noted: Any) -> tuple[str, ...]:
    """What the environment says of the parts of a person's data."""
    if not isinstance(noted, str):
        return ()
    return ("",) if noted == ALONE else tuple(noted.split(", "))


def _of_file(config: RunConfig) -> tuple[tuple[str, ...], int | None]:
    """What a run that begins now would call the arrays of its file, and to how many pixels it would bring images."""
    file = Path(config.data)
    named = named_in(file)
    image = first_image(file, named)
    return named.taken, None if image is None else side_for(config, image)


def export_weights(folder: Path, output: Path) -> tuple[Path, str]:
    """Write the weights of a run's best checkpoint, else of its newest valid one, as a state_dict that `torch.load` reads.

    Args:
        folder: the run folder.
        output: the file to write; a regular one is replaced in one go.

    Returns:
        The folder of the checkpoint that the weights are from, and why it is not the best one, empty where it is or none is noted.

    Raises:
        ConfigError: there is no valid checkpoint, or the file cannot be written.
    """
    source, weights, passed_over = _weights(folder / CHECKPOINTS, folder.name)
    try:
        with written_where_asked(output) as file:
            torch.save(weights, file)
    except (OSError, RuntimeError) as error:
        reason = (error.strerror or error) if isinstance(error, OSError) else "the disk may be full"
        raise ConfigError(f"-o: {clean(str(output))} cannot be written: {reason}.") from error
    return source, passed_over


def _weights(parent: Path, run: str) -> tuple[Path, dict[str, torch.Tensor], str]:
    noted, best = best_name(parent), checkpoint.best(parent)
    candidates = ([best] if best else []) + checkpoint.checkpoints(parent)[::-1]
    reasons: list[str] = []
    for candidate in candidates:
        try:
            weights = checkpoint.load(candidate).model
            if noted in (None, candidate.name):
                return candidate, weights, ""
            return candidate, weights, reasons[0] if best else f"{clean(str(noted))} is not there any more"
        except checkpoint.BadCheckpoint as error:
            reasons.append(str(error))
    why = f"the newest says: {reasons[0]}" if reasons else "none has been saved."
    raise ConfigError(f"run: {clean(run)} has no checkpoint that can be used; {why}")

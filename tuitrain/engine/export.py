"""A run as something that needs no tuitrain: a plain PyTorch script, or the weights alone."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine import checkpoint
from tuitrain.engine.script import data_part, header, model_part, training_part
from tuitrain.events import RunStarted
from tuitrain.text import clean


def script(config: RunConfig, started: RunStarted, threads: int | None = None) -> str:
    """The run as a standalone script: the same batches, the same arithmetic, the same losses.

    It prints `step N loss X` for every step and, where there is test data, `epoch E test loss SUM accuracy A`.

    Args:
        config: the resolved configuration of the run, as in its `run.toml`.
        started: the run's first event; it says what kind the data is, and whether there is test data.
        threads: torch's number of threads in the run, where that is known: on the CPU it is part of the result.

    Raises:
        ConfigError: no script is written for the run's strategy.
    """
    if config.strategy == "ddp":
        raise ConfigError("--format py: no script is written for the strategy ddp; a run with split learns the same and has one.")
    has_test = started.test_samples > 0
    parts = [header(config, started.data, threads), data_part(config, started.data), model_part(config, started.data)]
    return "\n\n".join(part.strip("\n") + "\n" for part in (*parts, training_part(config, started.data, has_test)))


def export_weights(folder: Path, output: Path) -> Path:
    """Write the weights of a run's best checkpoint, else of its newest valid one, as a state_dict that `torch.load` reads.

    Args:
        folder: the run folder.
        output: the file to write; it is replaced in one go.

    Returns:
        The folder of the checkpoint that the weights are from.

    Raises:
        ConfigError: there is no valid checkpoint, or the file cannot be written.
    """
    source, weights = _weights(folder / "checkpoints", folder.name)
    temporary = output.with_name(f".{output.name}.part")
    try:
        with temporary.open("wb") as file:
            torch.save(weights, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, output)
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        reason = error.strerror if isinstance(error, OSError) else "the disk may be full"
        raise ConfigError(f"output: {clean(str(output))} cannot be written: {reason}.") from error
    return source


def _weights(parent: Path, run: str) -> tuple[Path, dict[str, torch.Tensor]]:
    best = checkpoint.best(parent)
    candidates = ([best] if best else []) + checkpoint.checkpoints(parent)[::-1]
    reasons = []
    for candidate in candidates:
        try:
            return candidate, checkpoint.load(candidate).model
        except checkpoint.BadCheckpoint as error:
            reasons.append(str(error))
    why = f"the newest says: {reasons[0]}" if reasons else "none has been saved."
    raise ConfigError(f"run: {clean(run)} has no checkpoint that can be used; {why}")

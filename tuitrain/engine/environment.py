"""What decides a run's numbers, and what its script has to know, beside its configuration; `run.toml` keeps it."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import torch

from tuitrain import version
from tuitrain.engine.data import Dataset
from tuitrain.engine.datasets.sample import is_whole
from tuitrain.engine.models import are_large
from tuitrain.engine.placement import cuda_devices

SEVERAL = "several_inputs"
"""In the environment of a run whose network takes several inputs: what it calls them or, where it takes them in their order, how many."""
READ_ANEW = "read_anew_for_scores"
"""In the environment of a run with training samples of a person's own that are read anew in each epoch: how many scores there are."""
SIDE = "image_side"
"""In the environment of a run with images of a person's `Dataset` that were brought to so many pixels in height and in width."""
PARTS, ALONE = "data_parts", "one data set"
"""In the environment of a run whose data a person's code does not give as a pair: what it calls the parts, or that there is only one; of a
file what it calls the arrays."""
OF_LOADERS = "data_of_loaders"
"""In the environment of a run whose data a person's code gives as loaders: which of the two parts."""


def facts_of(dataset: Dataset) -> dict[str, str | int]:
    """What an exported script has to know of the data."""
    facts: dict[str, str | int] = {"memory_format": "contiguous"} if dataset.train.contiguous else {}
    if are_large(dataset.sample):
        facts["images"] = "large"
    if dataset.kind != "custom":
        return facts
    if is_whole(dataset.train.inputs):
        facts["inputs"] = "whole numbers"
    if dataset.train.packing is not None:
        facts[SEVERAL] = ", ".join(dataset.train.packing.names) or len(dataset.train.packing.shapes)
    if dataset.train.classes_last:
        facts["scores"] = "classes last"
    if dataset.train.side is not None:
        facts[SIDE] = dataset.train.side
    if dataset.parts:
        facts[PARTS] = ", ".join(dataset.parts) or ALONE
    if dataset.of_loaders:
        facts[OF_LOADERS] = ", ".join(dataset.of_loaders)
    if dataset.train.readers is not None:
        facts[READ_ANEW] = dataset.scores
    return facts


def environment(devices: Sequence[torch.device]) -> dict[str, str | int]:
    """What a run's numbers depend on beside its configuration."""
    facts: dict[str, str | int] = {
        "tuitrain": version(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }
    if cuda := cuda_devices(devices):
        facts |= {"cuda": str(torch.version.cuda), "gpu": ", ".join(map(torch.cuda.get_device_name, cuda))}
    return facts

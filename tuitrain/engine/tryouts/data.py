"""Whether the data has what a configuration asks of it."""

from __future__ import annotations

import torch

from tuitrain.config import DEFAULTS, ConfigError, RunConfig
from tuitrain.engine.data import Dataset, batch


def check_data(config: RunConfig, dataset: Dataset) -> None:
    """Raises: ConfigError: a field asks for what the data has not."""
    if config.image_size != DEFAULTS.image_size and dataset.kind != "imagefolder":
        _check_side(config, dataset)
    if config.batch_dim and dataset.train.packing is not None:
        several = f"a sample of {dataset.source} has several: {dataset.train.in_words()}"
        raise ConfigError(f"batch_dim: {config.batch_dim} is for a single input, and {several}; it must be 0.")
    if config.loss == "mse" and dataset.classes:
        raise ConfigError(f"loss: mse is of numbers, and the labels of {dataset.source} are class numbers, which cross_entropy is for.")
    asking = f"augment: {config.augment}" if config.augment != "none" else "tta: true" if config.tta else None
    if asking and (dataset.train.inputs.dim() != 4 or dataset.train.as_rows or config.batch_dim):
        shape = dataset.train.in_words()
        if dataset.train.as_rows:
            shape = str(list(batch(dataset.train, slice(0, 1), torch.float32, 0)[0].shape[1:]))
        raise ConfigError(f"{asking} is for images; a sample of {dataset.source} is {shape} with batch_dim {config.batch_dim}.")
    if asking and dataset.train.labels.dim() > 2:
        raise ConfigError(f"{asking} moves images, and not labels for each of their pixels, which {dataset.source} has; leave it out.")
    _check_edges(config, dataset)
    if config.target_accuracy is not None and dataset.test is None:
        raise ConfigError(f"target_accuracy: {config.target_accuracy} is of test data, and {dataset.source} has none; it must be none.")


def _check_side(config: RunConfig, dataset: Dataset) -> None:
    """Raises: ConfigError: there are no images that could be brought to a size, or not alone."""
    asking = f"image_size: {config.image_size}"
    if dataset.train.side is None:
        kinds, none = ("", "none") if dataset.kind != "custom" else (", or a Dataset of Pillow's", "neither")
        raise ConfigError(f"{asking} is for a folder of images{kinds}, and {dataset.source} is {none}; leave image_size out.")
    if dataset.train.labels.dim() > 2:
        raise ConfigError(f"{asking} is for images, and not labels for each of their pixels, which {dataset.source} has; leave it out.")


def _check_edges(config: RunConfig, dataset: Dataset) -> None:
    """Raises: ConfigError: the images have fewer pixels than are reflected at their edges."""
    least = max(3 if config.augment == "flip-shift" else 0, 2 if config.tta else 0)
    shape = list(dataset.train.inputs.shape[1:])
    if least and min(shape[1:]) < least:
        asking = "augment: flip-shift" if least == 3 else "tta: true"
        raise ConfigError(f"{asking} needs images of {least}×{least} pixels or more; one of {dataset.source} is {shape}.")

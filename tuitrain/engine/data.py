"""From `RunConfig.data` to a data set in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import msgspec
import torch

from tuitrain.array_files import is_array_file, named_in
from tuitrain.config import RunConfig
from tuitrain.engine.datasets.cifar import CLASSES, check_batches, read_cifar10
from tuitrain.engine.datasets.custom import load_custom
from tuitrain.engine.datasets.download import fetch_cifar10
from tuitrain.engine.datasets.imagefolder import load_imagefolder, scan
from tuitrain.engine.datasets.samples import Dataset, Split, batch, images, rows_of, to_device
from tuitrain.engine.datasets.synthetic import random_samples, synthetic_images
from tuitrain.events import Notice, Progress
from tuitrain.import_strings import is_import_string
from tuitrain.paths import batches_folder, data_path, expected_data, find_cifar10
from tuitrain.text import clean

__all__ = ["Dataset", "Split", "batch", "fetch_cifar10", "load_data", "rows_of", "stand_in", "to_device"]


def load_data(config: RunConfig, ending: Callable[[], bool]) -> Generator[Notice | Progress, None, Dataset]:
    """Loads what `config.data` names; used as `dataset = yield from load_data(...)`.

    Args:
        config: its `data` says what, its `seed` is that of `random`.
        ending: asked now and then in long phases; `True` ends them.

    Raises:
        ConfigError: there is no such data, or it cannot be trained on.
        Interrupted: `ending` said so.
    """
    if config.data == "random":
        return _random(config)
    if config.data == "synthetic":
        return _synthetic()
    if config.data == "cifar10":
        folder = yield from fetch_cifar10(ending)
        return read_cifar10(folder, "cifar10")
    if config.data == "auto":
        return (yield from _auto())
    own = data_path(config.data)
    if own is None:
        yield Progress(phase=f"calling {config.data}")
        return (yield from load_custom(config, ending))
    if is_array_file(own):
        yield Progress(phase=f"reading {clean(own.name)}")
        return (yield from load_custom(msgspec.structs.replace(config, data=str(own)), ending))
    batches = batches_folder(own)
    if batches is not None:
        return read_cifar10(batches, str(own))
    return (yield from load_imagefolder(own, config, ending))


def stand_in(config: RunConfig) -> Dataset | None:
    """Samples such as `load_data` would give, as far as that can be told before anything is decoded or downloaded.

    Returns:
        Black images of the right classes in the place of images; `None` where the data comes from a person's function or file of arrays.

    Raises:
        ConfigError: there is no such data, or a folder or a file that cannot be trained on.
    """
    source, kind = expected_data(config.data)
    if kind == "custom":
        if not is_import_string(source):
            named_in(Path(source))
        return None
    if kind == "random":
        return _random(config)
    classes: tuple[str, ...] = CLASSES
    own = data_path(config.data)
    if own is not None and (batches := batches_folder(own)) is not None:
        check_batches(batches)
    elif own is not None:
        classes = scan(own, lambda: False).classes
    side = config.image_size
    black = Split(images(torch.zeros(2, side, side, 3, dtype=torch.uint8)), torch.zeros(2, dtype=torch.int64))
    return Dataset(kind, source, black, black, classes)


def _random(config: RunConfig) -> Dataset:
    return Dataset("random", "random", Split(*random_samples(config.seed)), None, ("0", "1"))


def _synthetic() -> Dataset:
    train_inputs, train_labels, test_inputs, test_labels = synthetic_images()
    classes = tuple(f"pattern {number}" for number in range(10))
    return Dataset("synthetic", "synthetic", Split(train_inputs, train_labels), Split(test_inputs, test_labels), classes)


def _auto() -> Generator[Notice | Progress, None, Dataset]:
    folder = find_cifar10()
    if folder is not None:
        yield Notice(text="Data: CIFAR-10, found on this machine.")
        return read_cifar10(folder, "cifar10")
    text = "Data: the built-in synthetic images, because CIFAR-10 is not on this machine; data=cifar10 downloads it (170 MB)."
    yield Notice(text=text)
    return _synthetic()

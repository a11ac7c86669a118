"""From `RunConfig.data` to a data set in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator

from tuitrain.config import RunConfig
from tuitrain.engine.cifar import read_cifar10
from tuitrain.engine.custom import load_custom
from tuitrain.engine.download import fetch_cifar10
from tuitrain.engine.imagefolder import load_imagefolder
from tuitrain.engine.samples import Dataset, Interrupted, Split, batch, rows_of, to_device
from tuitrain.engine.synthetic import random_samples, synthetic_images
from tuitrain.events import Notice, Progress
from tuitrain.paths import batches_folder, data_folder, find_cifar10

__all__ = ["Dataset", "Interrupted", "Split", "batch", "fetch_cifar10", "load_data", "rows_of", "to_device"]


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
        return Dataset("random", "random", Split(*random_samples(config.seed)), None, ("0", "1"))
    if config.data == "synthetic":
        return _synthetic()
    if config.data == "cifar10":
        folder = yield from fetch_cifar10(ending)
        return read_cifar10(folder, "cifar10")
    if config.data == "auto":
        return (yield from _auto())
    own = data_folder(config.data)
    if own is None:
        return load_custom(config)
    batches = batches_folder(own)
    if batches is not None:
        return read_cifar10(batches, str(own))
    return (yield from load_imagefolder(own, ending))


def _synthetic() -> Dataset:
    train_inputs, train_labels, test_inputs, test_labels = synthetic_images()
    classes = tuple(f"pattern {number}" for number in range(10))
    return Dataset("synthetic", "synthetic", Split(train_inputs, train_labels), Split(test_inputs, test_labels), classes)


def _auto() -> Generator[Notice | Progress, None, Dataset]:
    folder = find_cifar10()
    if folder is not None:
        yield Notice(text="Data: CIFAR-10, found on this machine.")
        return read_cifar10(folder, "cifar10")
    text = "Data: the built-in synthetic images, because CIFAR-10 is not on this machine; --data cifar10 downloads it (170 MB)."
    yield Notice(text=text)
    return _synthetic()

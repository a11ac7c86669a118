"""The two parts of a person's own data: what their code makes, in whichever of the usual ways it gives them, or a file of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler, default_collate

from tuitrain.array_files import named_in
from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.datasets.torch_samples import is_readable
from tuitrain.engine.own.arguments import DOWNLOAD, NOT_CALLED, ROOT, SPLIT, TRAIN, arguments
from tuitrain.engine.own.imports import called, import_string
from tuitrain.image_folders import TEST_PARTS, TRAIN_PART
from tuitrain.import_strings import is_import_string
from tuitrain.paths import cached_datasets
from tuitrain.text import clean, first_few

PART = "(inputs, labels) or a torch Dataset"
"""What each of them has to be, in words."""


@dataclass(frozen=True, eq=False)
class Parts:
    """What a person's code gives, unchecked.

    Attributes:
        train, test: each (inputs, labels), a torch `Dataset`, or something else that nobody has looked at; `None` without test data.
        names: what they are called where they were the values of a dict, and of a file the arrays, inputs and labels of each; "" where
            there was one data set alone, empty of a pair.
        of_loaders: which of them are the data sets of loaders.
        said: a sentence on what was taken of a file.
    """

    train: Any
    test: Any
    names: tuple[str, ...] = ()
    of_loaders: tuple[str, ...] = ()
    said: str = ""


def own_parts(config: RunConfig) -> Parts:
    """What `config.data` names, called where it is a function or a class, or what is in the file whose absolute path it is.

    It is, or returns, the two parts, with `None` in the second place where there is no test data; a dict of them; or the training part
    alone. With a parameter `train`, or `split`, it is called for each of the two, and returns that. Of a `DataLoader` that does nothing but
    cut batches, the data set is taken.

    Raises:
        ConfigError: it cannot be imported or read, raises, or is something else.
    """
    if not is_import_string(config.data):
        return _of_file(Path(config.data))
    parts = _made(config)
    found = {"train": parts.train, "test": parts.test}
    loaders = tuple(name for name, part in found.items() if _only_cuts(part))
    return replace(parts, **{name: found[name].dataset for name in loaders}, of_loaders=loaders)


def _of_file(file: Path) -> Parts:
    from tuitrain.engine.datasets import arrays  # with it comes Pillow

    named = named_in(file)
    train, test = arrays.read(file, named)
    return Parts(train, test, named.taken, said=arrays.in_words(file, named))


def _made(config: RunConfig) -> Parts:
    """The same with loaders as they are."""
    made = import_string("data", config.data)
    given = arguments("data", made) or ()
    if NOT_CALLED in given:
        return _parts(f"data: {config.data!r} is", "it must be a function, or have", made)
    folder = {ROOT: _folder(), DOWNLOAD: True} if ROOT in given else {}
    if TRAIN in given or SPLIT in given:
        each = [called("data", made, config, **folder, **{TRAIN: part == TRAIN_PART, SPLIT: part}) for part in (TRAIN_PART, TEST_PARTS[0])]
        return Parts(*each)
    return _parts(f"data: {config.data!r} returned", "it must return", called("data", made, config, **folder))


def _folder() -> str:
    try:
        return str(cached_datasets())
    except OSError as error:
        raise ConfigError(f"data: {error.strerror}, so that there is no folder for what is downloaded.") from None


def _parts(found: str, wanted: str, made: Any) -> Parts:
    if isinstance(made, Mapping):
        test = next((name for name in TEST_PARTS if name in made), None)
        if TRAIN_PART not in made:
            keys = clean(first_few(list(map(str, made)))) or "nothing"
            wanted = f"it must have {TRAIN_PART} and, where there is test data, {TEST_PARTS[0]}"
            raise ConfigError(f"{found} a {type(made).__name__} of {keys}; {wanted}.")
        names = (TRAIN_PART, test)
        return Parts(made[TRAIN_PART], None if test is None else made[test], tuple(filter(None, names)))
    is_pair = isinstance(made, (tuple, list)) and len(made) == 2
    if is_pair and not hasattr(made[1], "__array__"):
        return Parts(*made)
    if is_pair or is_readable(made) or _only_cuts(made):
        return Parts(made, None, ("",))
    raise ConfigError(f"{found} {described(made)}; {wanted} the training part and the test part or None, {PART}{way_out(made)}.")


def _only_cuts(part: Any) -> bool:
    """Whether it is a loader whose batches are some of its samples, in order or drawn by chance, as those of a run are."""
    return isinstance(part, DataLoader) and not _of_its_own(part)


def _of_its_own(loader: DataLoader[Any]) -> str:
    """What makes its batches something else, in words; empty where there is nothing."""
    if loader.batch_sampler is None:
        return "without batches"
    if loader.collate_fn is not default_collate:
        return "with a collate_fn of its own"
    if type(loader.batch_sampler) is not BatchSampler:
        return "with a batch_sampler of its own"
    sampler = loader.sampler
    shuffles = type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(sampler.data_source)
    return "" if shuffles or type(sampler) is SequentialSampler else "with a sampler of its own"


def described(value: Any) -> str:
    """What kind of thing it is, in words."""
    if isinstance(value, DataLoader) and not isinstance(value.dataset, IterableDataset):
        return f"a {type(value).__name__} {_of_its_own(value)}"
    count = f" of {len(value)}" if isinstance(value, (tuple, list)) else ""
    return f"a {type(value).__name__}{count}"


def way_out(part: Any) -> str:
    """What serves in the place of what most training scripts have there, as the end of a sentence."""
    if isinstance(part, DataLoader) and not isinstance(part.dataset, IterableDataset):
        return ", such as the loader's `dataset`"
    return " with a length" if isinstance(part, (DataLoader, IterableDataset)) else ""

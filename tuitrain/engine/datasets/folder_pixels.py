"""Where the pixels of a folder's images come from: the cache, decoding them once, or, without memory for them, decoding them each time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import torch
from torch import Tensor

from tuitrain import words
from tuitrain.allowance import free_memory
from tuitrain.config import RunConfig
from tuitrain.engine.datasets import decoded
from tuitrain.engine.datasets.decoded import Decoded
from tuitrain.engine.datasets.file_names import FileNames
from tuitrain.engine.datasets.folder_contents import Contents
from tuitrain.engine.datasets.readers import Readers
from tuitrain.engine.datasets.readers.wire import PartName
from tuitrain.engine.datasets.samples import Split, closed_on_failure, images
from tuitrain.events import Notice, Progress
from tuitrain.text import clean


def splits(
    folder: Path, config: RunConfig, contents: Contents, ending: Callable[[], bool]
) -> Generator[Notice | Progress, None, tuple[Split, Split]]:
    """The images to train on and those to test with, [N, 3, H, W] of `config.image_size`.

    Raises:
        ConfigError: too many images cannot be read, or all of a class.
        Interrupted: `ending` said so.
    """
    side = config.image_size
    # Whoever keeps them for the next start has a part of them twice. Without room the system would end some process without a word.
    needed, free = 2 * len(contents) * side * side * 3, free_memory()
    found = yield from _found(folder, contents, side, ending, pixels=needed <= free)
    if found.train_pixels is not None and found.test_pixels is not None:
        train = Split(images(found.train_pixels), found.train_labels)
        return train, Split(images(found.test_pixels), found.test_labels, files=FileNames(found.test_files))
    assert found.train_files is not None
    train = _decoded_anew(config, folder, "train", found.train_labels, found.train_files, ending)
    with closed_on_failure(train):
        test = _decoded_anew(config, folder, "test", found.test_labels, found.test_files, ending)
    assert train.readers is not None
    takes = f"{len(contents):,} images of {side}×{side} pixels take up to {words.size(needed)} of memory, and {words.size(free)} are free"
    yield Notice(text=f"{takes}: {words.readers(train.readers.workers)} them anew in each epoch and evaluation.")
    return train, test


def _found(
    folder: Path, contents: Contents, side: int, ending: Callable[[], bool], *, pixels: bool
) -> Generator[Notice | Progress, None, Decoded]:
    """What decoding the images gives, with their pixels or without, from the cache where the folder has not changed since."""
    fingerprint = contents.fingerprint()
    found = decoded.load(folder, side, fingerprint, pixels=pixels)
    if found is None:
        # With it comes Pillow, for which no other run waits.
        from tuitrain.engine.datasets.decode import decode

        found = yield from decode(folder, *contents.files(), contents.classes, side, ending, keep=pixels)
        try:
            decoded.save(folder, side, fingerprint, found)
        except OSError as error:
            text = f"The decoded images could not be kept for the next start: {clean(error.strerror or str(error))}."
            yield Notice(level="warning", text=text)
    yield from found.notices
    return found


def _decoded_anew(config: RunConfig, folder: Path, part: PartName, labels: Tensor, packed: Tensor, ending: Callable[[], bool]) -> Split:
    """Images that are decoded each time that they are gone through; `ending`: see `Readers`.

    Raises:
        ConfigError: no process can be started for it.
    """
    side, files = config.image_size, FileNames(packed)
    black = images(torch.zeros(1, side, side, 3, dtype=torch.uint8))[0]
    readers = Readers(config, part, len(labels), black, labels[0], ending, images=(folder, files), labels=labels)
    return Split(black.expand(len(labels), *black.shape), labels, files=files if part == "test" else None, readers=readers)

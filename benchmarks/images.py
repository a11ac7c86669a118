"""Images for a person who names none: `python -m benchmarks.images FOLDER` writes tuitrain's synthetic set there as files.

FOLDER gets train/<class>/*.png and test/<class>/*.png, 12,800 and 2,000 of 32×32, as CIFAR-10 would be laid out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.programs import output_of

if TYPE_CHECKING:
    from torch import Tensor


@contextmanager
def images(given: Path | None) -> Iterator[Path]:
    """The folder to train on: `given`, or one that goes away again, and with it the cache of what was decoded."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "images"
        output_of([sys.executable, "-m", "benchmarks.images", str(made)])
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(Path(folder) / "cache")):
            yield made


def write(part: Path, inputs: Tensor, labels: Tensor) -> None:
    """Images uint8 [N, 3, 32, 32] with labels [N] of ten classes, as files in a folder for each class."""
    from PIL import Image

    folders = [part / f"pattern-{label}" for label in range(10)]
    for folder in folders:
        folder.mkdir(parents=True)
    for number, (pixels, label) in enumerate(zip(inputs.permute(0, 2, 3, 1).numpy(), labels.tolist(), strict=True)):
        Image.fromarray(pixels).save(folders[label] / f"{number:05}.png", compress_level=1)


def main() -> None:
    """Write them."""
    from tuitrain.engine.datasets.synthetic import synthetic_images

    train_inputs, train_labels, test_inputs, test_labels = synthetic_images()
    write(Path(sys.argv[1]) / "train", train_inputs, train_labels)
    write(Path(sys.argv[1]) / "test", test_inputs, test_labels)


if __name__ == "__main__":
    main()

"""Image files to pixels: as many threads as make it faster, bad files skipped and counted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tuitrain.allowance import Allowance
from tuitrain.config import DEFAULTS, OF_ANY_SIZE, ConfigError
from tuitrain.engine.control import Interrupted
from tuitrain.engine.datasets.decoded import Decoded
from tuitrain.engine.datasets.file_names import FileNames
from tuitrain.engine.datasets.sample import ImageFile
from tuitrain.events import Notice, Progress
from tuitrain.text import clean, first_few, plural

# A name that ends in .png or .jpg often holds one of the others; what runs another program to decode (EPS) stays out.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
_GREY_MODES = ("1", "L", "LA", "La")
_CHUNK = 64
_MOST_THREADS = 16
_TRIED_SECONDS, _AGAIN_SECONDS = 0.25, 4.0
"""How long a number of threads is tried, and how long after that another one."""
_FASTER = 1.1
"""By less another number of threads is no better."""

Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


@dataclass
class _Counts:
    """What the notices say. Filled by the generator's thread alone."""

    resized: int = 0
    more_than_halved: int = 0
    greyscale: int = 0
    other: int = 0
    unreadable: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Outcome:
    """One image: `None` where it cannot be read."""

    position: int
    size: tuple[int, int] | None
    mode: str = "RGB"


class Threads:
    """How many threads decode: twice as many as before as long as that makes it faster, and now and then more or fewer are tried again.

    Of a small image most of the work is Pillow's Python, and threads that take turns at the interpreter slow each other down: the 60,000
    JPEG files of CIFAR-10 took 7 s in one thread on two cores, and 10.5 s in two. Of photographs, and where a disk is slow, more help.

    Args:
        most: so many at most.

    Attributes:
        count: how many decode now.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 1
        self._best = (1, 0.0)
        self._trying = self._upwards = True
        self._begun, self._done = time.monotonic(), 0

    def add(self, images: int) -> None:
        """So many more are decoded."""
        self._done += images
        now = time.monotonic()
        if now - self._begun < (_TRIED_SECONDS if self._trying else _AGAIN_SECONDS):
            return
        rate = self._done / (now - self._begun)
        if self._trying and rate <= _FASTER * self._best[1]:
            self.count, self._trying, self._upwards = self._best[0], False, not self._upwards
        else:
            self._best = (self.count, rate)
            self._go_on()
        self._begun, self._done = now, 0

    def _go_on(self) -> None:
        """Try the next number; where there is none, the other direction comes later."""
        following = min(2 * self.count, self.most) if self._upwards else max(self.count // 2, 1)
        self._trying = following != self.count
        if not self._trying:
            self._upwards = not self._upwards
        self.count = following


def decode(
    folder: Path,
    train: Sequence[ImageFile],
    test: Sequence[ImageFile],
    classes: Sequence[str],
    side: int,
    ending: Callable[[], bool],
    *,
    keep: bool = True,
) -> Generator[Progress, None, Decoded]:
    """Decodes all images of a folder to RGB, `side` pixels in height and in width.

    Args:
        folder: what the names of the files start from.
        train: files in training order.
        test: files in test order.
        classes: the classes' names, for sentences.
        side: in pixels.
        ending: asked now and then; `True` ends the work.
        keep: with the pixels; else only to know which images can be read.

    Raises:
        ConfigError: more than 1 % cannot be read, or a class has no readable image in one part.
        Interrupted: `ending` said so.
    """
    files = [*train, *test]
    pixels = np.empty((len(files), side, side, 3), dtype=np.uint8) if keep else None
    counts = yield from _decode_all(folder, files, pixels, side, ending)
    readable = torch.ones(len(files), dtype=torch.bool)
    readable[counts.unreadable] = False
    of_train, of_test = readable[: len(train)], readable[len(train) :]
    everything = None if pixels is None else torch.from_numpy(pixels)
    return Decoded(
        _labels(folder, train, of_train, classes),
        _labels(folder, test, of_test, classes),
        _names_of(test, of_test),
        _notices(counts, files, side),
        train_pixels=None if everything is None else _of(everything[: len(train)], of_train),
        test_pixels=None if everything is None else _of(everything[len(train) :], of_test),
        train_files=_names_of(train, of_train) if everything is None else None,
    )


def _of(values: Tensor, kept: Tensor) -> Tensor:
    return values if bool(kept.all()) else values[kept]


def _labels(folder: Path, files: Sequence[ImageFile], kept: Tensor, classes: Sequence[str]) -> Tensor:
    """Raises: ConfigError: a class has no image left."""
    labels = torch.tensor([file.label for file in files], dtype=torch.int64)[kept]
    present = torch.bincount(labels, minlength=len(classes)).tolist()
    if 0 in present:
        absent = clean(classes[present.index(0)])
        *part, _, _ = files[0].name.split("/")
        raise ConfigError(f"data: no image of the class {absent!r} in {clean(str(folder.joinpath(*part)))} can be read.")
    return labels


def _names_of(files: Sequence[ImageFile], kept: Tensor) -> Tensor:
    return FileNames.of(file.name for file, could_be_read in zip(files, kept.tolist(), strict=True) if could_be_read).packed


def decode_image(path: str, side: int) -> tuple[Pixels, tuple[int, int], str]:
    """One image as RGB pixels [side, side, 3], with the size and the mode that its file has.

    Raises:
        Exception: of many kinds, when the file is no image, cut short, of numbers in the place of colours, or so large that it looks like
            an attack.
    """
    with Image.open(path, formats=FORMATS) as image:
        size, mode = image.size, image.mode
        if mode == "F":
            raise ValueError("its pixels are floats")  # of which Pillow would make black and white ones
        # A large JPEG is decoded at the nearest eighth of its size that is still large enough.
        image.draft(None, (2 * side, 2 * side))
        picture: Image.Image = image
        if mode.startswith("I"):
            # Pillow would clip 16-bit greys at 255 instead of scaling them.
            picture = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
        picture = picture.convert("RGB")
        if picture.size != (side, side):
            picture = picture.resize((side, side), Image.Resampling.BILINEAR)
        return np.asarray(picture), size, mode


def _decode_all(
    folder: Path, files: Sequence[ImageFile], pixels: Pixels | None, side: int, ending: Callable[[], bool]
) -> Generator[Progress, None, _Counts]:
    """Fills `pixels`, if there are some; says how far it is at most ten times a second."""
    phase = "checking images" if pixels is None else "decoding images"
    counts = _Counts()
    chunks = iter([range(first, min(first + _CHUNK, len(files))) for first in range(0, len(files), _CHUNK)])
    threads = Threads(min(_MOST_THREADS, Allowance().processors()))
    pool = ThreadPoolExecutor(threads.most, thread_name_prefix="decode")
    waiting, done, said = set[Future[list[_Outcome]]](), 0, 0.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
        try:
            while done < len(files):
                for chunk in islice(chunks, max(threads.count - len(waiting), 0)):
                    waiting.add(pool.submit(_decode_chunk, folder, files, chunk, pixels, side))
                finished, waiting = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                if ending():
                    raise Interrupted
                for future in finished:
                    outcomes = future.result()
                    done += len(outcomes)
                    threads.add(len(outcomes))
                    _count(counts, outcomes, side)
                _check_share(counts, files)
                if time.monotonic() - said >= 0.1:
                    said = time.monotonic()
                    yield Progress(phase=phase, done=done, total=len(files), unit="images")
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    yield Progress(phase=phase, done=done, total=len(files), unit="images")
    return counts


def _decode_chunk(folder: Path, files: Sequence[ImageFile], chunk: range, pixels: Pixels | None, side: int) -> list[_Outcome]:
    outcomes = []
    for position in chunk:
        try:
            image, size, mode = decode_image(f"{folder}/{files[position].name}", side)
            if pixels is not None:
                pixels[position] = image
            outcomes.append(_Outcome(position, size, mode))
        # Pillow raises nearly anything at a damaged file.
        except Exception:
            outcomes.append(_Outcome(position, None))
    return outcomes


def _count(counts: _Counts, outcomes: Sequence[_Outcome], side: int) -> None:
    for outcome in outcomes:
        if outcome.size is None:
            counts.unreadable.append(outcome.position)
            continue
        counts.resized += outcome.size != (side, side)
        counts.more_than_halved += min(outcome.size) > 2 * side
        is_grey = outcome.mode in _GREY_MODES or outcome.mode.startswith("I")
        counts.greyscale += is_grey
        counts.other += not is_grey and outcome.mode != "RGB"


def _check_share(counts: _Counts, files: Sequence[ImageFile]) -> None:
    if len(counts.unreadable) * 100 > len(files):
        names = _names(counts.unreadable, files)
        raise ConfigError(f"data: more than 1 % of the {len(files):,} images cannot be read ({names}); mend or remove them.")


def _notices(counts: _Counts, files: Sequence[ImageFile], side: int) -> tuple[Notice, ...]:
    notices = []
    if counts.unreadable:
        number = len(counts.unreadable)
        skipped = "1 image cannot be read and was skipped" if number == 1 else f"{number:,} images cannot be read and were skipped"
        notices.append(Notice(level="warning", text=f"{skipped}: {_names(counts.unreadable, files)}."))
    changes = [
        text
        for number, text in (
            (counts.resized, f"{_images(counts.resized)} resized to {side}×{side}"),
            (counts.greyscale, f"{_images(counts.greyscale, 'greyscale ')} turned into RGB"),
            (counts.other, f"{_images(counts.other)} with a palette, transparency or CMYK turned into RGB"),
        )
        if number
    ]
    if changes:
        notices.append(Notice(text=f"{'; '.join(changes)}."))
    if side == DEFAULTS.image_size and 2 * counts.more_than_halved > len(files):
        larger = f"image_size=224, or another, keeps more of them, for {', '.join(OF_ANY_SIZE)} and networks of your own"
        notices.append(Notice(text=f"Most images are more than twice as high and as wide as {side} pixels: {larger}."))
    return tuple(notices)


def _images(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}{plural('image', number)}"


def _names(positions: Sequence[int], files: Sequence[ImageFile]) -> str:
    """The first few files by name, and how many more."""
    return clean(first_few(sorted(files[position].name for position in positions)))

"""Torch data sets whose samples are drawn at random when they are read, for the tests; other processes import them too."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

COUNT, CLASSES = 26, 4


class Floats(Dataset[Any]):
    """Points [6] around a place of their class, moved by each of the three generators that there are."""

    def __init__(self, count: int, *, drawn: bool = True) -> None:
        self._places = torch.randn(count, 6, generator=torch.Generator().manual_seed(5))
        self._drawn = drawn

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Any:
        moved = torch.rand(6) + random.random() + np.random.rand() if self._drawn else 0.0
        return self._places[index] + index % CLASSES + moved, index % CLASSES


class Targeted(Floats):
    """The same with its labels beside them; to read all of it for them would be noticed."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.targets = [index % CLASSES for index in range(count)]
        self.classes = ["a", "b", "c", "d"]


class ByPart(Floats):
    """The same, made for one part at a time."""

    def __init__(self, train: bool) -> None:
        super().__init__(COUNT if train else 5, drawn=train)


class Columns:
    """The same as Hugging Face's library has it: no `Dataset`, samples that are dicts, and a column of labels."""

    column_names = ("label", "point")
    features: ClassVar = {"label": SimpleNamespace(names=["a", "b", "c", "d"])}

    def __init__(self, count: int) -> None:
        self._floats = Floats(count)

    def __len__(self) -> int:
        return len(self._floats)

    def __getitem__(self, index: int | str) -> Any:
        if isinstance(index, str):
            return {"label": [number % CLASSES for number in range(len(self))]}[index]
        point, label = self._floats[index]
        return {"label": label, "point": point}


class Images(Dataset[Any]):
    """Pillow's images [3, 8, 8], each of them mirrored by chance."""

    chance = 0.5

    def __init__(self, count: int) -> None:
        self._pixels = np.random.default_rng(2).integers(0, 255, (count, 8, 8, 3), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self._pixels)

    def __getitem__(self, index: int) -> Any:
        image = Image.fromarray(self._pixels[index])
        mirrored = self.chance > 0 and random.random() < self.chance
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else image, index % CLASSES


class FixedImages(Images):
    chance = 0.0


class SeldomMirrored(Images):
    """So seldom that no two that are read look different."""

    chance = 1e-9


class OfItsOwn(Floats):
    """Moved by a generator of its own."""

    def __init__(self) -> None:
        super().__init__(COUNT, drawn=False)
        self._generator = np.random.default_rng()

    def __getitem__(self, index: int) -> Any:
        place, label = super().__getitem__(index)
        return place + self._generator.random(dtype=np.float32), label


class SelfSeeded(Images):
    """Draws for each image what it drew before."""

    def __getitem__(self, index: int) -> Any:
        random.seed(index)
        return super().__getitem__(index)


class Masks(Images):
    """The same images with a class for each pixel, which is mirrored too."""

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, image.convert("L").point(lambda value: value // 64)


class Windows(Dataset[Any]):
    """Places in a text, drawn anew: the numbers of tokens there, in the type of most files of such, and which come next."""

    def __init__(self) -> None:
        self._text = np.random.default_rng(4).integers(0, CLASSES, 60, dtype=np.uint16)

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        start = int(torch.randint(len(self._text) - 6, ()))
        return self._text[start : start + 5], self._text[start + 1 : start + 6].astype(np.int64)


class NamedWindows(Windows):
    """The same; its tokens have names, so that nobody has to look how many there are."""

    classes = ("a", "b", "c", "d")


class Placed(Images):
    """Images with two numbers, drawn with them."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index)[0], torch.rand(2) + index


class PartlyMasked(Masks):
    """Of the first ones no pixel counts."""

    def __init__(self, count: int, masked: int = COUNT, chance: float = 0.5) -> None:
        super().__init__(count)
        self._masked, self.chance = masked, chance

    def __getitem__(self, index: int) -> Any:
        image, mask = super().__getitem__(index)
        whole = torch.from_numpy(np.array(mask)).long()
        return image, whole.fill_(-100) if index < self._masked else whole


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.scores = nn.Embedding(CLASSES, 6), nn.Linear(6, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.tokens(tokens))
        return scores.movedim(-1, 1)


class Changed(Floats):
    """Points of which one is something else from its `after`th time on in a process that reads samples, the eleventh of this."""

    def __init__(self, change: Callable[[Any], Any], after: int = 2) -> None:
        super().__init__(COUNT)
        self._change, self._left, self._made_in = change, after, os.getpid()

    def __getitem__(self, index: int) -> Any:
        pair = super().__getitem__(index)
        if index != 11 or os.getpid() == self._made_in:
            return pair
        self._left -= 1
        return pair if self._left >= 0 else self._change(pair)


def make_floats() -> Any:
    return Floats(COUNT), Floats(9, drawn=False)


def make_fixed() -> Any:
    return Floats(COUNT, drawn=False), Floats(9, drawn=False)


def make_targeted() -> Any:
    return Subset(Targeted(2 * COUNT), range(0, 2 * COUNT, 2)), Floats(9, drawn=False)


def make_columns() -> Any:
    return Columns(COUNT), Floats(9, drawn=False)


def make_images() -> Any:
    return Images(COUNT), None


def make_seldom() -> Any:
    return SeldomMirrored(COUNT), SeldomMirrored(9)


def make_of_its_own() -> Any:
    return OfItsOwn(), None


def make_self_seeded() -> Any:
    return SelfSeeded(COUNT), None


def make_masks() -> Any:
    return Masks(COUNT), None


def make_windows() -> Any:
    return Windows(), None


def make_named_windows() -> Any:
    return NamedWindows(), None


def make_placed() -> Any:
    return Placed(COUNT), None


def make_partly_masked() -> Any:
    return PartlyMasked(COUNT, 3), PartlyMasked(9, 2, chance=0.0)


def make_fixed_masks() -> Any:
    return PartlyMasked(COUNT, 3, chance=0.0), PartlyMasked(9, 2, chance=0.0)


def make_all_masked() -> Any:
    return PartlyMasked(COUNT), None


def make_image_tests() -> Any:
    return FixedImages(COUNT), FixedImages(22)


def make_drawn_tests() -> Any:
    return Floats(COUNT, drawn=False), Floats(9)


def make_failing() -> Any:
    def fail(pair: Any) -> Any:
        raise FileNotFoundError("eleven.png is not there")

    return Changed(fail), None


def hang(pair: Any) -> Any:
    """Not until there is a file "answers" here, as from a disk of the network; who waits for it makes a file "hangs"."""
    Path("hangs").touch()
    while not Path("answers").exists():
        threading.Event().wait(0.05)
    return pair


def make_hanging() -> Any:
    return Changed(hang), None


def make_hanging_tests() -> Any:
    """When they are tested with; before, they are read for their labels, and for what the run notes of its data."""
    return Floats(COUNT), Changed(hang)


def make_killed() -> Any:
    return Changed(lambda pair: os.kill(os.getpid(), signal.SIGKILL)), None


def make_left() -> Any:
    return Changed(lambda pair: os._exit(3)), None


def make_unlike() -> Any:
    return Changed(lambda pair: (torch.zeros(7), pair[1])), None


def make_unknown() -> Any:
    return Changed(lambda pair: (pair[0], CLASSES)), None


def make_others() -> Any:
    """One sample more each time that it is called; who calls it notes that in a file here."""
    with Path("called").open("a") as file:
        file.write("x")
    return Floats(COUNT + Path("called").stat().st_size), None


def make_point_net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Dropout(0.3), nn.Linear(8, CLASSES))


def make_image_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, CLASSES))


def make_place_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))


def make_mask_net() -> nn.Module:
    return nn.Conv2d(3, CLASSES, 3, padding=1)


def no_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def stacked(part: Any, index: list[int], seed: Callable[[int], None]) -> tuple[Tensor, Tensor]:
    """Samples as a plain script has them, `seed` called before each."""
    inputs, labels = [], []
    for number in index:
        seed(number)
        sample = part[number]
        value, label = (sample["point"], sample["label"]) if isinstance(sample, dict) else sample
        is_image = hasattr(value, "convert")
        inputs.append(torch.from_numpy(np.array(value)).permute(2, 0, 1).double() / 255 if is_image else torch.as_tensor(value))
        mark = label if isinstance(label, Tensor) else torch.from_numpy(np.array(label))
        labels.append(mark if mark.is_floating_point() else mark.long())
    return torch.stack(inputs), torch.stack(labels)

"""Data whose samples have several inputs, and networks that take them, for the tests; other processes import them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

COUNT, TESTS, CLASSES = 50, 17, 3


def parts(count: int, seed: int) -> dict[str, Tensor]:
    """An input of each kind that there is: images, whether a token counts, tokens, and one number a sample."""
    generator = torch.Generator().manual_seed(seed)
    return {
        "images": torch.randint(0, 256, (count, 3, 4, 4), dtype=torch.uint8, generator=generator),
        "mask": torch.rand(count, 5, generator=generator) < 0.7,
        "tokens": torch.randint(0, 9, (count, 5), dtype=torch.int32, generator=generator),
        "time": torch.rand(count, generator=generator),
    }


def labels(count: int) -> Tensor:
    return torch.arange(count) % CLASSES


class Samples(Dataset[Any]):
    """One by one, a part of the mask drawn at random where that is asked for."""

    def __init__(self, count: int, seed: int, as_sample: Callable[[dict[str, Any], int], Any], *, drawn: bool = False) -> None:
        self._parts, self._count, self._as_sample, self._drawn = parts(count, seed), count, as_sample, drawn

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        sample = {name: part[index] for name, part in self._parts.items()}
        if self._drawn:
            sample["mask"] = sample["mask"] & (torch.rand(5) < 0.8)
        return self._as_sample(sample, index % CLASSES)


def as_dict(sample: dict[str, Any], label: int) -> Any:
    return {"labels": label, **sample}


def as_pair(sample: dict[str, Any], label: int) -> Any:
    return (sample["images"], sample["mask"].numpy(), sample["tokens"], sample["time"][None]), label


def make_dicts() -> Any:
    return (parts(COUNT, 1), labels(COUNT)), (parts(TESTS, 2), labels(TESTS))


def make_tuples() -> Any:
    return (tuple(parts(COUNT, 1).values()), labels(COUNT)), None


def make_arrays() -> Any:
    return (tuple(part.numpy() for part in parts(COUNT, 1).values()), labels(COUNT).numpy()), None


def make_samples() -> Any:
    return Samples(COUNT, 1, as_dict), Samples(TESTS, 2, as_dict)


def make_pairs() -> Any:
    return Samples(COUNT, 1, as_pair), Samples(TESTS, 2, as_pair)


def make_drawn() -> Any:
    return Samples(COUNT, 1, as_dict, drawn=True), Samples(TESTS, 2, as_dict)


class Net(nn.Module):
    """Checks what it gets."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.embedding, self.head, self._dtype = nn.Embedding(9, 6), nn.Linear(48 + 6 + 1, CLASSES), dtype

    def forward(self, images: Tensor, mask: Tensor, tokens: Tensor, time: Tensor) -> Tensor:
        assert [part.dtype for part in (images, mask, tokens, time)] == [self._dtype, torch.bool, torch.int64, self._dtype]
        assert images.max() <= 1
        read = (self.embedding(tokens) * mask[..., None]).sum(1)
        time *= 2  # which does not change the data
        scores: Tensor = self.head(torch.cat([images.flatten(1), read, time.reshape(-1, 1)], 1))
        return scores


class Keywords(Net):
    """Takes them by their names alone."""

    def forward(self, **inputs: Tensor) -> Tensor:
        return super().forward(**inputs)


class OfImages(nn.Module):
    """Takes one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(48, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(images.flatten(1))
        return scores


def make_single() -> nn.Module:
    return Net(torch.float32)

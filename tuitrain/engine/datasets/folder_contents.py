"""What a folder of images holds, and in which order it is gone through."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from tuitrain.engine.datasets.left_out import LeftOut
from tuitrain.engine.datasets.sample import ImageFile
from tuitrain.image_folders import Layout, held_out

# Part of every fingerprint: another number makes every cache of decoded images void.
_FORMAT = 3

# Name, size in bytes and time of change in nanoseconds of each image of a class folder, sorted.
Listing = list[tuple[str, int, int]]


@dataclass(frozen=True)
class Contents:
    """What the folder holds: for each part of its layout the images of each class, and what is no sample of any."""

    classes: tuple[str, ...]
    layout: Layout
    parts: dict[str, dict[str, Listing]]
    left_out: LeftOut

    def __len__(self) -> int:
        return sum(len(listing) for folders in self.parts.values() for listing in folders.values())

    def fingerprint(self) -> str:
        """Changes when any file is added, removed, renamed, resized or written to."""
        digest = hashlib.blake2b(repr((_FORMAT, self.classes)).encode(), digest_size=16)
        for part, folders in self.parts.items():
            for name in self.classes:
                names, *numbers = zip(*folders[name], strict=True)
                digest.update(repr((part, name, numbers)).encode())
                # No name holds a zero byte.
                digest.update(os.fsencode("\0".join(names)))
        return digest.hexdigest()

    @property
    def labels(self) -> list[int]:
        """Of the images to train on and those that are held out of them, class after class."""
        folders = self.parts[self.layout.train]
        return [label for label, name in enumerate(self.classes) for _ in folders[name]]

    def files(self) -> tuple[list[ImageFile], list[ImageFile]]:
        """The images to train on and those to test with, where there is no part of those a fifth of each class of the others."""
        train = self._files(self.layout.train)
        if self.layout.test is not None:
            return train, self._files(self.layout.test)
        held = held_out([file.label for file in train])
        train, test = ([file for file, out in zip(train, held, strict=True) if out is tested] for tested in (False, True))
        return train, test

    def _files(self, part: str) -> list[ImageFile]:
        """The images of a part in training order: one fixed order that mixes the classes, because class after class does not train."""
        folders = self.parts[part]
        found = ((label, f"{name}/{file}") for label, name in enumerate(self.classes) for file, _, _ in folders[name])
        files = [ImageFile(in_part(part, path), label) for label, path in found]
        return sorted(files, key=lambda file: mixing_key(file.name))


def mixing_key(name: str) -> tuple[bytes, str]:
    """Where an image stands in its part: by a hash of its path in the folder, as `train/cat/0001.jpg`."""
    return hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), name


def in_part(part: str, path: str) -> str:
    """A path in the folder of images; "" is the part that this folder itself is."""
    return f"{part}/{path}" if part else path

"""What lies in a folder of images and becomes no sample: said once, so that nobody trains on less than they think."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tuitrain.text import clean

# Those that people keep pictures in; a Thumbs.db or a list of labels is nothing that anyone misses.
_PICTURES = (".gif", ".ppm", ".pgm", ".pnm", ".jfif", ".jpe", ".jp2", ".avif", ".heic", ".heif", ".tga", ".npy")


@dataclass
class LeftOut:
    """Paths in the data folder, as "train/cat/0001.gif".

    Attributes:
        pictures: files of other kinds in the folder of a class.
        folders: folders in the folder of a class.
        beside: images beside the folders of the classes, which have no class.
    """

    pictures: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)

    def add(self, path: str, *, is_folder: bool) -> None:
        """Something in the folder of a class that has no image's name."""
        if is_folder:
            self.folders.append(path)
        elif path.lower().endswith(_PICTURES):
            self.pictures.append(path)

    def sentences(self, taken: tuple[str, ...]) -> Iterator[str]:
        """What to tell of it; `taken` are the endings of images."""
        *others, last = taken
        for paths, what, why in (
            (self.pictures, "file", f"only images that end in {', '.join(others)} or {last} are taken"),
            (self.folders, "folder", "images are taken from the folder of their class itself, not from folders in it"),
            (self.beside, "image", "an image beside the folders of the classes has no class"),
        ):
            if paths:
                many = "" if len(paths) == 1 else "s"
                which = clean(min(paths)) if len(paths) == 1 else f"{clean(min(paths))} and {len(paths) - 1:,} more"
                yield f"Left out: {len(paths):,} {what}{many} ({which}); {why}."

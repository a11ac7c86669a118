"""What the lines of the README's table are about, in the order in which a person wants to know it."""

from __future__ import annotations

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("first frame", "Enter to the first step", "tuitrain --help", "tuitrain runs, 200 runs"),
    "The screen, while a network learns": (
        "key to paint",
        "event-loop lag",
        "training in the app, CPU",
        "training in the app, against",
        "terminal output",
        "curve after new points",
        "whole curve",
        "memory gained",
    ),
    "Training on the CPU": (
        "training speed, CPU",
        "seed-cnn, data in memory",
        "transformer",
        "resnet18",
        "seed-cnn, samples drawn",
        "split",
        "ddp",
        "a checkpoint",
        "handed over",
    ),
    "Training on a GPU": ("training speed, GPU", "seed-cnn, data on the device", "training in the app, GPU", "speed run"),
    "Watching GPUs and runs": ("GPU screen", "one sample", "watching a run"),
    "Kept runs": ("a run of", "another part of its curves", "the list of", "tuitrain runs --json"),
    "More of everything": (
        "a curve's redraw",
        "a key in the list of runs",
        "the training screen's redraw",
        "the GPU screen",
        "a batch of events",
        "a step of split",
    ),
}
"""Titles, and how the names of their lines begin, in their order."""
OTHERS = "Others"


def place_of(name: str) -> tuple[str, int]:
    """The title of the section that the line `name` is in, and its place there, which it may share with lines of its kind."""
    found = ((title, place) for title, begins in SECTIONS.items() for place, begin in enumerate(begins) if name.startswith(begin))
    return next(found, (OTHERS, 0))

"""The peer: the seed CNN as a tutorial writes it, with a Dataset, ToTensor and a DataLoader. It imports nothing of tuitrain.

    python benchmarks/plain_script.py FOLDER [--epochs 10] [--max-steps N] [--skip 20] [--device cpu] [--times FILE]

FOLDER holds train/<class>/*.jpg and test/<class>/*.jpg; images are decoded once, before the clock starts, as torchvision's CIFAR10 has
them in memory. Prints one JSON line: seconds per step after the first `--skip` steps, and the test accuracy after each epoch; FILE
gets the moment of every step.
"""

import argparse
import hashlib
import json
import os
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


def to_tensor(image: Image.Image) -> torch.Tensor:
    """What torchvision.transforms.ToTensor does with an RGB image: [3, H, W] floats from 0 to 1."""
    pixels = torch.from_numpy(np.array(image, np.uint8, copy=True))
    return pixels.view(image.size[1], image.size[0], 3).permute((2, 0, 1)).contiguous().to(torch.float32).div(255)


def mixing_key(path: Path) -> bytes:
    """A fixed, well mixed place for one image: a hash of its path from the data folder on."""
    name = "/".join(path.parts[-3:])
    return hashlib.blake2b(name.encode(), digest_size=8).digest()


class Images(Dataset[tuple[torch.Tensor, int]]):
    """One split in memory as arrays; every access makes a PIL image of one and transforms it, as torchvision's CIFAR10 does."""

    def __init__(self, folder: Path, limit: int | None = None) -> None:
        classes = sorted(path.name for path in folder.iterdir())
        files = [(path, label) for label, name in enumerate(classes) for path in (folder / name).iterdir()]
        # The original files hold the classes in random order, and so must these: class after class does not train. The order
        # is the one tuitrain gives a folder, so that both train on the same batches.
        files = sorted(files, key=lambda file: mixing_key(file[0]))[:limit]
        self.labels = [label for _, label in files]
        self.arrays = [np.asarray(Image.open(path).convert("RGB")) for path, _ in files]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return to_tensor(Image.fromarray(self.arrays[index])), self.labels[index]


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 64),
        nn.Linear(64, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--skip", type=int, default=20)
    parser.add_argument("--device", type=torch.device, default="cpu")
    parser.add_argument("--times", default=os.devnull)
    args = parser.parse_args()

    torch.manual_seed(0)
    model = make_model().to(args.device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train = DataLoader(Images(args.folder / "train", 64 * args.max_steps if args.max_steps else None), batch_size=64)
    test = DataLoader(Images(args.folder / "test"), batch_size=64) if not args.max_steps else None

    step, durations, accuracies = 0, [], []
    with open(args.times, "w", buffering=1, encoding="ascii") as times:
        clock = time.perf_counter()
        for _ in range(args.epochs):
            model.train()
            for images, labels in train:
                loss = criterion(model(images.to(args.device)), labels.to(args.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                now = time.perf_counter()
                durations.append(now - clock)
                clock = now
                times.write(f"{time.time()}\n")
                if step % 100 == 0:
                    print(f"step {step} loss {loss.item():.4f}", flush=True)
                if step == args.max_steps:
                    break
            if test is not None:
                model.eval()
                right = 0
                with torch.no_grad():
                    for images, labels in test:
                        right += int((model(images.to(args.device)).argmax(1).cpu() == labels).sum())
                accuracies.append(right / len(test.dataset))  # type: ignore[arg-type]
                print(f"accuracy {accuracies[-1]:.4f}", flush=True)
                clock = time.perf_counter()
            if step == args.max_steps:
                break
    timed = durations[args.skip :]
    print(json.dumps({"steps": step, "seconds_per_step": sum(timed) / max(len(timed), 1), "accuracies": accuracies}))


if __name__ == "__main__":
    main()

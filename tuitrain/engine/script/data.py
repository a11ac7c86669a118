"""The part of an exported script that loads the data."""

from __future__ import annotations

import inspect
import json

from tuitrain.config import LOSSES, RunConfig
from tuitrain.engine.datasets.decode import FORMATS
from tuitrain.engine.datasets.folder_contents import mixing_key
from tuitrain.engine.datasets.sample import for_model, is_whole
from tuitrain.engine.datasets.synthetic import random_samples, synthetic_images
from tuitrain.engine.datasets.torch_samples import as_tensor, pair
from tuitrain.engine.own.arguments import CONFIG, DOWNLOAD, NOT_CALLED, NUM_CLASSES, ROOT, SPLIT, TRAIN
from tuitrain.engine.script import array_file, ranks
from tuitrain.engine.script.facts import Facts
from tuitrain.engine.script.literals import literal
from tuitrain.engine.script.speedrun import is_fitted
from tuitrain.engine.seeding import mixed, seed_sample
from tuitrain.engine.warm_up import FIT_SAMPLES
from tuitrain.events import DataKind, Targets
from tuitrain.image_folders import SUFFIXES, TEST_FOLDERS, TRAIN_FOLDERS, held_out
from tuitrain.import_strings import is_import_string

STANDARD_IMPORTS: dict[DataKind, frozenset[str]] = {
    "cifar10": frozenset({"import pickle", "from pathlib import Path"}),
    "imagefolder": frozenset({"import hashlib", "import os", "import warnings", "from pathlib import Path"}),
}
"""What loading takes from Python's own library."""
OTHER_IMPORTS: dict[DataKind, frozenset[str]] = {
    "imagefolder": frozenset({"import numpy as np", "from PIL import Image"}),
    "custom": frozenset({"import numpy as np"}),
}
"""What it takes from others."""
_ALL_FOUR = "train_inputs, train_labels, test_inputs, test_labels"


def loading(config: RunConfig, facts: Facts) -> tuple[str, str]:
    """What the data is called, and the code that loads it.

    The code leaves inputs [N, ...], the images among them as bytes [N, 3, H, W], and labels [N] in `train_inputs`, `train_labels` and,
    where there is test data, `test_inputs`, `test_labels`; several inputs are a list of such. Of training samples that are read anew in
    each epoch it leaves `train` in the place of the first two, and a function `read`.
    """
    kind, targets = facts.kind, facts.targets
    if kind == "synthetic":
        return "made-up images", f"\n{inspect.getsource(synthetic_images)}\n\n{_ALL_FOUR} = synthetic_images()"
    if kind == "random":
        load = "train_inputs, train_labels = random_samples(seed)"
        return "random numbers", f"\n{inspect.getsource(random_samples)}\n\n{load}"
    if kind == "cifar10":
        folder = _GIVEN.format(folder=literal(config.data))
        if config.data == "cifar10":
            folder = "\n".join(ranks.download_lines()) + "\n" if config.strategy == "ddp" else _DOWNLOADED
        return "CIFAR-10", f"\n{_CIFAR}\n\n{folder}{_ALL_FOUR} = load_cifar10(folder)"
    if kind == "imagefolder":
        load = _LOAD_IMAGES.format(folder=literal(config.data), train=_named(TRAIN_FOLDERS), test=_named(TEST_FOLDERS))
        ours = f"{inspect.getsource(mixing_key)}\n\n{inspect.getsource(held_out)}"
        return "a folder of images", f"\n{ours}\n\nSIDE = {config.image_size}  # pixels\n{_formats()}\n\n\n{_IMAGES}\n\n{load}"
    own = f"\n{inspect.getsource(pair)}\n\n{inspect.getsource(as_tensor)}\n\n"
    own += "" if facts.several is None else _listed(facts.several)
    own += _ONE.format(value=_value(facts), **_LABELS[targets]) if facts.several is None else _SEVERAL.format(**_LABELS[targets])
    called = "a file of arrays" if array_file.is_file(config, facts.kind) else "your own"
    if facts.scores is not None:
        return called, own + _anew(config, facts, facts.scores)
    own += f"\n\n{_parts(config, facts)}{_IN_MEMORY}{_TEST_IN_MEMORY}"
    counts = not is_import_string(config.model) or NUM_CLASSES in facts.given["model"]
    return called, own + _counted(config, targets) if counts else own


def _parts(config: RunConfig, facts: Facts) -> str:
    """The code that makes the two parts."""
    if array_file.is_file(config, facts.kind):
        return array_file.parts(config, facts)
    return _made_parts(facts) + "".join(f"{name} = {name}.dataset\n" for name in facts.of_loaders)


def _made_parts(facts: Facts) -> str:
    """The code that makes them as the person's code gives them."""
    given, parts = facts.given["data"], facts.parts
    before = [*([CONFIG] if CONFIG in given else []), *([f'{ROOT}="data"'] if ROOT in given else [])]
    after = [f"{DOWNLOAD}=True"] if DOWNLOAD in given else []

    def made(*part: str) -> str:
        return f"make_data({', '.join([*before, *part, *after])})"

    for name, values in ((TRAIN, ("True", "False")), (SPLIT, ('"train"', '"test"'))):
        if name in given:
            return f"train, test = {', '.join(made(f'{name}={value}') for value in values)}\n"
    whole = "own_data" if NOT_CALLED in given else made()
    if not parts:
        return f"train, test = {whole}\n"
    if parts == ("",):
        return f"train, test = {whole}, None\n"
    named = ", ".join([f"parts[{literal(name)}]" for name in parts] + ["None"] * (2 - len(parts)))
    return f"parts = {whole}\ntrain, test = {named}\n"


def _value(facts: Facts) -> str:
    """A sample's single input as a tensor."""
    return "as_tensor(value)" if facts.side is None else f"as_tensor(value, {facts.side})"


def _listed(several: tuple[str, ...]) -> str:
    """The code that has several inputs in the order in which the network is called with them."""
    found = "[" + ", ".join(f"inputs[{literal(name)}]" for name in several) + "]" if several[0] else "list(inputs)"
    return f'def listed(inputs):\n    """Several inputs, as the network takes them."""\n    return {found}\n\n\n'


def _anew(config: RunConfig, facts: Facts, scores: int) -> str:
    """The code for training samples that are read anew in each epoch, behind the functions for others."""
    value = _value(facts) if facts.several is None else "[as_tensor(one) for one in listed(value)]"
    read = _READ.format(value=value, label=_READ_LABELS[facts.targets])
    read = f"{inspect.getsource(mixed)}\n\n{inspect.getsource(seed_sample)}\n\n{read}"
    lines = ["are_images = as_tensor(pair(train[0])[0]).dim() == 3"] if facts.several is None else []
    lines += [f"num_classes = {scores}"]
    if is_fitted(config):
        lines.append(f"train_inputs, _ = next(read(train, 0, [range(min({FIT_SAMPLES}, len(train)))]))")
    return f"\n\n{read}\n\n{_parts(config, facts)}{_TEST_IN_MEMORY}" + "".join(f"{line}\n" for line in lines)


def train_count(scores: int | None) -> str:
    """How many training samples there are, as an expression of what `loading` leaves."""
    return "len(train_labels)" if scores is None else "len(train)"


def _counted(config: RunConfig, targets: Targets) -> str:
    """What `num_classes` is: as many as the greatest label says, and of labels that are numbers as many as a sample has."""
    numbers = "num_classes = train_labels[0].numel()  # numbers of a sample\n"
    if targets != "numbers":
        return _COUNTED
    if config.loss in LOSSES:
        return numbers
    indented = "".join(f"    {line}\n" for line in _COUNTED.splitlines())
    return f"if train_labels.is_floating_point() or train_labels.dtype == torch.bool:\n    {numbers}else:\n{indented}"


def input_lines(config: RunConfig, facts: Facts, dtype: str) -> list[str]:
    """What a network takes of the inputs in `rows`."""
    kind = facts.kind
    if facts.several is not None:
        return [f"    inputs = [for_model(part[rows].to(device), {dtype}, copy=True) for part in inputs]"]
    picked = f"inputs[rows]{'.contiguous()' if facts.contiguous else ''}"
    # Where nothing is divided, a slice would stay a view of the data, which one's own model may change in place.
    stay = "torch.int64, copy=True)  # whole numbers stay such"
    if facts.whole:
        return [f"    inputs = {picked}.to(device, {stay}"]
    if facts.whole is None and kind == "custom":
        return [
            f"    inputs = {picked}.to(device)",
            "    if inputs.is_floating_point() or inputs.dtype == torch.uint8:",
            f"        inputs = inputs.to({dtype}){scaling(kind)}",
            "    else:",
            f"        inputs = inputs.to({stay}",
        ]
    copied = ", copy=True" if kind == "random" and is_import_string(config.model) else ""
    return [f"    inputs = {picked}.to(device, {dtype}{copied}){scaling(kind)}"]


def input_functions(facts: Facts) -> list[str]:
    """What `input_lines` calls."""
    functions = () if facts.several is None else (is_whole, for_model)
    return [line for function in functions for line in (inspect.getsource(function), "")]


def scaling(kind: DataKind) -> str:
    """How pixels become what a network takes: added to an expression of `inputs`."""
    return {"random": "", "custom": " / (255 if inputs.dtype == torch.uint8 else 1)"}.get(kind, " / 255")


def num_classes(kind: DataKind) -> str:
    """How many classes there are, as an expression of what `loading` leaves."""
    return {"imagefolder": "len(classes)", "custom": "num_classes", "random": "2"}.get(kind, "10")


def _named(texts: tuple[str, ...]) -> str:
    """A tuple of them in code."""
    return f"({', '.join(map(literal, texts))})"


def _formats() -> str:
    """What is no image for the run is none here."""
    bombs = 'warnings.simplefilter("error", Image.DecompressionBombWarning)'
    return f"SUFFIXES = {_named(SUFFIXES)}\nFORMATS = {json.dumps(FORMATS)}  # whatever the file's name ends in\n{bombs}"


_CIFAR = '''def load_cifar10(folder):
    """Images [N, 3, 32, 32] of bytes and labels [N]: 50,000 to train on, 10,000 to test with."""
    parts = []
    for names in ([f"data_batch_{number}" for number in range(1, 6)], ["test_batch"]):
        tables = [pickle.loads((folder / name).read_bytes(), encoding="latin1") for name in names]
        tables = [{key.decode() if isinstance(key, bytes) else key: value for key, value in table.items()} for table in tables]
        images = torch.cat([torch.from_numpy(table["data"]) for table in tables]).view(-1, 3, 32, 32)
        labels = torch.tensor([label for table in tables for label in table["labels"]])
        parts += [images.contiguous(memory_format=torch.channels_last), labels]
    return parts
'''

_DOWNLOADED = """folder = Path("data/cifar-10-batches-py")
if not folder.is_dir():
    import torchvision

    torchvision.datasets.CIFAR10("data", download=True)
"""

_GIVEN = """folder = Path({folder})
if (folder / "cifar-10-batches-py").is_dir():
    folder = folder / "cifar-10-batches-py"
"""

_IMAGES = '''def read_image(path):
    """The bytes [SIDE, SIDE, 3] of an image, or None where the file is damaged."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.mode == "F":  # floats are no colours
                return None
            image.draft(None, (2 * SIDE, 2 * SIDE))
            if image.mode.startswith("I"):  # greys of 16 bits
                image = Image.fromarray((np.asarray(image).clip(0, 65535) >> 8).astype(np.uint8))
            return torch.from_numpy(np.array(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)))
    except Exception:
        return None


def image_files(folder, part, classes):
    """Names and labels of the images in folder/part/<class>/, the classes mixed."""
    files = []
    for label, name in enumerate(classes):
        for path in (folder / part / name).iterdir():
            if path.name.lower().endswith(SUFFIXES) and not path.name.startswith("."):
                files.append((path.relative_to(folder).as_posix(), label))
    return sorted(files, key=lambda file: mixing_key(file[0]))


def load_images(folder, files):
    """Images [N, 3, SIDE, SIDE] of bytes and labels [N]."""
    images = [(read_image(folder / name), label) for name, label in files]
    images = [(image, label) for image, label in images if image is not None]
    inputs = torch.stack([image for image, _ in images]).permute(0, 3, 1, 2)
    return inputs, torch.tensor([label for _, label in images])
'''

_LOAD_IMAGES = """folder = Path({folder})
folders = {{path.name.lower(): path.name for path in sorted(folder.iterdir()) if path.is_dir()}}
train = next((folders[part] for part in {train} if part in folders), "")
test = next((folders[part] for part in {test} if part in folders), None)
classes = sorted(entry.name for entry in (folder / train).iterdir() if entry.is_dir() and not entry.name.startswith("."))
train_files = image_files(folder, train, classes)
if test is None:
    held = held_out([label for _, label in train_files])
    test_files = [file for file, out in zip(train_files, held) if out]
    train_files = [file for file, out in zip(train_files, held) if not out]
else:
    test_files = image_files(folder, test, classes)
train_inputs, train_labels = load_images(folder, train_files)
test_inputs, test_labels = load_images(folder, test_files)
"""

_ONE = '''def in_memory(part):
    """Inputs [N, ...] and labels {shape} of a part, which may be a torch Dataset."""
    if isinstance(part, (tuple, list)) and len(part) == 2:
        return as_tensor(part[0]), as_tensor(part[1]){long}
    samples = [pair(part[index]) for index in range(len(part))]
    return torch.stack([{value} for value, _ in samples]), {labels}
'''

_SEVERAL = '''def in_memory(part):
    """Several inputs [N, ...] and labels {shape} of a part, which may be a torch Dataset."""
    if isinstance(part, (tuple, list)) and len(part) == 2:
        return [as_tensor(one) for one in listed(part[0])], as_tensor(part[1]){long}
    samples = [pair(part[index]) for index in range(len(part))]
    columns = zip(*(listed(value) for value, _ in samples))
    return [torch.stack([as_tensor(one) for one in column]) for column in columns], {labels}
'''

_IN_MEMORY = "train_inputs, train_labels = in_memory(train)\n"
_TEST_IN_MEMORY = """if test is not None:
    test_inputs, test_labels = in_memory(test)
"""
_READ = '''class Drawn(Dataset):
    """The training samples in an epoch: what is drawn of one depends on seed, epoch and its number alone, in whatever process."""

    def __init__(self, part, epoch):
        self.part, self.epoch = part, epoch

    def __len__(self):
        return len(self.part)

    def __getitem__(self, index):
        seed_sample(seed, self.epoch, index)
        value, label = pair(self.part[index])
        return {value}, {label}


def read(part, epoch, batches):
    """Inputs and labels of each batch, a list of numbers, read by other processes; these end when all of them were read."""
    workers = max(1, len(os.sched_getaffinity(0)) - 1)
    own = torch.Generator()  # what is drawn by torch's is the network's
    loader = DataLoader(
        Drawn(part, epoch), batch_sampler=batches, num_workers=workers, multiprocessing_context="fork", generator=own
    )
    return iter(loader)
'''
_READ_LABELS: dict[Targets, str] = {
    "classes": "int(label)",
    "positions": "torch.from_numpy(np.array(label)).long()",
    "numbers": "torch.as_tensor(label)",
}

_STACKED = "torch.stack([torch.as_tensor(label) for _, label in samples])"
_IMAGES_STACKED = "torch.stack([torch.from_numpy(np.array(label)) for _, label in samples]).long()"
_LABELS: dict[Targets, dict[str, str]] = {
    "classes": {"shape": "[N]", "long": ".long()", "labels": "torch.tensor([int(label) for _, label in samples])"},
    "positions": {"shape": "[N, ...]", "long": ".long()", "labels": _IMAGES_STACKED},
    "numbers": {"shape": "[N, ...]", "long": "", "labels": _STACKED},
}

_COUNTED = """all_labels = train_labels if test is None else torch.cat([train_labels, test_labels])
num_classes = int(all_labels.max()) + 1
"""

"""What stands beside each row of the launcher while its value is allowed: what the value means on this machine, with the other values."""

from __future__ import annotations

import math

import msgspec

from tuitrain.config import DATA, RunConfig, load_recipe, parse_device, recipe_names
from tuitrain.devices import Choice, busy_words
from tuitrain.tui import format as words
from tuitrain.tui.launch.disk import Folder

CIFAR10_DOWNLOAD = "170 MB download"
NOT_SINGLE = ("split", "dp", "ddp")
_SAMPLES = {"cifar10": 50_000, "synthetic": 12_800, "random": 100}


class Hint(msgspec.Struct, frozen=True):
    """`idle`: another value makes this one meaningless. `bad`: a start would be refused or go badly."""

    text: str = ""
    idle: bool = False
    bad: bool = False


class Machine(msgspec.Struct, frozen=True):
    """The devices, which one `auto` takes now, and the processor's cores."""

    choices: tuple[Choice, ...]
    auto: str
    cores: int

    @property
    def usable(self) -> tuple[str, ...]:
        """The names of the devices that a run could take."""
        return tuple(choice.name for choice in self.choices if choice.selectable)

    @property
    def cards(self) -> tuple[str, ...]:
        """Those that are GPUs."""
        return tuple(name for name in self.usable if name != "cpu")

    def takes(self, config: RunConfig) -> str:
        """The device that a start would take now."""
        devices = parse_device(config.device)
        return devices[0] if isinstance(devices, tuple) else self.auto


class Situation(msgspec.Struct, frozen=True):
    """What hints depend on beside the configuration. `folder` is `None` until the disk has answered."""

    machine: Machine
    cifar10_on_disk: bool
    folder: Folder | None
    fetching: bool = False


def why_not(strategy: str, devices: int) -> str | None:
    """Why a strategy cannot be taken where `devices` could be used, or `None`."""
    if strategy == "single":
        return None
    if devices < 2:
        return f"{strategy} needs two devices; one is here"
    return f"{strategy} is not in this version yet"


def training_samples(config: RunConfig, cifar10_on_disk: bool) -> int | None:
    """How many samples an epoch has, where that is known before the data is read."""
    data = config.data
    if data == "auto":
        data = "cifar10" if cifar10_on_disk else "synthetic"
    return _SAMPLES.get(data)


def hint(field: str, config: RunConfig, now: Situation) -> Hint:
    """What to say beside the row of `field`."""
    machine = now.machine
    samples = training_samples(config, now.cifar10_on_disk)
    if field == "recipe":
        return Hint(f"{config.model} · {config.optimizer} · {'shuffled' if config.shuffle else 'not shuffled'}")
    if field == "data":
        return _data(config, now)
    if field == "device":
        return _device(config, machine)
    if field == "strategy":
        return Hint(f"{', '.join(NOT_SINGLE)} {'need two devices' if len(machine.usable) < 2 else 'not in this version yet'}", idle=True)
    if field == "epochs":
        return _epochs(config, samples)
    if field == "max_steps":
        return _max_steps(config, samples)
    if field == "batch_size":
        return _batch_size(config, samples)
    if field == "lr":
        return _lr(config)
    if field == "seed":
        return _seed(config)
    if field == "precision":
        return _precision(config, machine)
    return Hint("how lists call the run" if config.name else f"none: lists call it {config.recipe}")


def _data(config: RunConfig, now: Situation) -> Hint:
    data = config.data
    if data in DATA and config.model == "linear" and data != "random":
        return Hint("the model linear takes random only", bad=True)
    if data == "random":
        fits = config.model != "seed-cnn"
        return Hint("100 samples of 5 numbers" if fits else "the model seed-cnn takes images", bad=not fits)
    if data == "synthetic":
        return Hint("built in: 12,800 images")
    if data == "auto":
        return Hint("CIFAR-10, from disk" if now.cifar10_on_disk else "synthetic: CIFAR-10 is not on disk")
    if data == "cifar10":
        if now.cifar10_on_disk:
            return Hint("from disk: 50,000 images")
        return Hint("on its way" if now.fetching else f"{CIFAR10_DOWNLOAD} at the start")
    if now.folder is None or now.folder.data != data:
        return Hint()
    return Hint(now.folder.words, bad=now.folder.bad)


def _device(config: RunConfig, machine: Machine) -> Hint:
    wanted = parse_device(config.device)
    cards = len(machine.cards)
    if not isinstance(wanted, tuple):
        if not cards:
            return Hint("takes the cpu: no usable GPU is here")
        return Hint(f"takes {machine.auto}: most free memory" if wanted == 1 else f"{machine.auto}: this version trains on one")
    if wanted[0] == "cpu":
        unused = "" if not cards else f", {cards} GPU{'s' if cards != 1 else ''} not used"
        return Hint(f"{machine.cores} core{'s' if machine.cores != 1 else ''}{unused}")
    choice = next((choice for choice in machine.choices if choice.name == wanted[0]), None)
    if choice is None or choice.device is None:
        return Hint(f"no {wanted[0]} is seen on this machine", bad=True)
    if not choice.selectable:
        return Hint(choice.reason or "cannot be used", bad=True)
    if busy := busy_words(choice.device):
        return Hint(busy, bad=True)
    free = choice.device.memory_free
    return Hint("nobody else uses it" if free is None else f"{words.gib(free)} GiB free")


def _steps(config: RunConfig, samples: int | None) -> tuple[int, int] | None:
    """Steps of one epoch and of all, or `None` where nobody knows yet."""
    if samples is None:
        return None
    each = math.ceil(samples / config.batch_size)
    return each, each * config.epochs


def _epochs(config: RunConfig, samples: int | None) -> Hint:
    steps = _steps(config, samples)
    if steps is None:
        return Hint("passes over the training data" if config.max_steps is None else "or max steps, whichever comes first")
    each, total = steps
    if config.max_steps is not None and config.max_steps < total:
        return Hint("max steps ends the run first", idle=True)
    return Hint(f"{total:,} steps, {each:,} in an epoch")


def _max_steps(config: RunConfig, samples: int | None) -> Hint:
    steps = _steps(config, samples)
    if config.max_steps is None:
        return Hint("none: all epochs")
    if steps is None:
        return Hint("or all epochs, whichever comes first")
    if config.max_steps >= steps[1]:
        return Hint(f"the epochs end the run at step {steps[1]:,}", idle=True)
    return Hint(f"of {steps[1]:,} in all epochs")


def _batch_size(config: RunConfig, samples: int | None) -> Hint:
    if samples is None:
        return Hint("samples in one step")
    if config.batch_size >= samples:
        return Hint(f"all {samples:,} samples in one step")
    rest = samples % config.batch_size
    return Hint(f"samples in one step{f', {rest:,} in the last' if rest else ''}")


def _lr(config: RunConfig) -> Hint:
    text = f"for {config.optimizer}" + (f", momentum {config.momentum:g}" if config.momentum else "")
    if config.recipe in recipe_names():
        usual = load_recipe(config.recipe).lr
        text += f"; the recipe has {usual:g}" if usual != config.lr else ""
    return Hint(text)


def _seed(config: RunConfig) -> Hint:
    if not config.deterministic:
        return Hint("losses still vary: not deterministic")
    if config.data == "random":
        return Hint("the weights, and the random samples")
    if config.shuffle or config.augment != "none":
        return Hint("the weights, and the random order")
    return Hint("the weights; the order is fixed")


def _precision(config: RunConfig, machine: Machine) -> Hint:
    if config.precision == "fp64":
        return Hint("slow, for comparing results")
    if config.precision == "fp32":
        return Hint("the plain way")
    if machine.takes(config) == "cpu":
        return Hint("slower on a cpu without bf16 built in")
    return Hint("autocast: fast on newer GPUs")

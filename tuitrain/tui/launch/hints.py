"""What stands beside each row of the launcher while its value is allowed: what the value means on this machine, with the other values."""

from __future__ import annotations

import math

import msgspec

from tuitrain import words
from tuitrain.config import DATA, MODELS, RECIPES, RunConfig, parse_device
from tuitrain.device_names import in_words
from tuitrain.devices import Choice, busy_words
from tuitrain.recipes import load_recipe
from tuitrain.strategies import STRATEGIES, stands_for
from tuitrain.text import plural
from tuitrain.tui.launch.disk import Folder
from tuitrain.tui.launch.strategies import misfit_in_words

CIFAR10_DOWNLOAD = "170 MB download"
_SAMPLES = {"cifar10": 50_000, "synthetic": 12_800, "random": 100}


class Hint(msgspec.Struct, frozen=True):
    """`idle`: another value makes this one meaningless. `bad`: a start would be refused or go badly."""

    text: str = ""
    idle: bool = False
    bad: bool = False


class Machine(msgspec.Struct, frozen=True):
    """The devices, the GPUs in the order in which `auto` takes them now, the processor's cores, and why no run can take a GPU, if so."""

    choices: tuple[Choice, ...]
    freest: tuple[str, ...]
    cores: int
    barred: str = ""

    @property
    def usable(self) -> tuple[str, ...]:
        """The names of the devices that a run could take."""
        return tuple(choice.name for choice in self.choices if choice.selectable)

    @property
    def cards(self) -> tuple[str, ...]:
        """Those that are GPUs."""
        return tuple(name for name in self.usable if name != "cpu")

    def takes(self, config: RunConfig) -> tuple[str, ...]:
        """The devices that a start would take now, one for each replica."""
        devices = parse_device(config.device)
        return devices if isinstance(devices, tuple) else self.freest[:devices] or ("cpu",)

    def strategy(self, config: RunConfig) -> str:
        """The strategy that a start would take now, never "auto"."""
        return stands_for(config.strategy, self.takes(config))

    def named(self, config: RunConfig) -> RunConfig:
        """`config` with the devices and the strategy that a start would take now."""
        return msgspec.structs.replace(config, device=",".join(self.takes(config)), strategy=self.strategy(config))

    def words(self, config: RunConfig) -> str:
        """`cuda:0`, or `cuda:0, cuda:1 (split)`."""
        devices = self.takes(config)
        return in_words(devices) + (f" ({self.strategy(config)})" if len(devices) > 1 else "")


class Situation(msgspec.Struct, frozen=True):
    """What hints depend on beside the configuration. `folder` is `None` until the disk has answered."""

    machine: Machine
    cifar10_on_disk: bool
    folder: Folder | None
    fetching: bool = False


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
        return _recipe(config)
    if field == "data":
        return _data(config, now)
    if field == "device":
        return _device(config, machine)
    if field == "strategy":
        return _strategy(config, machine)
    if field == "epochs":
        return _epochs(config, samples)
    if field == "max_steps":
        return _max_steps(config, samples)
    if field == "batch_size":
        return _batch_size(config, samples, len(machine.takes(config)))
    if field == "lr":
        return _lr(config)
    if field == "seed":
        return _seed(config)
    if field == "precision":
        return _precision(config, machine)
    return Hint("how lists call the run" if config.name else f"none: lists call it {config.recipe}")


def _recipe(config: RunConfig) -> Hint:
    order = "shuffled" if config.shuffle else "not shuffled"
    axis = f" · batch axis {config.batch_dim}" if config.batch_dim else ""
    # Most recipes are called by their network.
    model = "" if config.recipe.startswith(config.model) else f"{config.model} · "
    return Hint(f"{model}{_name(config.optimizer)} · {order}{axis}")


def _name(optimizer: str) -> str:
    """What it is called; of an import string without the module."""
    return optimizer.rpartition(":")[2]


def _data(config: RunConfig, now: Situation) -> Hint:
    data = config.data
    if data in DATA and config.model == "linear" and data != "random":
        return Hint("the model linear takes random only", bad=True)
    if data == "random":
        fits = config.model == "linear" or config.model not in MODELS
        return Hint("100 samples of 5 numbers" if fits else f"the model {config.model} takes images", bad=not fits)
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
    wanted, taken = parse_device(config.device), machine.takes(config)
    cards = len(machine.cards)
    if not isinstance(wanted, tuple):
        if not cards:
            idle = machine.barred != "" and any(choice.well and choice.device for choice in machine.choices)
            return Hint(f"takes cpu: {machine.barred}" if idle else "takes the cpu: no usable GPU is here")
        short = f"; {wanted} are not here" if wanted is not None and wanted > len(taken) else ": most free memory"
        named = in_words(taken) if len(taken) <= 2 else f"{len(taken)} GPUs"
        return Hint(f"takes {named}{short if wanted is not None else ''}")
    for name in dict.fromkeys(taken):
        if problem := _problem(name, machine):
            alone = len(set(taken)) == 1 or name in problem or problem == machine.barred
            return Hint(problem if alone else f"{name}: {problem}", bad=True)
    if set(taken) == {"cpu"}:
        unused = "" if not cards else f", {cards} {plural('GPU', cards)} not used"
        cores = f"{machine.cores} {plural('core', machine.cores)}"
        return Hint(f"{cores}{unused}" if len(taken) == 1 else f"{len(taken)} replicas share {cores}{unused}")
    if len(taken) > 1:
        return Hint(_several(taken, machine))
    free = _free(machine, taken[0])
    return Hint("nobody else uses it" if free is None else f"{words.gib(free)} GiB free")


def _several(taken: tuple[str, ...], machine: Machine) -> str:
    devices = tuple(dict.fromkeys(taken))
    noun = "devices" if "cpu" in devices else "GPU" if len(devices) == 1 else "GPUs"
    free = [size for name in devices if (size := _free(machine, name)) is not None]
    least = "" if not free else f", {words.gib(min(free))} GiB free{' on each' if len(free) == len(devices) > 1 else ''}"
    return (f"{len(taken)} replicas on {len(devices)} {noun}" if len(devices) < len(taken) else f"{len(devices)} {noun}") + least


def _free(machine: Machine, name: str) -> int | None:
    choice = next((choice for choice in machine.choices if choice.name == name), None)
    return choice.device.memory_free if choice is not None and choice.device is not None else None


def _problem(name: str, machine: Machine) -> str | None:
    """What is wrong with taking a device, or `None`."""
    if name == "cpu":
        return None
    choice = next((choice for choice in machine.choices if choice.name == name), None)
    if choice is None or choice.device is None:
        return f"no {name} is seen on this machine"
    return busy_words(choice.device) if choice.selectable else choice.reason or "cannot be used"


def _strategy(config: RunConfig, machine: Machine) -> Hint:
    devices = machine.takes(config)
    if reason := misfit_in_words(config.strategy, devices):
        return Hint(reason, bad=True)
    if len(devices) == 1 and config.strategy not in ("auto", "single"):
        return Hint("one replica: + adds a device")
    if len(devices) == 1:
        others = ", ".join(name for name in STRATEGIES if name != "single")
        return Hint(f"{others} need two devices", idle=True)
    taken = f"takes {machine.strategy(config)}: " if config.strategy == "auto" else ""
    return Hint(f"{taken}{len(devices)} replicas")


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
    return Hint(f"{total:,} {plural('step', total)}, {each:,} in an epoch")


def _max_steps(config: RunConfig, samples: int | None) -> Hint:
    steps = _steps(config, samples)
    if config.max_steps is None:
        return Hint("none: all epochs")
    if steps is None:
        return Hint("or all epochs, whichever comes first")
    if config.max_steps >= steps[1]:
        return Hint(f"the epochs end the run at step {steps[1]:,}", idle=True)
    return Hint(f"of {steps[1]:,} in all epochs")


def _batch_size(config: RunConfig, samples: int | None, replicas: int) -> Hint:
    # Cut as torch.chunk cuts: all parts but the last one are of this size.
    most = f"{math.ceil(config.batch_size / replicas):,}"
    each = "" if replicas == 1 else f", at most {most} for each" if config.batch_size % replicas else f", {most} for each"
    if samples is None:
        return Hint(f"samples in one step{each}")
    if config.batch_size >= samples:
        return Hint(f"all {samples:,} samples in one step")
    rest = samples % config.batch_size
    return Hint(f"samples in one step{each}{f', {rest:,} in the last' if rest else ''}")


def _lr(config: RunConfig) -> Hint:
    text = f"for {_name(config.optimizer)}" + (f", momentum {config.momentum:g}" if config.momentum else "")
    if config.recipe in RECIPES:
        usual = load_recipe(config.recipe).lr
        text += f"; {config.recipe} has {usual:g}" if usual != config.lr else ""
    return Hint(text)


def _seed(config: RunConfig) -> Hint:
    if not config.deterministic:
        return Hint("losses still vary: not deterministic")
    weights = "the weights" if config.weights is None else "weights without a file"
    if config.data == "random":
        return Hint(f"{weights}, and the random samples")
    if config.shuffle or config.augment != "none":
        return Hint(f"{weights}, and the random order")
    return Hint(f"{weights}; the order is fixed")


def _precision(config: RunConfig, machine: Machine) -> Hint:
    if config.precision == "fp64":
        return Hint("slow, for comparing results")
    if config.precision == "fp32":
        return Hint("the plain way")
    if config.precision == "tf32":
        return Hint("the plain way: a cpu has no TF32" if "cpu" in machine.takes(config) else "fp32, multiplied in TF32")
    if "cpu" in machine.takes(config):
        return Hint("slower on a cpu without bf16 built in")
    return Hint("autocast: fast on newer GPUs")

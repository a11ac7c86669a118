"""What a run is made of: `RunConfig`, checked field by field.

Every mistake is a `ConfigError` whose text is one sentence: the field, the value and what is allowed.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from tuitrain import field_types
from tuitrain.device_names import expanded, in_words, short
from tuitrain.elsewhere import called_elsewhere, done_otherwise, precision_meant
from tuitrain.import_strings import import_string_meant, is_import_string
from tuitrain.strategies import limit
from tuitrain.text import clean, is_utf8, nearest

MODELS = ("seed-cnn", "linear", "rnn", "transformer", "resnet18", "speedrun")
OF_ANY_SIZE = ("resnet18",)
"""Those of them that take images of any size."""
DATA = ("auto", "cifar10", "synthetic", "random")
LOSSES = ("cross_entropy", "nll", "mse")
OF_CLASSES = ("cross_entropy", "nll")
"""Those of them that compare scores with class numbers."""
OPTIMIZERS = ("sgd", "adam", "adamw")
WITHOUT_MOMENTUM = ("adam", "adamw")
"""Those of them that have none; one of the person's own may have it."""
SCHEDULES = ("none", "cosine", "triangle")
BUILT_IN_WORDS = {"model": MODELS, "loss": LOSSES, "optimizer": OPTIMIZERS, "lr_schedule": SCHEDULES}
"""By a field: the words beside which it takes the import string of one of the person's own."""
RECIPES = (
    *("seed-cnn", "multi-gpu", "random-linear", "rnn", "rnn-batch-first", "transformer", "transformer-batch-first", "resnet18"),
    "speedrun-94",
)
"""The built-in recipes, in the order a newcomer should meet them."""

_DEVICE = re.compile(r"cpu|cuda|cuda:(0|[1-9][0-9]*)")

NONE = "none"
"""How a file and a command line say that a field has no value."""
LARGEST = 1e38
"""What an optimizer multiplies with must be a number in fp32 too."""
PositiveInt = Annotated[int, Meta(ge=1, le=2**53, description="a whole number of 1 or more")]
Accuracy = Annotated[float, Meta(gt=0, le=1)]
GradNorm = Annotated[float, Meta(gt=0, le=LARGEST)]


class ConfigError(Exception):
    """A wrong flag, file, field, device or data set. The text is one sentence for the person."""

    @property
    def reason(self) -> str:
        """The sentence for a screen: without the name of the command line's argument RUN, which nobody has typed there."""
        return str(self).removeprefix("RUN: ")


class RunConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides a run. What a type does not say by itself, `Meta.description` does, in the words of the error message."""

    recipe: str = "custom"
    model: str = "seed-cnn"
    """A built-in model or an import string: `make_model(config) -> torch.nn.Module`."""
    weights: Annotated[str | None, Meta(description="a file of weights (.pt, .pth or .safetensors), or none")] = None
    """What the model begins with in the place of what `seed` draws; of another network's only what fits, by name and shape."""
    data: str = "auto"
    """A built-in data set, a folder, a file of arrays, or an import string: `make_data(config) -> (train, test | None)`, each `(inputs,
    labels)` or a torch `Dataset`, or what else `own_parts` takes."""
    image_size: Annotated[int, Meta(ge=8, le=1024, description="a whole number from 8 to 1024")] = 32
    """To how many pixels, in height and in width, the images of a folder, a file of arrays, and Pillow's of a `Dataset` are brought."""
    device: str = "auto"
    output_device: str | None = None
    """Where dp gathers the outputs and computes the loss; the first device where it is none."""
    strategy: Literal["auto", "single", "dp", "split", "ddp"] = "auto"
    """How several devices share a batch; auto is single for one device, ddp for several GPUs, and split for any others."""
    epochs: PositiveInt = 10
    max_steps: Annotated[PositiveInt | None, Meta(description="a whole number of 1 or more, or none")] = None
    """Counted from the run's first step; the run ends at whichever of `epochs` and `max_steps` comes first."""
    batch_size: PositiveInt = 64
    """The global batch: all replicas together."""
    loss: str = "cross_entropy"
    """A built-in loss or an import string: `loss(outputs, labels) -> mean over the samples`, 0-dim; or a module or a class of
    such, like `torch.nn:HuberLoss`."""
    label_smoothing: Annotated[float, Meta(ge=0, lt=1, description="a number from 0 up to, not including, 1")] = 0.0
    """How much of each label is shared out over all classes; in the test loss too."""
    optimizer: str = "sgd"
    """A built-in optimizer or an import string: `make_optimizer(model, config) -> torch.optim.Optimizer`, or a class of such, like
    `torch.optim:RMSprop`."""
    lr: Annotated[float, Meta(gt=0, le=LARGEST, description="a number above 0")] = 0.01
    momentum: Annotated[float, Meta(ge=0, lt=1, description="a number from 0 up to, not including, 1")] = 0.0
    nesterov: bool = False
    weight_decay: Annotated[float, Meta(ge=0, le=LARGEST, description="a number of 0 or more")] = 0.0
    max_grad_norm: Annotated[GradNorm | None, Meta(description="a number above 0, or none")] = None
    """Where the gradients of all parameters together, as one vector, are longer than that, they are scaled down to it."""
    lr_schedule: str = "none"
    """Over the planned steps. cosine: from `lr` down to 0, along half a cosine; triangle: from 0.2 times `lr` up to `lr` at 23 % of them,
    and down to 0.07 times `lr` after the last one. Or an import string: `my_schedule(done, total) -> by how much lr is multiplied`."""
    warmup_steps: Annotated[int, Meta(ge=0, le=2**53, description="a whole number of 0 or more")] = 0
    """In so many steps the learning rate rises on a straight line up to `lr`; a schedule is over those that are left."""
    averaging: Literal["none", "lookahead"] = "none"
    """lookahead: from epoch 4 on, every fifth step, and at each epoch's end, the weights become a moving average of themselves."""
    shuffle: bool = False
    augment: Literal["none", "crop-flip", "flip-shift"] = "none"
    """flip-shift: each image is mirrored in every second epoch, and shifted by up to 2 pixels in each."""
    tta: bool = False
    """Evaluate each test image in six views: as it is, shifted by a pixel both ways, and all three mirrored."""
    target_accuracy: Annotated[Accuracy | None, Meta(description="a number above 0 and up to 1, or none")] = None
    """The test accuracy to reach; a run that has one keeps a clock of its training, see `events.Clock`."""
    dropout: Annotated[float, Meta(ge=0, lt=1, description="a number from 0 up to, not including, 1")] = 0.1
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="a whole number from 0 to 4294967295")] = 0
    deterministic: bool = True
    precision: Literal["fp32", "bf16", "fp64", "tf32"] = "fp32"
    compile: bool = False
    batch_dim: Annotated[int, Meta(ge=0, le=1, description="0 or 1")] = 0
    """The input's batch axis; labels and outputs have theirs at 0."""
    even_split: bool = False
    """Refuse, before the run is made, a batch that does not divide evenly over the replicas; the last one of an epoch counts too."""
    log_every_steps: PositiveInt = 1
    checkpoint_every_steps: Annotated[PositiveInt | None, Meta(description="a whole number of 1 or more, or none")] = None
    checkpoint_every_minutes: Annotated[float, Meta(gt=0, description="a number above 0")] = 1.0
    keep_checkpoints: Annotated[int, Meta(ge=2, le=2**53, description="a whole number of 2 or more")] = 3
    max_restarts: Annotated[int, Meta(ge=0, le=2**31, description="a whole number of 0 or more")] = 3
    nnodes: Annotated[str, Meta(pattern=r"^[0-9]{1,4}(:[0-9]{1,4})?$", description="a number of machines, or a range MIN:MAX")] = "1"
    """How many machines train together; the same command is typed on each, and `device` names the devices of the one where it is typed."""
    rdzv_endpoint: str | None = None
    """Where they meet: the machine that HOST names hosts the run."""
    name: str = ""
    note: str = ""
    on_end: Annotated[str | None, Meta(description="a shell command, or none")] = None
    """What the shell runs once, in tuitrain's working directory, when the run has ended and all of it is on disk.

    It learns of the run from its environment: TUITRAIN_RUN (the run's id), TUITRAIN_STATE (finished, stopped, failed or interrupted),
    TUITRAIN_NAME (the run's name, or its recipe where it has none), TUITRAIN_STEP (the last step), TUITRAIN_ACCURACY (the best test
    accuracy, 0 to 1; empty without any) and TUITRAIN_FOLDER (the run's folder). Its output goes to the run's log. It has 60 seconds;
    with & at its end it goes on by itself.
    """

    def title(self) -> str:
        """What the run is called on a screen."""
        return self.name or self.recipe

    @property
    def looks_ahead(self) -> bool:
        """Whether what a step does depends on how many are planned."""
        return self.lr_schedule != "none" or self.averaging != "none"


FIELDS: tuple[str, ...] = RunConfig.__struct_fields__
_ANY_FIELD = f" It must be one of {', '.join(FIELDS)}."
DEFAULTS = RunConfig()


def with_changes(config: RunConfig, changes: Mapping[str, Any], *, from_text: bool = False) -> RunConfig:
    """`config` with some fields replaced and all of it checked.

    Args:
        config: the configuration to start from.
        changes: field name -> value; `from_text` says that the values are what a person typed ("1e-2", "true", "none").

    Raises:
        ConfigError: an unknown field, or a value that is not allowed.
    """
    checked = {field: check_field(field, value, from_text=from_text) for field, value in changes.items()}
    changed = msgspec.structs.replace(config, **checked)
    _check_together(changed)
    return changed


def check_field(field: str, value: Any, *, from_text: bool = False) -> Any:
    """`value` as the type of `field`.

    Raises:
        ConfigError: there is no such field, or it does not allow the value.
    """
    if not field:
        raise ConfigError(f"{clean(f'={value}')!r} names no field; it must be FIELD=VALUE, like lr=0.01.")
    if field not in FIELDS:
        ours = called_elsewhere(field)
        meant = f" Did you mean {ours!r}?" if ours else done_otherwise(field) or nearest(field, FIELDS)
        raise ConfigError(f"{clean(field)}: there is no such field.{meant or _ANY_FIELD}")
    hint = _hint(field)
    if from_text and isinstance(value, str) and field not in ("name", "note"):
        value = value.strip()
    # TOML has no null, so a file says it in the same words.
    if isinstance(value, str) and value.lower() in ("none", "null") and field_types.is_optional(hint):
        return None
    if field in ("name", "note") and isinstance(value, str):
        return clean(value.strip())
    # In a file a number of machines is a number.
    if field == "nnodes" and type(value) is int:
        value = str(value)
    typed = field_types.as_in_json(value) if from_text and isinstance(value, str) and field_types.is_number(hint) else value
    try:
        result = msgspec.convert(typed, hint, strict=not from_text)
    except (msgspec.ValidationError, UnicodeEncodeError):
        # The latter: what was typed is not UTF-8.
        raise _not_allowed(field, value, "" if from_text else _quotes(field, value)) from None
    if isinstance(result, float) and not math.isfinite(result):
        raise _not_allowed(field, value)
    if isinstance(result, str):
        _check_string(field, result)
    if field == "device":
        return _without_ranges(result)
    return _cuda_name(result) if field == "output_device" else result


def allowed(field: str) -> str:
    """What `field` allows, in words."""
    special = {
        "recipe": f"one of {', '.join(RECIPES)}, or a TOML file",
        "model": f"one of {', '.join(MODELS)}, or an import string like my_package.nets:make_model",
        "data": f"one of {', '.join(DATA)}, a folder, a .npz file, or an import string like my_package.data:make_data",
        "loss": f"one of {', '.join(LOSSES)}, or an import string like my_package.losses:my_loss",
        "optimizer": f"one of {', '.join(OPTIMIZERS)}, or an import string like torch.optim:RMSprop",
        "lr_schedule": f"one of {', '.join(SCHEDULES)}, or an import string like my_package.schedules:my_schedule",
        "device": "auto, auto:N, auto:all, or one or several of cpu, cuda, cuda:N and cuda:N-M with commas",
        "output_device": "cpu, cuda or cuda:N, or none",
        "rdzv_endpoint": "HOST:PORT, or none",
    }
    return special.get(field) or field_types.allowed(_hint(field))


def choices(field: str) -> tuple[str, ...]:
    """The words that `field` allows, where it allows only some."""
    return field_types.choices(_hint(field))


def _hint(field: str) -> Any:
    return _hints()[field]


@cache
def _hints() -> dict[str, Any]:
    """The type of each field. Reading them takes as long as the rest of this module, and a list of runs needs none."""
    return get_type_hints(RunConfig, include_extras=True)


def _allowed_with_limit(field: str, value: Any) -> str:
    """`allowed`, with the upper limit where `value`, which was refused, is over one that `allowed` does not name."""
    words, hint = allowed(field), _hint(field)
    if not field_types.is_number(hint) or not field_types.reads_as_number(str(value)):
        return words
    most = field_types.upper_limit(hint) or sys.float_info.max
    if float(str(value)) < most:
        return words
    # A field without a limit of its own ends where the floats do.
    in_words = re.sub(r"of (\d+) or more", rf"from \1 to {most:,}", words)
    return f"{words}, up to {most}" if in_words == words and isinstance(most, float) else in_words


def _quotes(field: str, value: Any) -> str:
    """What to write where a file has quotes around what is no text, or none around text: shown without them the value looks right."""
    if not isinstance(value, str):
        return f' Text is in quotes: {field} = "{written(value)}".' if field in ("name", "note") and isinstance(value, int | float) else ""
    try:
        meant = check_field(field, value, from_text=True)
    except ConfigError:
        return ""
    return "" if isinstance(meant, str) else f" In quotes it is text; write {field} = {written(meant)}."


def written(value: Any) -> str:
    """A value as a file or a command line has it, without the quotes of text."""
    return NONE if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _not_allowed(field: str, value: Any, how: str = "") -> ConfigError:
    shown = clean(written(value))
    if choices(field):
        how = (precision_meant(str(value)) if field == "precision" else "") or nearest(str(value), choices(field))
    return ConfigError(f"{field}: {shown!r} is not allowed; it must be {_allowed_with_limit(field, value)}.{how}")


def _check_string(field: str, value: str) -> None:
    if clean(value) != value:
        what = "holds control characters" if is_utf8(value) else "is not UTF-8"
        raise ConfigError(f"{field}: {clean(value)!r} {what}; it must be {allowed(field)}.")
    built_in = BUILT_IN_WORDS.get(field, (value,))
    if value not in built_in and not is_import_string(value):
        meant = import_string_meant(field, value, built_in) or nearest(value, built_in)
        raise ConfigError(f"{field}: {value!r} is not known; it must be {allowed(field)}.{meant}")
    if field in ("data", "weights", "on_end") and not value.strip():
        raise _not_allowed(field, value)
    if field == "device":
        parse_device(value)
    if field == "output_device" and not _DEVICE.fullmatch(value):
        raise _not_allowed(field, value)
    if field == "rdzv_endpoint" and not _is_endpoint(value):
        raise _not_allowed(field, value)
    if field == "nnodes" and not 1 <= machines(value)[0] <= machines(value)[1]:
        raise _not_allowed(field, value)


def _is_endpoint(value: str) -> bool:
    host, _, port = value.rpartition(":")
    return bool(re.fullmatch(r"[^\s:]+", host) and re.fullmatch(r"[0-9]{1,5}", port)) and 1 <= int(port) <= 65535


def machines(nnodes: str) -> tuple[int, int]:
    """The least and the greatest number of machines that an `nnodes` value allows."""
    least, _, most = nnodes.partition(":")
    return int(least), int(most or least)


def own_functions(config: RunConfig) -> dict[str, str]:
    """The import strings of a configuration, by their fields; before its data was found, one may be the name of a folder."""
    return {field: value for field in (*BUILT_IN_WORDS, "data") if is_import_string(value := getattr(config, field))}


def parse_device(spec: str) -> tuple[str, ...] | int | None:
    """The devices that a `device` value names.

    Returns:
        Their names ("cpu", "cuda:1"); or, for `auto:N`, how many to choose; or `None` for `auto:all`.

    Raises:
        ConfigError: it is no device value.
    """
    if spec == "auto":
        return 1
    if spec == "auto:all":
        return None
    if match := re.fullmatch(r"auto:([1-9][0-9]{0,3})", spec):
        return int(match[1])
    names = _names(spec)
    if not all(_DEVICE.fullmatch(name) for name in names):
        meant = f" Did you mean '{devices}'?" if (devices := _devices_meant(spec)) else nearest(spec, ("auto", "cpu", "cuda"))
        raise ConfigError(f"device: {clean(spec)!r} is not allowed; it must be {allowed('device')}.{meant}")
    return tuple(_cuda_name(name) for name in names)


def _devices_meant(spec: str) -> str:
    """The devices that other programs' words for them name: `gpu`, a bare number, `cuda1`, a range from its end; empty where it is none of
    these."""
    words = [word for word in re.split(r"[\s,;+]+", spec.lower()) if word]
    names = ",".join(re.sub(r"(?:gpus?|cuda)?:?(\d+)", r"cuda:\1", word, count=1) if word != "gpu" else "cuda" for word in words)
    names = re.sub(r":(\d+)-(\d+)", lambda ends: ":{}-{}".format(*sorted(map(int, ends.groups()))), names)
    return names if all(_DEVICE.fullmatch(name) for name in _names(names)) else ""


def _names(spec: str) -> list[str]:
    """What stands between commas, each device of a range by itself."""
    names = [name.strip() for name in spec.split(",")]
    return [device for name in names for device in expanded(name) or [name]]


def _without_ranges(spec: str) -> str:
    return ",".join(_names(spec)) if "-" in spec else spec


def _cuda_name(name: str) -> str:
    return "cuda:0" if name == "cuda" else name


def _check_together(config: RunConfig) -> None:
    """What two fields forbid each other.

    Raises:
        ConfigError: they do.
    """
    _check_devices(config)
    _check_machines(config)
    _check_image_size(config)
    if config.momentum and config.optimizer in WITHOUT_MOMENTUM:
        raise ConfigError(f"momentum: {config.momentum} is for the optimizer sgd; with {config.optimizer} it must be 0.")
    if config.nesterov and not config.momentum:
        raise ConfigError("nesterov: true needs a momentum above 0; set momentum, or leave nesterov out.")
    if config.warmup_steps and config.lr_schedule == "triangle":
        rises = "does not go with lr_schedule triangle, which rises by itself"
        raise ConfigError(f"warmup_steps: {config.warmup_steps} {rises}; it must be 0.")
    if config.label_smoothing and config.loss != "cross_entropy":
        raise ConfigError(f"label_smoothing: {config.label_smoothing} is for the loss cross_entropy; with {config.loss} it must be 0.")
    if config.target_accuracy is not None and config.loss == "mse":
        raise ConfigError(f"target_accuracy: {config.target_accuracy} is of answers that are right or wrong; with mse it must be none.")


def _check_image_size(config: RunConfig) -> None:
    """Raises: ConfigError: images of another size than CIFAR-10's are asked for where there are none, or where nothing takes them."""
    size = config.image_size
    if size == DEFAULTS.image_size:
        return
    if config.data in DATA:
        raise ConfigError(
            f"image_size: {size} is for a folder of images, and data is {config.data}; name a folder, or leave image_size out."
        )
    if config.model in MODELS and config.model not in OF_ANY_SIZE:
        takes = f"is not what the model {config.model} takes, which is {DEFAULTS.image_size}"
        raise ConfigError(f"image_size: {size} {takes}; {', '.join(OF_ANY_SIZE)} and models of your own take others.")


def _check_machines(config: RunConfig) -> None:
    """Raises: ConfigError: what is said of several machines does not go together."""
    several = machines(config.nnodes)[1] > 1
    if several and config.rdzv_endpoint is None:
        raise ConfigError(f"nnodes: {config.nnodes!r} needs rdzv_endpoint=HOST:PORT, the same on each machine; HOST is one of them.")
    if several and config.strategy != "ddp":
        raise ConfigError(f"nnodes: {config.nnodes!r} needs the strategy ddp, and strategy is {config.strategy}.")
    if config.rdzv_endpoint is not None and not several:
        endpoint = config.rdzv_endpoint
        raise ConfigError(
            f"rdzv_endpoint: {endpoint!r} is for several machines, and nnodes is {config.nnodes}; set nnodes, or leave it out."
        )


def _check_devices(config: RunConfig) -> None:
    """Raises: ConfigError: the devices do not fit the strategy, as far as that can be said without looking at the machine."""
    devices = parse_device(config.device)
    named = devices if isinstance(devices, tuple) else ()
    count = len(named) or devices
    if config.strategy == "single" and isinstance(count, int) and count > 1:
        raise ConfigError(
            f"strategy: single trains on one device, and device {short(config.device)!r} names {count}; use split, or name one."
        )
    if takes := limit(config.strategy, named):
        raise ConfigError(f"strategy: {takes}, and device is {short(config.device)!r}; use split.")
    if config.strategy == "dp" and config.compile:
        raise ConfigError("compile: true does not go with the strategy dp, which copies the model in each step; use split.")
    if config.output_device is None:
        return
    if named and config.output_device not in named:
        raise ConfigError(f"output_device: {config.output_device!r} is not one of the run's devices ({in_words(named)}).")
    if config.strategy in ("split", "ddp") or (config.strategy == "auto" and count != 1):
        raise ConfigError(f"output_device: {config.output_device!r} is where dp gathers the outputs; use strategy dp, or leave it out.")

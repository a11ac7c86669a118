"""What stands beside the launcher's further rows."""

from __future__ import annotations

from tuitrain.config import DATA, MODELS, OPTIMIZERS, WITHOUT_MOMENTUM, RunConfig
from tuitrain.import_strings import TORCHS
from tuitrain.tui.launch.hints import Hint

_MODELS = {
    **{"seed-cnn": "three convolutions", "linear": "one layer, for random data", "rnn": "reads images row by row"},
    **{"transformer": "reads images row by row", "resnet18": "torchvision's, for images", "speedrun": "that of speedrun-94"},
}
_SCHEDULES = {"none": "the rate stays as it is", "cosine": "falls to 0 at the end", "triangle": "rises for 23 % of the steps, then falls"}
_LOSSES = {"cross_entropy": "of scores and class numbers", "nll": "for a model with log_softmax", "mse": "for labels that are numbers"}
_AUGMENTS = {"none": "images as they are", "crop-flip": "cropped and mirrored at random", "flip-shift": "mirrored in turn, and shifted"}


def further_hint(field: str, config: RunConfig) -> Hint:
    """What the value of one of the further rows means, with the other values."""
    if field in ("momentum", "nesterov"):
        return _of_sgd(field, config)
    if field == "model":
        return Hint(_MODELS.get(config.model, "your own"))
    if field == "optimizer":
        torchs = config.optimizer in OPTIMIZERS or config.optimizer.startswith(TORCHS)
        return Hint("torch's own" if torchs else "your own")
    if field == "lr_schedule":
        return Hint(_SCHEDULES.get(config.lr_schedule, "your own"))
    if field == "max_grad_norm":
        return Hint("none: gradients as they are" if config.max_grad_norm is None else "longer gradients are scaled down")
    if field == "warmup_steps":
        rises = config.lr_schedule == "triangle"
        return Hint("triangle rises by itself" if rises else "steps in which the rate rises", idle=rises)
    if field == "augment":
        return Hint(_AUGMENTS[config.augment])
    if field == "loss":
        return Hint(_LOSSES.get(config.loss, "your own"))
    if field == "label_smoothing":
        without = config.loss != "cross_entropy"
        return Hint("for cross_entropy only" if without else "of each label, for all classes", idle=without)
    if field == "image_size":
        without = config.data in DATA
        return Hint("of images of your own only" if without else "pixels in height and width", idle=without)
    if field == "dropout":
        without = config.model in MODELS and config.model not in ("rnn", "transformer")
        return Hint("of rnn and transformer only" if without else "", idle=without)
    if field == "target_accuracy":
        return Hint("none: no clock" if config.target_accuracy is None else "a clock runs until it is reached")
    if field == "weights":
        return Hint("none: as the seed draws them" if config.weights is None else "what of the file fits the model")
    texts = {
        "weight_decay": "as torch has it",
        "shuffle": "another order in each epoch" if config.shuffle else "the order is fixed",
        "compile": "up to a minute before the first step" if config.compile else "",
        "deterministic": "the same numbers each time" if config.deterministic else "whatever cuDNN finds fastest",
        "checkpoint_every_minutes": "minutes, and at the end of an epoch",
        "keep_checkpoints": "checkpoints, and the best one",
        "on_end": "a shell command, at the run's end",
    }
    return Hint(texts.get(field, ""))


def _of_sgd(field: str, config: RunConfig) -> Hint:
    if config.optimizer in WITHOUT_MOMENTUM:
        return Hint("for sgd only", idle=True)
    if config.optimizer not in OPTIMIZERS and field == "momentum":
        return Hint("where your optimizer takes one")
    return Hint("for a momentum above 0", idle=True) if field == "nesterov" and not config.momentum else Hint()

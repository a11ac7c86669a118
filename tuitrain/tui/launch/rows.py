"""The launcher's rows: their labels, what is offered in them, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tuitrain.config import DEFAULTS, MODELS, OF_ANY_SIZE, WITHOUT_MOMENTUM, written


class Field(msgspec.Struct, frozen=True):
    """One row: the configuration's field and its label."""

    name: str
    label: str


FIELDS = (
    Field("recipe", "recipe"),
    Field("data", "data"),
    Field("device", "device"),
    Field("strategy", "strategy"),
    Field("epochs", "epochs"),
    Field("max_steps", "max steps"),
    Field("batch_size", "batch size"),
    Field("lr", "learning rate"),
    Field("seed", "seed"),
    Field("precision", "precision"),
    Field("name", "name"),
)
FURTHER = (
    Field("model", "network"),
    Field("optimizer", "optimizer"),
    Field("momentum", "momentum"),
    Field("nesterov", "nesterov"),
    Field("weight_decay", "weight decay"),
    Field("max_grad_norm", "clip norm"),
    Field("lr_schedule", "schedule"),
    Field("warmup_steps", "warm-up"),
    Field("shuffle", "shuffle"),
    Field("image_size", "image size"),
    Field("augment", "augment"),
    Field("loss", "loss"),
    Field("label_smoothing", "smooth labels"),
    Field("dropout", "dropout"),
    Field("weights", "weights"),
    Field("target_accuracy", "target"),
    Field("compile", "compile"),
    Field("deterministic", "deterministic"),
    Field("checkpoint_every_minutes", "save every"),
    Field("keep_checkpoints", "keep"),
    Field("note", "note"),
    Field("on_end", "on end"),
)
"""Rows that show when they are asked for."""
GO_WITH: Mapping[str, tuple[Callable[[str], bool], Mapping[str, str]]] = {
    "model": (lambda choice: choice in OF_ANY_SIZE or choice not in MODELS, {"image_size": written(DEFAULTS.image_size)}),
    "optimizer": (lambda choice: choice not in WITHOUT_MOMENTUM, {"momentum": "0", "nesterov": "false"}),
    "lr_schedule": (lambda choice: choice != "triangle", {"warmup_steps": "0"}),
    "loss": (lambda choice: choice == "cross_entropy", {"label_smoothing": "0"}),
}
"""By a row: with which of its choices other rows may have a value, and what those have with all others."""

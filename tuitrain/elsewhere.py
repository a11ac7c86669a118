"""What other programs call commands and the fields of a configuration, and what they have such for that is done in another way here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_COMMANDS = {
    **dict.fromkeys(("ls", "list", "ps", "queue"), "runs"),
    **dict.fromkeys(("rm", "remove", "prune", "clean"), "delete"),
    **dict.fromkeys(("train", "start", "fit"), "run"),
    **dict.fromkeys(("watch", "log", "logs", "tail"), "attach"),
    **dict.fromkeys(("kill", "cancel"), "stop"),
    **dict.fromkeys(("continue", "restart"), "resume"),
    **dict.fromkeys(("status", "info"), "show"),
    **dict.fromkeys(("download", "fetch"), "run seed-cnn --data cifar10"),
    **{"devices": "gpus", "models": "recipes", "help": "--help", "version": "--version"},
}
"""Commands by what other programs call them."""
_GPUS_LIVE = "The app shows the GPUs live: `tuitrain`, and g there."
_DONE_OTHERWISE = {
    **dict.fromkeys(("top", "monitor", "smi", "nvidia-smi"), _GPUS_LIVE),
    **dict.fromkeys(("app", "ui", "tui", "gui"), "`tuitrain` alone opens the app."),
    "rename": "The app does so: `tuitrain`, r for the runs, and e on one.",
    **dict.fromkeys(("compare", "diff"), "The app does so: `tuitrain`, r for the runs, space on some, and v."),
    **dict.fromkeys(("plot", "curve"), "The app draws the curve of a run: `tuitrain`, r for the runs, and Enter on one."),
    "tensorboard": "`tuitrain show RUN` names the folder of a run, which `tensorboard --logdir FOLDER` reads.",
    **dict.fromkeys(("eval", "evaluate", "test", "validate"), "A run evaluates after each epoch; `tuitrain show RUN` tells what it found."),
    **dict.fromkeys(
        ("predict", "infer", "deploy"), "`tuitrain export RUN --format pt -o best.pt` gives a script of yours the weights of a run."
    ),
    **dict.fromkeys(("sweep", "tune"), "The shell does so: `for lr in 0.03 0.01; do tuitrain run seed-cnn --queue --set lr=$lr; done`."),
    **dict.fromkeys(("config", "configure", "settings"), "`tuitrain run --help` lists each field, and `tuitrain show RUN` what a run had."),
    **dict.fromkeys(("data", "datasets"), "`tuitrain run --help` says what --data takes."),
}
"""What other programs have commands for, and how it is done here."""
_LIVE = {
    "gpus": _GPUS_LIVE,
    "runs": "The app shows them live: `tuitrain`, and r there.",
    "show": "A live run is followed by `tuitrain attach RUN`.",
}
"""How what some commands print once is seen as it goes on."""
_FOLLOWING = ("watch", "w", "loop", "l", "interval", "i", "follow", "f", "live")
"""Options with which other programs do so."""
_ONE_RUN = "It lists them all; `tuitrain show RUN` tells of one, and / in the app's list finds some."
_CHOOSING = ("limit", "n", "last", "sort", "filter", "state", "name")
"""Options with which other programs list some of what there is."""

CALLED_ELSEWHERE = {
    **{"learning_rate": "lr", "bs": "batch_size", "wd": "weight_decay", "decay": "weight_decay", "random_seed": "seed"},
    **dict.fromkeys(("clip", "grad_clip", "gradient_clip_val", "clip_grad_norm", "max_norm"), "max_grad_norm"),
    **dict.fromkeys(("amp", "dtype", "mixed_precision"), "precision"),
    **dict.fromkeys(("net", "network", "arch"), "model"),
    **{"gpu": "device", "gpus": "device", "pretrained": "weights", "criterion": "loss"},
    **{"optim": "optimizer", "scheduler": "lr_schedule", "lr_scheduler": "lr_schedule"},
    **dict.fromkeys(("log_interval", "log_freq", "print_freq"), "log_every_steps"),
    **{"save_every": "checkpoint_every_steps", "save_freq": "checkpoint_every_steps", "torch_compile": "compile"},
    **dict.fromkeys(("num_gpus", "n_gpus", "accelerator"), "device"),
    **dict.fromkeys(("iters", "iterations"), "max_steps"),
    **dict.fromkeys(("img_size", "imgsz", "resolution", "input_size"), "image_size"),
    **dict.fromkeys(("warmup", "warmup_epochs", "warmup_iters"), "warmup_steps"),
    **dict.fromkeys(("aug", "augmentation", "augmentations"), "augment"),
    **dict.fromkeys(("ema", "swa"), "averaging"),
    **dict.fromkeys(("root", "train_dir"), "data"),
    **dict.fromkeys(("experiment", "project", "tag"), "name"),
    **{"num_nodes": "nnodes", "master_addr": "rdzv_endpoint", "master_port": "rdzv_endpoint"},
}
"""Fields by what other programs call them, where that is not alike enough to be guessed."""
_ACCUMULATING = ("accumulate_grad_batches", "gradient_accumulation_steps", "accumulation_steps", "accumulate_steps", "grad_accum")
BY_ITS_VALUE = {
    **{"cpu": "device=cpu", "no_cuda": "device=cpu", "cuda": "device=cuda"},
    **{"ddp": "strategy=ddp", "distributed": "strategy=ddp", "dp": "strategy=dp", "data_parallel": "strategy=dp"},
    **{"bf16": "precision=bf16", "bfloat16": "precision=bf16", "tf32": "precision=tf32", "fp64": "precision=fp64"},
    "no_shuffle": "shuffle=false",
}
"""Fields with their values by what other programs have an option alone for."""
_OWN_SCHEDULE = "A schedule of your own does so: --set lr_schedule=MODULE:NAME."
_OWN_OPTIMIZER = "An optimizer of your own does so: --set optimizer=MODULE:NAME."
_OTHERWISE = {
    **dict.fromkeys(
        _ACCUMULATING, "A batch is taken in parts where a device is named several times, as in device=cuda:0,cuda:0 with strategy=split."
    ),
    **dict.fromkeys(
        ("workers", "num_workers"), "Samples that are read anew in each epoch are read by a process for each core but one, 16 at most."
    ),
    **dict.fromkeys(
        ("patience", "early_stopping", "early_stop"),
        "The best checkpoint is kept whatever comes after it; `tuitrain stop RUN`, or x in the app, ends a run before its last epoch.",
    ),
    **dict.fromkeys(
        ("val_split", "val_size", "test_split", "test_size"),
        "Of a folder or a file of arrays that has no test data, a fifth is held out to test with.",
    ),
    **dict.fromkeys(("val_interval", "eval_interval", "eval_every"), "A run evaluates after each epoch and at its end."),
    **dict.fromkeys(
        ("wandb", "wandb_project", "logger", "log_dir", "logdir", "tensorboard"),
        "The folder of each run, which `tuitrain show RUN` names, has files for TensorBoard.",
    ),
    **dict.fromkeys(
        ("resume", "resume_from", "checkpoint", "ckpt", "ckpt_path"),
        "`tuitrain resume RUN` goes on with a run; a new one begins with the weights of a file by --set weights=FILE.",
    ),
    **dict.fromkeys(("output", "out", "output_dir", "out_dir", "save_dir"), "--runs-dir DIR says where the folders of the runs are."),
    "num_classes": "The data says how many classes there are.",
    "drop_last": "No sample is dropped: the last batch of an epoch has those that are left.",
    **dict.fromkeys(
        ("nproc_per_node", "world_size"), "There are as many processes as devices: --device cuda:0-3 --strategy ddp trains with four."
    ),
    "fsdp": "Each device holds the whole network; ddp, dp and split share the batch.",
    **dict.fromkeys(("gamma", "step_size", "lr_step_size", "milestones", "min_lr", "eta_min"), _OWN_SCHEDULE),
    **dict.fromkeys(("betas", "eps", "amsgrad"), _OWN_OPTIMIZER),
    **dict.fromkeys(("mixup", "cutmix", "transform", "transforms"), "A torch Dataset of your own does so: --data MODULE:NAME."),
    **dict.fromkeys(("profile", "profiler"), "The app splits a step into its phases: i on a run."),
    **{"dry_run": "--max-steps 1 trains one step.", "quiet": "--detach prints the run's id alone."},
}
"""What other programs have a field for, and how it is done here."""

_PRECISIONS = {
    **dict.fromkeys(("bfloat16", "bf16_mixed"), "bf16"),
    **dict.fromkeys(("float32", "float", "32", "full"), "fp32"),
    **dict.fromkeys(("float64", "double", "64"), "fp64"),
}
"""Precisions by what other programs call them."""
_HALVES = ("fp16", "float16", "half", "16", "16_mixed", "amp", "mixed")
"""Those of 16 bits that are not here."""
_NO_HALVES = " Of 16 bits there is precision=bf16, in which no loss has to be scaled."


def command_meant(words: Sequence[str], commands: Collection[str], recipes: Collection[str]) -> str:
    """The command that the first of `words` stands for, as a recipe or by what other programs call it, or how that is done here, as a
    further sentence; empty where nothing is known."""
    first = words[0]
    if how := _DONE_OTHERWISE.get(first):
        return f" {how}"
    meant = f"run {first}" if first in recipes or first.endswith(".toml") else _COMMANDS.get(first)
    if meant == "--help" and words[1:2] and words[1] in commands:
        meant = f"{words[1]} --help"
    return f" Did you mean {meant!r}?" if meant else ""


def shown_otherwise(command: str, asked: str) -> str:
    """How what a command prints once is seen as it goes on, or in part, as a further sentence, where an option or a word asks for that."""
    if command == "runs" and (not asked.startswith("-") or asked.lstrip("-") in _CHOOSING):
        return f" {_ONE_RUN}"
    return f" {_LIVE[command]}" if command in _LIVE and asked.lstrip("-") in _FOLLOWING else ""


def called_elsewhere(word: str) -> str | None:
    """The field that other programs call `word`, with or without the dashes of an option."""
    return CALLED_ELSEWHERE.get(_as_field(word))


def done_otherwise(word: str) -> str:
    """How what other programs have a field `word` for is done here, as a further sentence; empty where nothing is known."""
    word = _as_field(word)
    if word in _HALVES:
        return _NO_HALVES
    if value := BY_ITS_VALUE.get(word):
        return f" It is the value of a field: --set {value}."
    return f" {how}" if (how := _OTHERWISE.get(word)) else ""


def precision_meant(word: str) -> str:
    """The precision that other programs call `word`, as a further sentence; empty where none is known."""
    if (word := _as_field(word)) in _HALVES:
        return _NO_HALVES
    return f" Did you mean {_PRECISIONS[word]!r}?" if word in _PRECISIONS else ""


def _as_field(word: str) -> str:
    return word.lstrip("-").replace("-", "_").casefold()

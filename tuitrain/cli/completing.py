"""What the shell's Tab offers for an argument or an option; click asks where the shell was told to complete `tuitrain`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from pathlib import Path

    from tuitrain.runs.summary import RunSummary

Offer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def run_ids(fits: Callable[[RunSummary], bool] = lambda run: True) -> Offer:
    """The ids of the runs that the command can be about, newest first, and `last` where that is one of them."""

    def offer(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
        from tuitrain.config import ConfigError
        from tuitrain.runs import catalogue

        try:
            runs = catalogue.list_runs(_runs_dir(ctx))
        except ConfigError:  # whoever runs the command is told
            return []
        fitting = [run for run in runs if fits(run)]
        items = [CompletionItem(run.run, help=" · ".join(filter(None, (run.state_words, run.name)))) for run in fitting]
        if fitting and fitting[0] is runs[0]:
            items.insert(0, CompletionItem("last", help=f"the newest run, {runs[0].run}"))
        return [item for item in items if item.value.startswith(typed)]

    return offer


def devices(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """Those without a number: a shell takes a name with a colon for two words."""
    return _beginning(("auto", "cpu", "cuda"), typed)


def choices(field: str) -> Offer:
    """What a field of the configuration may be."""

    def offer(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
        from tuitrain import config

        return _beginning(config.choices(field), typed)

    return offer


def recipe(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """A built-in one, else a file."""
    from tuitrain.config import RECIPES

    return _beginning(RECIPES, typed) or [CompletionItem(typed, type="file")]


def data(ctx: click.Context, param: click.Parameter, typed: str) -> list[CompletionItem]:
    """A built-in data set, else a folder or a file."""
    from tuitrain.config import DATA

    return _beginning(DATA, typed) or [CompletionItem(typed, type="file")]


def _beginning(offered: Sequence[str], typed: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in offered if word.startswith(typed)]


def _runs_dir(ctx: click.Context) -> Path:
    """Where the runs are that the line on which somebody types is about; its commands have not been called."""
    from tuitrain import paths

    if ctx.get_parameter_source("runs_dir") is ParameterSource.COMMANDLINE:
        return paths.runs_dir(ctx.params["runs_dir"])
    return paths.runs_dir(ctx.find_root().params.get("runs_dir"))

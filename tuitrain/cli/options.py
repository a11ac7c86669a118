"""What several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tuitrain.cli.output import write_utf8
from tuitrain.text import clean, nearest

FC = TypeVar("FC", bound=Callable[..., Any])

RUN_IS = "RUN is an id, the start of one, or last; `tuitrain runs` lists them."


class WholeNumber(click.IntRange):
    """Says what is allowed in words that people know."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number: int = super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not allowed; it must be a whole number of {self.min} or more.", param, ctx)
        return number


class OneOf(click.Choice):  # type: ignore[type-arg]  # click before 8.2 knows no argument
    """Says what is allowed as it is said of a field of the configuration."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value not in self.choices:
            words = f"it must be one of {', '.join(self.choices)}.{nearest(value, self.choices)}"
            self.fail(f"{clean(value)!r} is not allowed; {words}", param, ctx)
        return value


def json_flag(help_: str) -> Callable[[FC], FC]:
    """The option `--json`: what is for programs is UTF-8 in every locale."""

    def choose_encoding(ctx: click.Context, param: click.Parameter, as_json: bool) -> bool:
        if as_json:
            write_utf8()
        return as_json

    return click.option("--json", "as_json", is_flag=True, callback=choose_encoding, help=help_)


def runs_folder(ctx: click.Context, param: click.Parameter, option: str | None) -> Path:
    """The folder of the runs: `--runs-dir` of the command, of `tuitrain`, or where they are kept without one."""
    from tuitrain import paths

    return paths.runs_dir(ctx.obj if option is None else option)


RUNS_DIR_IS = "Where the runs are kept (or TUITRAIN_RUNS)."
runs_dir_option = click.option("--runs-dir", metavar="DIR", callback=runs_folder, help=RUNS_DIR_IS)
detach_option = click.option("--detach", is_flag=True, help="Train in the background, print the run's id and return.")
json_option = json_flag("JSON instead of text.")

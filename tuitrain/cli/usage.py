"""A mistake on the command line as a sentence: the thing, what is wrong, what is allowed."""

from __future__ import annotations

import re

import click

from tuitrain.text import clean, nearest

_LEFT_OVER = re.compile(r"Got unexpected extra arguments? \((.*)\)")


def sentence_of(error: click.ClickException) -> str:
    """What is wrong with the command line, on one line."""
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error)
    if isinstance(error, click.MissingParameter):
        return _missing(error)
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError) and error.ctx and (found := _LEFT_OVER.match(message)):
        takes = " ".join([error.ctx.command_path, *error.ctx.command.collect_usage_pieces(error.ctx)])
        return f"{clean(found[1])!r} is more than `{takes}` takes."
    return message


def _no_such_option(error: click.NoSuchOption) -> str:
    options = [param for param in error.ctx.command.get_params(error.ctx) if isinstance(param, click.Option)] if error.ctx else []
    names = [name for option in options for name in option.opts if name.startswith("--")]
    if "--set" in names and (field := _field(error.option_name)) and f"--{field.replace('_', '-')}" not in names:
        return f"{clean(error.option_name)}: there is no such option. It is a field: --set {field}=VALUE."
    hint = nearest(error.option_name, names) or f" It must be one of {', '.join(names)}."
    return f"{clean(error.option_name)}: there is no such option.{hint}"


def _field(option: str) -> str:
    """The field of the configuration that an option is called like; empty where there is none."""
    from tuitrain.config import FIELDS  # not for every command

    name = option.lstrip("-").replace("-", "_").lower()
    return name if name in FIELDS else ""


def _missing(error: click.MissingParameter) -> str:
    param = error.param
    if isinstance(param, click.Option) and isinstance(param.type, click.Choice):
        return f"{param.opts[0]} is missing; it must be one of {', '.join(param.type.choices)}."
    name = param.human_readable_name if param else ""
    if name == "RECIPE":
        from tuitrain.config import allowed  # not for every command

        return f"RECIPE is missing; it must be {allowed('recipe')}."
    if name in ("RUN", "RUN..."):
        return "RUN is missing; it must be an id, the start of one, or last; `tuitrain runs` lists them."
    return " ".join(error.format_message().split())

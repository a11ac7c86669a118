"""A mistake on the command line as a sentence: the thing, what is wrong, what is allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from tuitrain.cli.options import RUN_IS
from tuitrain.text import clean, nearest

_LEFT_OVER = re.compile(r"Got unexpected extra arguments? \((.*)\)")
_WITHOUT_ITS_VALUE = re.compile(r"Option '.*' requires an argument\.")


def sentence_of(error: click.ClickException) -> str:
    """What is wrong with the command line, on one line."""
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error)
    if isinstance(error, click.MissingParameter):
        return _missing(error)
    if isinstance(error, click.BadParameter) and isinstance(error.param, click.Option):
        return f"{error.param.opts[0]}: {' '.join(error.message.split())}"
    message = " ".join(error.format_message().split())
    if isinstance(error, click.BadOptionUsage) and _WITHOUT_ITS_VALUE.fullmatch(message):
        return _without_its_value(error.option_name)
    if isinstance(error, click.UsageError) and error.ctx and (found := _LEFT_OVER.match(message)):
        from tuitrain.elsewhere import shown_otherwise  # not for every command

        takes = " ".join([error.ctx.command_path, *error.ctx.command.collect_usage_pieces(error.ctx)])
        name, equals, _ = found[1].partition("=")
        is_field = equals and "--set" in _names(error.ctx.command, error.ctx) and (field := _field(name))
        hint = f" It is a field: --set {field}=VALUE." if is_field else shown_otherwise(error.ctx.command.name or "", found[1])
        return f"{clean(found[1])!r} is more than `{takes}` takes.{hint}"
    return message


def _no_such_option(error: click.NoSuchOption) -> str:
    names = _names(error.ctx.command, error.ctx) if error.ctx else []
    command = (error.ctx.command.name if error.ctx else None) or ""
    if command == "resume":
        from tuitrain.session.resume import kept  # not for every command

        if sentence := kept(_field(error.option_name)):
            return f"{clean(error.option_name)}: {sentence}"
    if "--set" in names and (field := _field(error.option_name)) and f"--{field.replace('_', '-')}" not in names:
        return f"{clean(error.option_name)}: there is no such option. It is a field: --set {field}=VALUE."
    if error.ctx and isinstance(error.ctx.command, click.Group) and (having := _commands_with(error.option_name, error.ctx)):
        return f"{error.option_name} stands behind the command that it is for, one of {', '.join(having)}."
    hint = _as_elsewhere(error.option_name, names, command) or nearest(error.option_name, names)
    hint = hint or f" It must be one of {', '.join(names)}."
    return f"{clean(error.option_name)}: there is no such option.{hint}"


def _as_elsewhere(option: str, names: Sequence[str], command: str) -> str:
    """What an option is called here that other programs call so, or how it is done, as a further sentence; empty where nothing is."""
    from tuitrain.elsewhere import called_elsewhere, done_otherwise, shown_otherwise  # not for every command

    if "--set" not in names:
        return shown_otherwise(command, option)
    field = called_elsewhere(option)
    if field is None:
        return done_otherwise(option)
    ours = f"--{field.replace('_', '-')}"
    return f" Did you mean {ours!r}?" if ours in names else f" It is the field {field}: --set {field}=VALUE."


def _commands_with(option: str, ctx: click.Context) -> list[str]:
    """The commands of a group that have an option."""
    assert isinstance(ctx.command, click.Group)
    commands = {name: ctx.command.get_command(ctx, name) for name in ctx.command.list_commands(ctx)}
    return [name for name, command in commands.items() if command is not None and option in _names(command, ctx)]


def _names(command: click.Command, ctx: click.Context) -> list[str]:
    """The long names of a command's options, as its help has them."""
    options = (param for param in command.get_params(ctx) if isinstance(param, click.Option) and not param.hidden)
    return [name for option in options for name in option.opts if name.startswith("--")]


def _without_its_value(option: str) -> str:
    if field := _field(option):
        from tuitrain.config import allowed  # not for every command

        return f"{option} needs a value; it must be {allowed(field)}."
    return f"{option} needs a value{'; it must be FIELD=VALUE, like --set lr=0.01' if option == '--set' else ''}."


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

        return f"RECIPE is missing; it must be {allowed('recipe')}. For a network alone, --set model=NETWORK stands in its place."
    if name in ("RUN", "RUN..."):
        return f"RUN is missing; it must be {RUN_IS.removeprefix('RUN is ')}"
    return " ".join(error.format_message().split())

"""All commands in one, and what their mistakes look like.

What only some commands need is imported inside them: `tuitrain --help` answers before torch or textual could load.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from tuitrain import signals
from tuitrain.cli.options import RUNS_DIR_IS
from tuitrain.cli.output import open_closed_streams, standard_output
from tuitrain.cli.usage import sentence_of
from tuitrain.exit_codes import INTERRUPTED, REFUSED
from tuitrain.python import crashes_to
from tuitrain.text import clean_lines, nearest

_MODULES = {
    **dict.fromkeys(("run", "resume", "_host", "_check", "_trial"), "training"),
    **dict.fromkeys(("runs", "show", "attach", "pause", "stop", "export", "delete"), "kept"),
    **dict.fromkeys(("gpus", "doctor", "bench", "recipes"), "machine"),
}
"""Where each command is, under its own name. Only the module of the one that is asked for is loaded: a list of runs does not wait for the
options of training."""
_SHOWN = [name for name in _MODULES if not name.startswith("_")]
"""The others tuitrain itself starts."""


def run_command() -> None:
    """Run what the command line says: every mistake of usage or configuration is one sentence on stderr and exit code 2.

    SIGTERM and SIGHUP, where a command does not listen to them itself, leave nothing half-written.
    """
    open_closed_streams()
    crashes_to("process", sys.stderr)
    with standard_output(), signals.raised():
        _run()


def _run() -> NoReturn:
    try:
        sys.exit(commands(standalone_mode=False))
    except click.ClickException as error:
        _refuse(sentence_of(error))
    except click.Abort:
        sys.exit(INTERRUPTED)
    except Exception as error:
        # `tuitrain --help` does without it, and what it needs.
        from tuitrain.config import ConfigError

        if not isinstance(error, ConfigError):
            raise
        _refuse(str(error))


def _refuse(sentence: str) -> NoReturn:
    if {"RANK", "SLURM_PROCID"} & os.environ.keys():
        _let_first_speak()
    print(f"tuitrain: {clean_lines(sentence)}", file=sys.stderr)
    sys.exit(REFUSED)


def _let_first_speak() -> None:
    """Where this is one of several ranks that a launcher started alike."""
    from tuitrain.config import ConfigError
    from tuitrain.session.launched import world_of
    from tuitrain.session.rank_words import let_first_speak

    with suppress(ConfigError):
        if (world := world_of(os.environ)) is not None:
            let_first_speak(world)


class _Commands(click.Group):
    """Says which command was meant when the name is wrong."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SHOWN)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        command: click.Command = getattr(import_module(f"tuitrain.cli.{_MODULES[cmd_name]}"), cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _MODULES:
            from tuitrain.config import RECIPES  # not for every command
            from tuitrain.elsewhere import command_meant

            hint = command_meant(args, _SHOWN, RECIPES) or nearest(args[0], _SHOWN)
            raise click.UsageError(f"there is no command {args[0]!r}; it must be one of {', '.join(_SHOWN)}.{hint}")
        return super().resolve_command(ctx, args)


_EPILOG = """\b
Tab completes commands, run ids and recipes, where ~/.bashrc has
  eval "$(_TUITRAIN_COMPLETE=bash_source tuitrain)"
zsh takes zsh_source there, and fish fish_source."""


@click.group(cls=_Commands, invoke_without_command=True, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tuitrain", prog_name="tuitrain")
@click.option("--runs-dir", metavar="DIR", help=RUNS_DIR_IS)
@click.pass_context
def commands(ctx: click.Context, runs_dir: str | None) -> int | None:
    """Train PyTorch models and watch the GPUs, in one terminal screen. Without a command: open the app."""
    ctx.obj = runs_dir
    if ctx.invoked_subcommand is None:
        from tuitrain import paths
        from tuitrain.cli.app import open_app

        return open_app(None, paths.runs_dir(runs_dir))
    return None

"""The commands that train: a new run, one that goes on, and the process of one in the background."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tuitrain.cli import completing
from tuitrain.cli.app import open_app
from tuitrain.cli.options import RUN_IS, detach_option, json_flag, runs_dir_option
from tuitrain.cli.output import printer
from tuitrain.cli.wiring import answer_trial, check_config, session_and_sampler
from tuitrain.exit_codes import REFUSED
from tuitrain.python import leave_at_once

if TYPE_CHECKING:
    from tuitrain.config import RunConfig
    from tuitrain.console.printers import Printer
    from tuitrain.runs.summary import RunSummary
    from tuitrain.session.launched import World
    from tuitrain.session.worker import Train


_STRATEGIES = completing.choices("strategy")


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `run` that are fields of the configuration."""
    options = [
        click.option(
            "--data",
            metavar="auto|cifar10|synthetic|random|PATH",
            shell_complete=completing.data,
            help="What to train on: a folder, a .npz file, or a function of your own, as my_package.data:make_data.",
        ),
        click.option(
            "--device",
            metavar="auto|auto:N|auto:all|cpu|cuda|cuda:N|LIST",
            shell_complete=completing.devices,
            help="Where to train: one device, or several, such as cpu,cpu or cuda:0-3.",
        ),
        click.option("--strategy", metavar="auto|single|dp|split|ddp", shell_complete=_STRATEGIES, help="How the devices share the work."),
        click.option("--epochs", metavar="N", help="How often to go through the training data."),
        click.option("--max-steps", metavar="N", help="End after this many steps."),
        click.option("--batch-size", metavar="N", help="The global batch."),
        click.option("--lr", metavar="X", help="Learning rate."),
        click.option("--seed", metavar="N", help="Where random numbers begin; the same seed gives the same losses."),
        click.option(
            "--precision",
            metavar="fp32|bf16|fp64|tf32",
            shell_complete=completing.choices("precision"),
            help="What kind of numbers to compute with.",
        ),
        click.option("--name", metavar="TEXT", help="What the run is called."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


class _WithFields(click.Command):
    """Its help ends with all fields."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each of them allows; only who asks for help waits for the configuration."""
        from tuitrain.config import FIELDS, allowed

        column = max(map(len, FIELDS)) + 4
        # Click's own list cuts names at their hyphens.
        lines = textwrap.TextWrapper(formatter.width, subsequent_indent=" " * column, break_on_hyphens=False)
        with formatter.section("Fields"):
            for field in FIELDS:
                formatter.write(f"{lines.fill(f'  {field:<{column - 2}}{allowed(field)}')}\n")


@click.command(cls=_WithFields)
@click.argument("recipe", required=False, shell_complete=completing.recipe)
@_run_options
@click.option("--set", "settings", metavar="FIELD=VALUE", multiple=True, help="Any field of the configuration; may be repeated.")
@runs_dir_option
@json_flag("One JSON event a line.")
@click.option("--tui", is_flag=True, help="Start the run inside the app.")
@detach_option
@click.option("--queue", is_flag=True, help="Train in the background when the devices are free, after the runs that were queued before.")
def run(
    recipe: str | None,
    settings: tuple[str, ...],
    runs_dir: Path,
    as_json: bool,
    tui: bool,
    detach: bool,
    queue: bool,
    **options: str | None,
) -> int:
    """Train RECIPE without the app. It is a built-in one, which `tuitrain recipes` lists, or a TOML file, and may be left out where
    --set model=NETWORK names what is trained."""
    if as_json and tui:
        raise click.UsageError("--json and --tui cannot go together: the app has the terminal to itself.")
    if detach and tui:
        raise click.UsageError("--detach and --tui cannot go together: a run in the background has no screen; `tuitrain attach` shows it.")
    if queue and tui:
        raise click.UsageError("--queue and --tui cannot go together: a queued run begins later; `tuitrain attach` shows it.")
    config = _configuration(recipe, settings, options)
    if queue and config.nnodes != "1":
        raise click.UsageError(
            f"nnodes: {config.nnodes!r} does not go with --queue, which waits for the devices of one machine; leave one out."
        )
    if _is_rank(os.environ):
        from tuitrain.session import launched

        world = launched.world_of(os.environ)
        if world is not None and (fitted := launched.fitted(config, world)) is not None:
            if tui or detach or queue:
                raise click.UsageError(f"--tui, --detach and --queue do not go with {world.launcher}: it has the processes in its hands.")
            _run_as_rank(world, fitted, runs_dir, as_json=as_json)
    if tui:
        return open_app(config, runs_dir, start_at_once=True, recipe=recipe)
    from tuitrain import console
    from tuitrain.session import detached

    detached.revive(runs_dir)
    if detach or queue:
        return console.detach(config, runs_dir, queue=queue, as_json=as_json)

    with session_and_sampler(runs_dir) as (session, _), printer(as_json=as_json) as shows:
        return console.follow(session, config, shows)


def _configuration(recipe: str | None, settings: Sequence[str], options: Mapping[str, str | None]) -> RunConfig:
    """The recipe with the options and the `--set` fields over it, in this order; without one, of the network that they name.

    Raises:
        click.UsageError: there is neither.
        ConfigError: they are wrong.
    """
    from tuitrain.config import with_changes
    from tuitrain.recipes import load_recipe, recipe_for

    changes = _changes(settings, options)
    recipe = changes.pop("recipe", recipe)
    if recipe is None and "model" not in changes:
        raise click.MissingParameter(param=next(param for param in run.params if param.name == "recipe"))
    config = recipe_for(changes["model"]) if recipe is None else load_recipe(recipe)
    return with_changes(config, changes, from_text=True)


def _changes(settings: Sequence[str], options: Mapping[str, str | None]) -> dict[str, str]:
    """The fields that the options and then `--set` name, each with its value."""
    changes: dict[str, str] = {field: value for field, value in options.items() if value is not None}
    for setting in settings:
        field, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set: {setting!r} is not allowed; it must be FIELD=VALUE, like --set lr=0.01.")
        changes[field.strip()] = value
    return changes


def _is_rank(environment: Mapping[str, str]) -> bool:
    """Whether a launcher of ranks may have started this process; `launched.world_of` knows."""
    return "WORLD_SIZE" in environment or "SLURM_PROCID" in environment


def _run_as_rank(world: World, config: RunConfig, runs_dir: Path, *, as_json: bool) -> NoReturn:
    """Train as one of the ranks that a launcher started, and end the process."""
    from tuitrain.console import follow
    from tuitrain.console.printers import Silent
    from tuitrain.engine.torch_first import torch_first
    from tuitrain.session import launched
    from tuitrain.session.in_time import in_time
    from tuitrain.session.rank_words import Words

    def load_train() -> Train:
        with torch_first():
            from tuitrain.engine.ranks.outside import train_as_rank

        return in_time(partial(train_as_rank, local_size=world.local_size), launched.END_SECONDS)

    launched.tell_torch(world, os.environ)
    earlier = launched.earlier_run(runs_dir, world)
    silent: AbstractContextManager[Printer] = nullcontext(Silent())
    with session_and_sampler(runs_dir, load_train) as (session, _), silent if world.rank else printer(as_json=as_json) as shows:
        words = Words(world, session)
        code = follow(session, config, shows, resume=earlier)
        words.close(code)
    # The interpreter's own end would wait for threads that wait for ranks.
    leave_at_once(code)


@click.command(epilog=RUN_IS)
@click.argument("run", metavar="RUN", shell_complete=completing.run_ids(lambda run: not run.live or run.state == "paused"))
@click.option("--device", metavar="LIST", shell_complete=completing.devices, help="Other devices than before.")
@click.option("--strategy", metavar="auto|single|dp|split|ddp", shell_complete=_STRATEGIES, help="Another strategy than before.")
@click.option("--epochs", metavar="N", help="How many in all, from the run's first step.")
@click.option("--max-steps", metavar="N", help="How many steps in all, from the run's first.")
# Whoever sets a field as with `run` hears from `plan` which ones a run keeps.
@click.option("--set", "settings", metavar="FIELD=VALUE", multiple=True, hidden=True)
@runs_dir_option
@json_flag("One JSON event a line.")
@click.option("--tui", is_flag=True, help="Go on inside the app.")
@detach_option
def resume(run: str, settings: tuple[str, ...], runs_dir: Path, as_json: bool, tui: bool, detach: bool, **options: str | None) -> int:
    """Go on with RUN from its newest checkpoint. In its own folder; a paused live one goes on where it is, a queued one waits again."""
    if tui and (as_json or detach):
        raise click.UsageError("--tui goes together with neither --json nor --detach: the app has the terminal to itself.")
    from tuitrain.runs import catalogue
    from tuitrain.session import detached
    from tuitrain.session.lines import commands as lines
    from tuitrain.session.resume import plan

    found = catalogue.find(runs_dir, run)
    changes = _changes(settings, options)
    if found.state == "paused" and not changes:
        went_on = lines.go_on(found)
        if tui:
            return open_app(None, runs_dir, attach=found.path)
        click.echo(went_on, err=as_json)
        return 0
    if found.left:
        return _wait_again(found, changes, as_json=as_json, tui=tui)
    detached.revive(runs_dir)
    config = plan(found, changes)
    if tui:
        return open_app(config, runs_dir, start_at_once=True, resume=found.path)
    from tuitrain import console

    if detach:
        return console.detach(config, runs_dir, resume=found.path, as_json=as_json)
    with session_and_sampler(runs_dir) as (session, _), printer(as_json=as_json) as shows:
        return console.follow(session, config, shows, resume=found.path)


def _wait_again(found: RunSummary, changes: Mapping[str, str], *, as_json: bool, tui: bool) -> int:
    """A queued run that nobody waits for is waited for again."""
    from tuitrain.session import detached

    if changes:
        raise click.UsageError(f"RUN: {found.run} is queued and has not begun; stop it, and queue it anew with other settings.")
    waits = detached.wait_again(found)
    if tui:
        return open_app(None, found.path.parent, attach=found.path)
    click.echo(waits, err=as_json)
    return 0


@click.command("_host", hidden=True)
def _host() -> int:
    """What `tuitrain.session.detached` starts."""
    from tuitrain.capture import Capture
    from tuitrain.session.hosted import Asker, HostedRun

    asker = Asker()
    request = asker.request()
    if request is None:
        return REFUSED
    folder = Path(os.fsdecode(request.runs_dir))
    with Capture() as capture, session_and_sampler(folder, waits=request.queue) as (session, _):
        return HostedRun(session, request, asker, capture.send_to).run()


@click.command("_trial", hidden=True)
def _trial() -> None:
    """What `tuitrain.session.preflight.trials` starts."""
    answer_trial()


@click.command("_check", hidden=True)
def _check() -> int:
    """What `tuitrain.session.detached` starts before a run waits in the queue."""
    from tuitrain.session.hosted import Asker, answer_check

    return answer_check(Asker(), check_config)

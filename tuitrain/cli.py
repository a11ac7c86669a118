"""The composition root: commands to a front end. It wires the rooms together and holds no logic of theirs.

Everything heavy is imported inside the command that needs it: `tuitrain --help` answers before torch or textual could load.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tuitrain import paths
from tuitrain.config import RECIPES, ConfigError, RunConfig, with_changes
from tuitrain.recipes import load_recipe, recipe_summary, recipe_text
from tuitrain.text import nearest

if TYPE_CHECKING:
    from tuitrain.devices.sampler import Sampler
    from tuitrain.events import Progress
    from tuitrain.session.worker import Train, WorkerSession

USAGE_ERROR = 2
JOIN_SECONDS = 30.0
FETCH_JOIN_SECONDS = 2.0
FIRST_SAMPLE_SECONDS = 3.0
BENCH_SECONDS = 300.0


def main() -> None:
    """The `tuitrain` command: every mistake of usage or configuration is one sentence on stderr and exit code 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale that has no "°" or "–" gets "?" for them, and not a traceback.
        sys.stdout.reconfigure(errors="replace")
    try:
        sys.exit(commands(standalone_mode=False))
    except ConfigError as error:
        _refuse(str(error))
    except click.ClickException as error:
        _refuse(error.format_message())
    except click.Abort:
        sys.exit(130)


def _refuse(sentence: str) -> None:
    print(f"tuitrain: {sentence}", file=sys.stderr)
    sys.exit(USAGE_ERROR)


class _Commands(click.Group):
    """Says which command was meant when the name is wrong."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            names = ", ".join(self.commands)
            raise click.UsageError(f"there is no command {args[0]!r}; it must be one of {names}.{nearest(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


runs_dir_option = click.option("--runs-dir", metavar="DIR", help="Where the runs are kept (or TUITRAIN_RUNS).")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tuitrain", prog_name="tuitrain")
@runs_dir_option
@click.pass_context
def commands(ctx: click.Context, runs_dir: str | None) -> int | None:
    """Train PyTorch models and watch the GPUs, in one terminal screen. Without a command: open the app."""
    ctx.obj = runs_dir
    if ctx.invoked_subcommand is None:
        return _open_app(load_recipe(RECIPES[0]), paths.runs_dir(runs_dir), start_at_once=False)
    return None


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `run` that are fields of the configuration."""
    options = [
        click.option("--data", metavar="auto|cifar10|synthetic|PATH", help="What to train on."),
        click.option(
            "--device", metavar="auto|auto:N|cpu|cuda:N|LIST", help="Where to train: one device, or several with commas, such as cpu,cpu."
        ),
        click.option("--strategy", metavar="auto|single|dp|split|ddp", help="How the devices share the work."),
        click.option("--epochs", metavar="N"),
        click.option("--max-steps", metavar="N", help="End after this many steps."),
        click.option("--batch-size", metavar="N", help="The global batch."),
        click.option("--lr", metavar="X", help="Learning rate."),
        click.option("--seed", metavar="N"),
        click.option("--precision", metavar="fp32|bf16|fp64"),
        click.option("--name", metavar="TEXT", help="What the run is called."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@commands.command()
@click.argument("recipe")
@_run_options
@click.option("--set", "settings", metavar="FIELD=VALUE", multiple=True, help="Any field of the configuration; may be repeated.")
@runs_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON event a line.")
@click.option("--tui", is_flag=True, help="Start the run inside the app.")
@click.pass_obj
def run(
    parent_runs_dir: str | None,
    /,
    recipe: str,
    settings: tuple[str, ...],
    runs_dir: str | None,
    as_json: bool,
    tui: bool,
    **options: str | None,
) -> int:
    """Train RECIPE (a built-in one or a TOML file) without the app."""
    if as_json and tui:
        raise click.UsageError("--json and --tui cannot go together: the app has the terminal to itself.")
    config = _configuration(recipe, settings, options)
    folder = paths.runs_dir(runs_dir or parent_runs_dir)
    if tui:
        return _open_app(config, folder, start_at_once=True)
    from tuitrain.console import follow, printer_for

    with session_and_sampler(folder) as (session, _):
        return follow(session, config, printer_for(json=as_json))


def _configuration(recipe: str, settings: Sequence[str], options: dict[str, str | None]) -> RunConfig:
    """The recipe with the options and the `--set` fields over it, in this order."""
    changes: dict[str, str] = {field: value for field, value in options.items() if value is not None}
    for setting in settings:
        field, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set: {setting!r} is not allowed; it must be FIELD=VALUE, like --set lr=0.01.")
        changes[field.strip()] = value
    config = load_recipe(changes.pop("recipe", recipe))
    return with_changes(config, changes, from_text=True)


@commands.command()
@runs_dir_option
@json_option
@click.pass_obj
def runs(parent_runs_dir: str | None, runs_dir: str | None, as_json: bool) -> None:
    """List the runs, newest first."""
    from tuitrain.runs import report

    click.echo(report.runs(paths.runs_dir(runs_dir or parent_runs_dir), as_json=as_json))


@commands.command()
@click.argument("run", metavar="RUN")
@runs_dir_option
@json_option
@click.pass_obj
def show(parent_runs_dir: str | None, run: str, runs_dir: str | None, as_json: bool) -> None:
    """Show one RUN: its configuration, state, last metrics and checkpoints. RUN is an id, the start of one, or `last`."""
    from tuitrain.runs import report

    click.echo(report.show(paths.runs_dir(runs_dir or parent_runs_dir), run, as_json=as_json))


@commands.command()
@click.argument("run", metavar="RUN")
@click.option("--yes", is_flag=True, help="Do not ask.")
@runs_dir_option
@click.pass_obj
def delete(parent_runs_dir: str | None, run: str, yes: bool, runs_dir: str | None) -> None:
    """Delete a RUN with its checkpoints and metrics."""
    from tuitrain.runs import catalogue

    folder = paths.runs_dir(runs_dir or parent_runs_dir)
    found = catalogue.find(folder, run)
    if not yes and not click.confirm(f"Delete {found.run} with its checkpoints and metrics?"):
        raise click.Abort
    catalogue.delete(folder, found.run)
    click.echo(f"deleted {found.run}")


@commands.command()
@click.argument("run", metavar="RUN")
@click.option("--format", "format_", required=True, type=click.Choice(["csv", "json", "pt", "py"]))
@click.option("-o", "--output", metavar="FILE", help="Where to write it; stdout without.")
@runs_dir_option
@click.pass_obj
def export(parent_runs_dir: str | None, run: str, format_: str, output: str | None, runs_dir: str | None) -> None:
    """Write a RUN as csv or json (its metrics), pt (its weights) or py (a plain PyTorch script that does the same)."""
    from tuitrain.runs import catalogue
    from tuitrain.runs.export import export_metrics, write_text

    found = catalogue.find(paths.runs_dir(runs_dir or parent_runs_dir), run)
    if format_ in ("csv", "json"):
        export_metrics(found.path, "csv" if format_ == "csv" else "json", output)
        return
    if format_ == "pt" and output is None:
        raise click.UsageError("--format pt needs -o FILE: weights are not text.")
    from tuitrain.engine.export import export_weights, script
    from tuitrain.runs.status import read_status

    if output is not None and format_ == "pt":
        click.echo(f"wrote the weights of {export_weights(found.path, Path(output)).name} to {output}")
        return
    started = read_status(found.path).as_started()
    write_text(script(catalogue.config_of(found), started, catalogue.environment_of(found).get("threads")), output)


@commands.command()
@json_option
def gpus(as_json: bool) -> None:
    """One sample of every device, then exit."""
    from tuitrain.devices import report

    # The numbers are those that a run sees.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    snapshot = report.one_sample()
    click.echo(report.as_json(snapshot) if as_json else report.as_text(snapshot, shutil.get_terminal_size().columns))


@commands.command()
@runs_dir_option
@json_option
@click.option("--all-reduce", is_flag=True, help="Also let two GPUs (or two processes on the CPU) add numbers up, 30 s at most.")
@click.pass_obj
def doctor(parent_runs_dir: str | None, runs_dir: str | None, as_json: bool, all_reduce: bool) -> None:
    """Say what is wrong with this machine's GPUs, and the command that mends it."""
    from tuitrain.devices.doctor import command

    folder = paths.runs_dir(runs_dir or parent_runs_dir)
    click.echo(command.run(folder, as_json=as_json, all_reduce=all_reduce), nl=False)


@commands.command()
@click.option("--device", metavar="LIST", default="auto", help="Between which devices to share the work: names with commas, or auto.")
@click.option("--steps", metavar="N", type=click.IntRange(min=1), default=100, show_default=True, help="How many are timed in each trial.")
@json_option
def bench(device: str, steps: int, as_json: bool) -> int:
    """Time seed-cnn on the CPU and on each GPU, and the strategies side by side."""
    from tuitrain.devices import report
    from tuitrain.devices.inventory import free_cuda_devices
    from tuitrain.session.preflight import bench as benches
    from tuitrain.session.preflight.trials import ProcessTrials

    config = with_changes(load_recipe(RECIPES[0]), {"device": device}, from_text=True)
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    trials = ProcessTrials(steps=steps, seconds=BENCH_SECONDS, free=free_cuda_devices(report.one_sample()))
    try:
        found = benches.bench(trials, config, steps, benches.progress)
    finally:
        benches.progress("")
    click.echo(benches.as_json(found) if as_json else benches.as_text(found, shutil.get_terminal_size().columns))
    return int(found.failed)


@commands.command()
@json_option
def recipes(as_json: bool) -> None:
    """List the built-in recipes."""
    summaries = {name: recipe_summary(recipe_text(name)) for name in RECIPES}
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode([{"recipe": name, "summary": summary} for name, summary in summaries.items()]).decode())
    else:
        width = max(map(len, summaries)) + 2
        for name, summary in summaries.items():
            click.echo(f"{name:<{width}}{summary}")


def _open_app(config: RunConfig, runs_dir: Path, *, start_at_once: bool) -> int:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError("the app needs a terminal; without one use `tuitrain run RECIPE`.")
    from tuitrain.session.threads import lasting_imports, share_the_lock

    share_the_lock()
    with lasting_imports():
        from tuitrain.tui.app import TuitrainApp
        from tuitrain.tui.terminal.capture import Capture

    with session_and_sampler(runs_dir) as (session, sampler), Capture() as capture:
        app = TuitrainApp(session, sampler, config, runs_dir, start_at_once=start_at_once, capture=capture, download=download_cifar10)
        app.run()
    code = app.return_code or 0
    if not app.fetch.join(FETCH_JOIN_SECONDS):
        # Its thread may be inside an import of torch or wait for a disk; what it leaves behind the next download removes.
        sys.stderr.flush()
        os._exit(code)
    return code


@contextmanager
def session_and_sampler(runs_dir: Path) -> Iterator[tuple[WorkerSession, Sampler]]:
    """A session and a sampler, wired; at the end every thread of theirs is stopped and joined."""
    from tuitrain.devices.inventory import device_events, free_cuda_devices
    from tuitrain.devices.sampler import Sampler
    from tuitrain.session.threads import limit_openmp_spin
    from tuitrain.session.worker import WorkerSession

    limit_openmp_spin()
    # NVML lists cards in the order of their bus ids; with this, CUDA counts them in the same order.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    sampler = Sampler()
    session = WorkerSession(_load_train, runs_dir, lambda: free_cuda_devices(sampler.wait(FIRST_SAMPLE_SECONDS)))
    sampler.subscribe(lambda snapshot: session.note_samples(device_events(snapshot)))
    sampler.start()
    try:
        yield session, sampler
    finally:
        ended = _end(session)
        sampler.stop()
        if not ended:
            # A thread that is still inside torch would abort the interpreter's own exit.
            print("tuitrain: training did not stop in time; leaving it", file=sys.stderr)
            sys.stderr.flush()
            os._exit(1)


def _end(session: WorkerSession) -> bool:
    """Let a run that is alive end, and wait for what it wants done afterwards; whether the run ended in time."""
    if session.state != "ended":
        session.interrupt()
    deadline = time.monotonic() + JOIN_SECONDS
    while session.state not in ("idle", "ended"):
        session.join(0.2)
        if time.monotonic() > deadline:
            return False
    if not session.join(0.5):
        print("tuitrain: waiting for on_end, a minute at most; Ctrl+C leaves it running", file=sys.stderr)
        while not session.join(1.0):
            pass
    return True


def _load_train() -> Train:
    from tuitrain.engine.train import train
    from tuitrain.session.elastic import elastic_train

    spread = partial(elastic_train, agent="tuitrain.engine.agent", rank="tuitrain.engine.rank")
    return partial(train, spread=spread)


def download_cifar10(ending: Callable[[], bool]) -> Iterator[Progress]:
    """The engine's download, imported when it is asked for: it takes torch with it."""
    from tuitrain.session.threads import lasting_imports

    with lasting_imports():
        from tuitrain.engine.download import fetch_cifar10
    yield from fetch_cifar10(ending)

"""The composition root: commands to a front end. It wires the rooms together and holds no logic of theirs.

Everything heavy is imported inside the command that needs it: `tuitrain --help` answers before torch or textual could load.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tuitrain import paths
from tuitrain.config import RECIPES, ConfigError, RunConfig, with_changes
from tuitrain.recipes import load_recipe, recipe_summary, recipe_text
from tuitrain.text import nearest

if TYPE_CHECKING:
    from tuitrain.devices.sampler import Sampler
    from tuitrain.events import Progress, RunStarted
    from tuitrain.runs.catalogue import RunSummary
    from tuitrain.session.launched import World
    from tuitrain.session.worker import Train, WorkerSession
    from tuitrain.tui.code.script import WriteScript

USAGE_ERROR = 2
JOIN_SECONDS = 60.0  # longer than metrics that are locked are waited for
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
    # Of several ranks that a launcher started alike, the first one says it.
    if os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0":
        print(f"tuitrain: {sentence}", file=sys.stderr)
    sys.exit(USAGE_ERROR)


class _Commands(click.Group):
    """Says which command was meant when the name is wrong."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            names = ", ".join(name for name, command in self.commands.items() if not command.hidden)
            raise click.UsageError(f"there is no command {args[0]!r}; it must be one of {names}.{nearest(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


runs_dir_option = click.option("--runs-dir", metavar="DIR", help="Where the runs are kept (or TUITRAIN_RUNS).")
detach_option = click.option("--detach", is_flag=True, help="Train in the background, print the run's id and return.")
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
@detach_option
@click.option("--queue", is_flag=True, help="Train in the background when the devices are free, after the runs that were queued before.")
@click.pass_obj
def run(
    parent_runs_dir: str | None,
    /,
    recipe: str,
    settings: tuple[str, ...],
    runs_dir: str | None,
    as_json: bool,
    tui: bool,
    detach: bool,
    queue: bool,
    **options: str | None,
) -> int:
    """Train RECIPE (a built-in one or a TOML file) without the app."""
    if as_json and tui:
        raise click.UsageError("--json and --tui cannot go together: the app has the terminal to itself.")
    if detach and tui:
        raise click.UsageError("--detach and --tui cannot go together: a run in the background has no screen; `tuitrain attach` shows it.")
    if queue and tui:
        raise click.UsageError("--queue and --tui cannot go together: a queued run begins later; `tuitrain attach` shows it.")
    config = _configuration(recipe, settings, options)
    folder = paths.runs_dir(runs_dir or parent_runs_dir)
    if queue and config.nnodes != "1":
        raise ConfigError(f"nnodes: {config.nnodes!r} does not go with --queue, which waits for the devices of one machine; leave one out.")
    if _is_rank(os.environ):
        from tuitrain.session import launched

        world = launched.world_of(os.environ)
        if world is not None and (fitted := launched.fitted(config, world)) is not None:
            if tui or detach or queue:
                raise click.UsageError(f"--tui, --detach and --queue do not go with {world.launcher}: it has the processes in its hands.")
            _run_as_rank(world, fitted, folder, as_json=as_json)
    if tui:
        return _open_app(config, folder, start_at_once=True)
    from tuitrain import console
    from tuitrain.console import follow, printer_for
    from tuitrain.session import detached

    detached.revive(folder)
    if detach or queue:
        return console.detach(config, folder, queue=queue, as_json=as_json)

    with session_and_sampler(folder) as (session, _):
        return follow(session, config, printer_for(json=as_json))


@commands.command()
@click.argument("run", metavar="RUN")
@click.option("--device", metavar="LIST", help="Other devices than before.")
@click.option("--strategy", metavar="auto|single|dp|split|ddp", help="Another strategy than before.")
@click.option("--epochs", metavar="N", help="How many in all, from the run's first step.")
@click.option("--max-steps", metavar="N", help="How many steps in all, from the run's first.")
@runs_dir_option
@click.option("--json", "as_json", is_flag=True, help="One JSON event a line.")
@click.option("--tui", is_flag=True, help="Go on inside the app.")
@detach_option
@click.pass_obj
def resume(
    parent_runs_dir: str | None, /, run: str, runs_dir: str | None, as_json: bool, tui: bool, detach: bool, **options: str | None
) -> int:
    """Go on with RUN from its newest checkpoint, in its own folder; a paused live one goes on where it is, a queued one waits again."""
    if tui and (as_json or detach):
        raise click.UsageError("--tui goes together with neither --json nor --detach: the app has the terminal to itself.")
    from tuitrain.runs import catalogue
    from tuitrain.session import detached
    from tuitrain.session.lines import commands as lines
    from tuitrain.session.resume import plan

    folder = paths.runs_dir(runs_dir or parent_runs_dir)
    found = catalogue.find(folder, run)
    changes = {field: value for field, value in options.items() if value is not None}
    if found.state == "paused" and not changes:
        went_on = lines.go_on(found)
        if tui:
            return _open_app(load_recipe(RECIPES[0]), folder, attach=found.path)
        click.echo(went_on, err=as_json)
        return 0
    if found.left:
        return _wait_again(found, changes, as_json=as_json, tui=tui)
    detached.revive(folder)
    config = plan(found, changes)
    if tui:
        return _open_app(config, folder, start_at_once=True, resume=found.path)
    from tuitrain import console

    if detach:
        return console.detach(config, folder, resume=found.path, as_json=as_json)
    with session_and_sampler(folder) as (session, _):
        return console.follow(session, config, console.printer_for(json=as_json), resume=found.path)


def _wait_again(found: RunSummary, changes: Mapping[str, str], *, as_json: bool, tui: bool) -> int:
    """A queued run that nobody waits for is waited for again."""
    from tuitrain.session import detached

    if changes:
        raise ConfigError(f"RUN: {found.run} is queued and has not begun; stop it, and queue it anew with other settings.")
    waits = detached.wait_again(found)
    if tui:
        return _open_app(load_recipe(RECIPES[0]), found.path.parent, attach=found.path)
    click.echo(waits, err=as_json)
    return 0


def _is_rank(environment: Mapping[str, str]) -> bool:
    """Whether a launcher of ranks may have started this process; `launched.world_of` knows."""
    return "WORLD_SIZE" in environment or "SLURM_PROCID" in environment


def _run_as_rank(world: World, config: RunConfig, runs_dir: Path, *, as_json: bool) -> NoReturn:
    """Train as one of the ranks that a launcher started, and end the process."""
    from tuitrain.console import follow, printer_for
    from tuitrain.session import launched

    def load_train() -> Train:
        from tuitrain.engine.outside import train_as_rank

        return partial(train_as_rank, local_size=world.local_size)

    launched.tell_torch(world, os.environ)
    earlier = launched.earlier_run(runs_dir, world)
    with session_and_sampler(runs_dir, load_train) as (session, _):
        words = launched.Words(world, session)
        code = follow(session, config, launched.Silent() if world.rank else printer_for(json=as_json), resume=earlier)
        words.close(code)
    # Without the interpreter's own end, which waits for threads that wait for ranks.
    os._exit(code)


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
@runs_dir_option
@click.pass_obj
def stop(parent_runs_dir: str | None, run: str, runs_dir: str | None) -> None:
    """Stop a live RUN at the end of its step, with a checkpoint, and wait for that."""
    from tuitrain.runs import catalogue
    from tuitrain.session.lines import commands as lines

    click.echo(lines.stop(catalogue.find(paths.runs_dir(runs_dir or parent_runs_dir), run)))


@commands.command()
@click.argument("run", metavar="RUN")
@runs_dir_option
@click.pass_obj
def pause(parent_runs_dir: str | None, run: str, runs_dir: str | None) -> None:
    """Let a live RUN wait at the end of its step; `resume` lets it go on."""
    from tuitrain.runs import catalogue
    from tuitrain.session.lines import commands as lines

    click.echo(lines.pause(catalogue.find(paths.runs_dir(runs_dir or parent_runs_dir), run)))


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


@commands.command("_host", hidden=True)
def _host() -> int:
    """What `tuitrain.session.detached` starts."""
    from tuitrain.session.hosted import Asker, HostedRun
    from tuitrain.tui.terminal.capture import Capture

    asker = Asker()
    request = asker.request()
    if request is None:
        return USAGE_ERROR
    folder = Path(os.fsdecode(request.runs_dir))
    with Capture() as capture, session_and_sampler(folder, waits=request.queue) as (session, _):
        return HostedRun(session, request, asker, capture.send_to).run()


@commands.command()
@click.argument("run", metavar="RUN")
@runs_dir_option
@click.pass_obj
def attach(parent_runs_dir: str | None, run: str, runs_dir: str | None) -> int:
    """Open the app on RUN: watch a live one and steer it, or look at one that has ended. Any number of terminals may."""
    from tuitrain.runs import catalogue

    folder = paths.runs_dir(runs_dir or parent_runs_dir)
    return _open_app(load_recipe(RECIPES[0]), folder, attach=catalogue.find(folder, run).path)


def _open_app(
    config: RunConfig, runs_dir: Path, *, start_at_once: bool = False, resume: Path | None = None, attach: Path | None = None
) -> int:
    """The app, until it is left; the exit code. `start_at_once` starts `config`, or goes on so with the run in folder `resume`."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError("the app needs a terminal; without one use `tuitrain run RECIPE`.")
    from tuitrain.session.threads import lasting_imports, share_the_lock

    share_the_lock()
    with lasting_imports():
        from tuitrain.tui.app import TuitrainApp
        from tuitrain.tui.leaving import go_on_unseen
        from tuitrain.tui.terminal.capture import Capture
        from tuitrain.tui.terminal.signals import signals_to

    with session_and_sampler(runs_dir) as (session, sampler), Capture() as capture:
        app = TuitrainApp(
            session,
            sampler,
            config,
            runs_dir,
            start_at_once=start_at_once,
            resume=resume,
            attach=attach,
            capture=capture,
            download=download_cifar10,
            write_script=write_script,
        )
        with signals_to(app):
            app.run()
        code = app.return_code or 0
        if app.leaving.at_once:
            os._exit(code)
        if app.leaving.hung_up:
            capture.leave_terminal()
            code = go_on_unseen(session)
    if app.leaving.farewell:
        print(app.leaving.farewell)
    if not (app.fetch.join(FETCH_JOIN_SECONDS) and app.scripts.join(0)):
        # A thread may be inside an import of torch or wait for a disk; what a download leaves behind the next one removes.
        sys.stderr.flush()
        os._exit(code)
    return code


@contextmanager
def session_and_sampler(
    runs_dir: Path, load_train: Callable[[], Train] | None = None, *, waits: bool = False
) -> Iterator[tuple[WorkerSession, Sampler]]:
    """A session, of another train function where `load_train` gives one, and a sampler, wired; at the end all their threads are joined.

    With `waits` the run is a queued one: until its turn comes, the devices are asked only when somebody wants to know.
    """
    from tuitrain.devices.inventory import device_events, free_cuda_devices
    from tuitrain.devices.report import one_sample
    from tuitrain.devices.sampler import Sampler
    from tuitrain.session.threads import limit_openmp_spin
    from tuitrain.session.worker import WorkerSession

    limit_openmp_spin()
    # NVML lists cards in the order of their bus ids; with this, CUDA counts them in the same order.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    sampler = Sampler()

    def begin() -> Train:
        sampler.start()
        return _load_train()

    def free() -> Sequence[int]:
        return free_cuda_devices(one_sample() if waits else sampler.wait(FIRST_SAMPLE_SECONDS))

    session = WorkerSession(begin if waits else load_train or _load_train, runs_dir, free)
    sampler.subscribe(lambda snapshot: session.note_samples(device_events(snapshot)))
    if not waits:
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


def write_script(config: RunConfig, started: RunStarted | None, threads: int | None) -> str:
    """The engine's export of a script, imported when it is asked for: it takes torch with it."""
    return _load_script()(config, started, threads)


@cache
def _load_script() -> WriteScript:
    from tuitrain.session.threads import lasting_imports

    with lasting_imports():
        from tuitrain.engine.export import script
    return script


def download_cifar10(ending: Callable[[], bool]) -> Iterator[Progress]:
    """The engine's download, imported when it is asked for: it takes torch with it."""
    from tuitrain.session.threads import lasting_imports

    with lasting_imports():
        from tuitrain.engine.download import fetch_cifar10
    yield from fetch_cifar10(ending)

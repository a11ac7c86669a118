"""The commands about the machine, and what is built in."""

from __future__ import annotations

from pathlib import Path

import click

from tuitrain.cli import completing
from tuitrain.cli.options import WholeNumber, json_option, runs_dir_option
from tuitrain.cli.output import terminal_width
from tuitrain.cli.wiring import count_gpus_as_nvml

BENCH_SECONDS = 300.0


@click.command()
@json_option
def gpus(as_json: bool) -> None:
    """One sample of every device, then exit."""
    from shutil import get_terminal_size

    from tuitrain.devices import report

    count_gpus_as_nvml()
    snapshot = report.one_sample_with_load()
    click.echo(report.as_json(snapshot) if as_json else report.as_text(snapshot, get_terminal_size().columns))


@click.command()
@runs_dir_option
@json_option
@click.option("--all-reduce", is_flag=True, help="Also let two GPUs (or two processes on the CPU) add numbers up, 30 s at most.")
def doctor(runs_dir: Path, as_json: bool, all_reduce: bool) -> None:
    """Say what is wrong with the GPUs here. And the command that mends it. The exit code is 0 whatever is found; --json has the verdict."""
    from tuitrain.devices.doctor import command

    click.echo(command.run(runs_dir, as_json=as_json, all_reduce=all_reduce), nl=False)


@click.command()
@click.option(
    "--device",
    metavar="LIST",
    default="auto",
    shell_complete=completing.devices,
    help="Between which devices to share the work: names with commas, or auto.",
)
@click.option("--steps", metavar="N", type=WholeNumber(min=1), default=100, show_default=True, help="How many are timed in each trial.")
@json_option
def bench(device: str, steps: int, as_json: bool) -> int:
    """Time the strategies side by side. First seed-cnn on the CPU and on each GPU."""
    from shutil import get_terminal_size

    from tuitrain.config import RECIPES, with_changes
    from tuitrain.devices import report
    from tuitrain.devices.inventory import free_cuda_devices
    from tuitrain.recipes import load_recipe
    from tuitrain.session.preflight import bench as benches
    from tuitrain.session.preflight.trials import ProcessTrials
    from tuitrain.text import passing_line

    config = with_changes(load_recipe(RECIPES[0]), {"device": device}, from_text=True)
    count_gpus_as_nvml()
    trials = ProcessTrials(steps=steps, seconds=BENCH_SECONDS, free=free_cuda_devices(report.one_sample()))
    try:
        found = benches.bench(trials, config, steps, passing_line)
    finally:
        passing_line("")
    click.echo(benches.as_json(found) if as_json else benches.as_text(found, get_terminal_size().columns))
    return int(found.failed)


@click.command()
@json_option
def recipes(as_json: bool) -> None:
    """List the built-in recipes."""
    from tuitrain.config import RECIPES
    from tuitrain.recipes import recipe_summary, recipe_text

    summaries = {name: recipe_summary(recipe_text(name)) for name in RECIPES}
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode([{"recipe": name, "summary": summary} for name, summary in summaries.items()]).decode())
    else:
        width = max(map(len, summaries)) + 2
        columns = terminal_width()
        for name, summary in summaries.items():
            line = f"{name:<{width}}{summary}"
            click.echo(line if columns is None else click.wrap_text(line, columns - 1, subsequent_indent=" " * width))

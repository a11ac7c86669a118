"""The commands about runs that there are."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tuitrain.cli import completing
from tuitrain.cli.options import RUN_IS, OneOf, json_option, runs_dir_option
from tuitrain.cli.output import terminal_width, write_utf8


@click.command()
@runs_dir_option
@json_option
def runs(runs_dir: Path, as_json: bool) -> None:
    """List the runs, newest first."""
    from tuitrain.runs import report

    click.echo(report.runs(runs_dir, as_json=as_json, width=terminal_width()))


@click.command(epilog=RUN_IS)
@click.argument("run", metavar="RUN", shell_complete=completing.run_ids())
@runs_dir_option
@json_option
def show(run: str, runs_dir: Path, as_json: bool) -> None:
    """Show one RUN. Its configuration, state, last metrics and checkpoints."""
    from tuitrain.runs import report

    click.echo(report.show(runs_dir, run, as_json=as_json))


@click.command(epilog=RUN_IS)
@click.argument("run", metavar="RUN", shell_complete=completing.run_ids())
@runs_dir_option
def attach(run: str, runs_dir: Path) -> int:
    """Open the app on RUN. A live one is watched and steered, from any number of terminals."""
    from tuitrain.cli.app import open_app
    from tuitrain.runs import catalogue

    return open_app(None, runs_dir, attach=catalogue.find(runs_dir, run).path)


@click.command(epilog=RUN_IS)
@click.argument("run", metavar="RUN", shell_complete=completing.run_ids(lambda run: run.state == "running"))
@runs_dir_option
def pause(run: str, runs_dir: Path) -> None:
    """Let a live RUN wait at the end of its step. `resume` lets it go on."""
    from tuitrain.runs import catalogue
    from tuitrain.session.lines import commands as lines

    click.echo(lines.pause(catalogue.find(runs_dir, run)))


@click.command(epilog=RUN_IS)
@click.argument("run", metavar="RUN", shell_complete=completing.run_ids(lambda run: run.live))
@runs_dir_option
def stop(run: str, runs_dir: Path) -> None:
    """Stop a live RUN, with a checkpoint. Returns when it has ended."""
    from tuitrain.console.printers import to_stderr
    from tuitrain.runs import catalogue
    from tuitrain.runs.silence import announced
    from tuitrain.session.lines import commands as lines

    click.echo(lines.stop(catalogue.find(runs_dir, run), announced(to_stderr)))


@click.command(epilog=RUN_IS)
@click.argument("run", metavar="RUN", shell_complete=completing.run_ids())
@click.option("--format", "format_", required=True, type=OneOf(["csv", "json", "pt", "py"]))
@click.option("-o", "--output", metavar="FILE", help="Where to write it; stdout without, or with -.")
@runs_dir_option
def export(run: str, format_: str, output: str | None, runs_dir: Path) -> None:
    """Write what a RUN has kept.

    csv and json are its metrics, pt its weights, py a plain PyTorch script that does the same.
    """
    if output in (None, "-"):
        write_utf8()
    if output == "":
        raise click.UsageError("-o: '' is not allowed; it must be the name of a file.")
    from tuitrain.console.printers import to_stderr
    from tuitrain.files import is_standard_output
    from tuitrain.paths import check_working_directory
    from tuitrain.runs import catalogue
    from tuitrain.runs.export import check_output, export_metrics, write_text

    found = catalogue.find(runs_dir, run)
    if format_ in ("csv", "json"):
        export_metrics(found.path, "csv" if format_ == "csv" else "json", output)
        return
    if format_ == "pt" and output in (None, "-"):
        raise click.UsageError("--format pt needs -o FILE: weights are not text.")
    # Before torch is loaded.
    check_output(output)
    check_working_directory()
    from tuitrain.engine.torch_first import torch_first
    from tuitrain.runs.for_script import for_script

    with torch_first():
        from tuitrain.engine.export import export_weights, script

    if output is not None and format_ == "pt":
        source, passed_over = export_weights(found.path, Path(output))
        if passed_over:
            to_stderr(f"The best checkpoint cannot be used: {passed_over.rstrip('.')}.")
        click.echo(f"wrote the weights of {source.name} to {output}", err=is_standard_output(Path(output)))
        return
    write_text(script(*for_script(found.path)), output)


@click.command(epilog=RUN_IS)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, shell_complete=completing.run_ids(lambda run: not run.live))
@click.option("--yes", is_flag=True, help="Do not ask.")
@runs_dir_option
def delete(runs: tuple[str, ...], yes: bool, runs_dir: Path) -> int:
    """Delete each RUN with its checkpoints and metrics. Where one of them is live, or is not there, none is deleted."""
    from tuitrain.console.printers import to_stderr
    from tuitrain.runs import catalogue, removal
    from tuitrain.runs.silence import announced

    found = catalogue.find_each(runs_dir, runs)
    for run in found:
        removal.check_deletable(run)
    named = catalogue.in_words(found)
    if not yes and not _agreed(f"Delete {named} with {'its' if len(found) == 1 else 'their'} checkpoints and metrics?"):
        click.echo(f"kept {named}", err=True)
        return 1
    for run in found:
        removal.delete(run.path, announced(to_stderr))
        click.echo(f"deleted {run.run}")
    return 0


def _agreed(question: str) -> bool:
    """What a person answers, or a pipe."""
    try:
        return click.confirm(question)
    except click.Abort as abort:
        if sys.stdin.isatty() or not isinstance(abort.__context__, EOFError):
            raise
        # The question ends its line.
        click.echo()
        raise click.UsageError("nobody is there to answer whether to delete; use --yes to delete without a question.") from None

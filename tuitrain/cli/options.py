"""What several commands share."""

from __future__ import annotations

import click

USAGE_ERROR = 2


class WholeNumber(click.IntRange):
    """Calls itself by a name that people know."""

    name = "whole number"


runs_dir_option = click.option("--runs-dir", metavar="DIR", help="Where the runs are kept (or TUITRAIN_RUNS).")
detach_option = click.option("--detach", is_flag=True, help="Train in the background, print the run's id and return.")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")

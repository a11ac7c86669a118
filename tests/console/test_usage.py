"""What a mistake on the command line is told, without starting the program."""

from __future__ import annotations

import click
import pytest

from tuitrain.cli.training import resume, run
from tuitrain.cli.usage import sentence_of


@pytest.mark.parametrize(
    ("command", "option", "words"),
    [
        (run, "--momentum", "It is a field: --set momentum=VALUE."),
        (run, "--model", "It is a field: --set model=VALUE."),
        (run, "--checkpoint-every-steps", "It is a field: --set checkpoint_every_steps=VALUE."),
        (run, "--batch_size", "Did you mean '--batch-size'?"),
        (resume, "--momentum", "It must be one of --device"),
    ],
)
def test_a_field_that_is_no_option_is_told_how_it_is_set(command: click.Command, option: str, words: str) -> None:
    with pytest.raises(click.NoSuchOption) as refused:
        command.make_context(command.name, ["last", option, "0.9"])
    assert sentence_of(refused.value).startswith(f"{option}: there is no such option. {words}")

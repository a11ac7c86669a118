"""What a mistake on the command line is told, without starting the program."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from tuitrain.cli import program
from tuitrain.cli.app import open_app
from tuitrain.cli.machine import gpus, recipes
from tuitrain.cli.training import resume, run
from tuitrain.cli.usage import sentence_of
from tuitrain.config import RECIPES
from tuitrain.session import rank_words

_ONE_RUN = "It lists them all; `tuitrain show RUN` tells of one, and / in the app's list finds some."


@pytest.fixture
def a_run(tmp_path: Path) -> Path:
    folder = tmp_path / "20260101-0000-x-abc"
    folder.mkdir()
    (folder / "run.toml").touch()
    return folder


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """What a command line ends with: the exit code, and what it says."""

    def end(*words: str, answer: str = "") -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tuitrain", "--runs-dir", str(tmp_path), *words])
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        with pytest.raises(SystemExit) as ended:
            program._run()
        said = capsys.readouterr()
        return int(str(ended.value.code)), said.out + said.err

    return end


@pytest.mark.parametrize(
    ("command", "option", "words"),
    [
        (run, "--momentum", "It is a field: --set momentum=VALUE."),
        (run, "--model", "It is a field: --set model=VALUE."),
        (run, "--checkpoint-every-steps", "It is a field: --set checkpoint_every_steps=VALUE."),
        (run, "--batch_size", "Did you mean '--batch-size'?"),
        (run, "--learning-rate", "Did you mean '--lr'?"),
        (run, "--bs", "Did you mean '--batch-size'?"),
        (run, "--gradient_clip_val", "It is the field max_grad_norm: --set max_grad_norm=VALUE."),
        (run, "--gradient-accumulation-steps", "A batch is taken in parts where a device is named several times, as in device=cuda:0,"),
        (run, "--num_workers", "Samples that are read anew in each epoch are read by a process for each core but one, 16 at most."),
        (resume, "--num-workers", "It must be one of --device, "),
        (gpus, "--gpus", "It must be one of --json, --help."),
        (resume, "--epoch", "Did you mean '--epochs'?"),
        (resume, "--max_steps", "Did you mean '--max-steps'?"),
        (resume, "--queue", "It must be one of --device, --strategy, --epochs, --max-steps, --runs-dir, --json, --tui, --detach, --help."),
    ],
)
def test_a_field_that_is_no_option_is_told_how_it_is_set(command: click.Command, option: str, words: str) -> None:
    with pytest.raises(click.NoSuchOption) as refused:
        command.make_context(command.name, [*(["last"] if command.name != "gpus" else []), option, "0.9"])
    assert sentence_of(refused.value).startswith(f"{option}: there is no such option. {words}")


@pytest.mark.parametrize("option", ["--momentum", "--lr", "--data", "--batch-size", "--batch_size"])
def test_a_run_that_goes_on_says_that_it_keeps_a_field(option: str) -> None:
    field = option[2:].replace("-", "_")
    with pytest.raises(click.NoSuchOption) as refused:
        resume.make_context("resume", ["last", option, "0.9"])
    another = "U in the app's list of runs begins another run with its weights."
    kept = f"a run that goes on keeps its {field}; only device, strategy, epochs, max_steps may be changed. {another}"
    assert sentence_of(refused.value) == f"{option}: {kept}"


@pytest.mark.parametrize(
    ("environment", "slept"),
    [
        ({}, []),
        ({"RANK": "0"}, []),
        ({"RANK": "1"}, [5.0]),
        ({"RANK": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, []),
        ({"RANK": "3", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, [5.0]),
        ({"RANK": "nonsense"}, []),
    ],
    ids=["no ranks", "the first", "another one", "the first of another machine", "another one there", "no number"],
)
def test_of_several_ranks_the_first_one_of_a_machine_says_it_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], environment: dict[str, str], slept: list[float]
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(rank_words.time, "sleep", waited.append)
    for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    world = {"WORLD_SIZE": "4", "MASTER_ADDR": "box", "MASTER_PORT": "1234"} if environment else {}
    for name, value in (environment | world).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        program._refuse("what is\x1bwrong")
    assert (ended.value.code, capsys.readouterr().err, waited) == (2, "tuitrain: what is·wrong\n", slept)


def test_a_rank_left_in_the_environment_holds_nobody_back(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.setattr(rank_words.time, "sleep", lambda seconds: pytest.fail("nobody else speaks"))
    with pytest.raises(SystemExit):
        program._refuse("what is wrong")
    assert capsys.readouterr().err == "tuitrain: what is wrong\n"


@pytest.mark.parametrize(
    ("options", "answer", "code", "said", "left"),
    [
        ([], "y\n", 0, "deleted ", False),
        (["--yes"], "", 0, "deleted ", False),
        ([], "\n", 1, "kept ", True),
        ([], "", 2, "nobody is there to answer whether to delete; use --yes", True),
    ],
)
def test_a_run_is_deleted_only_when_somebody_says_so(
    told: Callable[..., tuple[int, str]], a_run: Path, options: list[str], answer: str, code: int, said: str, left: bool
) -> None:
    ended, text = told("delete", "last", *options, answer=answer)
    assert (ended, a_run.exists()) == (code, left)
    assert said in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run seed-cnn --json --tui", "--json and --tui cannot go together"),
        ("run seed-cnn --detach --tui", "--detach and --tui cannot go together"),
        ("run seed-cnn --queue --tui", "--queue and --tui cannot go together"),
        ("resume last --tui --json", "--tui goes together with neither --json nor --detach"),
        ("resume last --tui --detach", "--tui goes together with neither --json nor --detach"),
        ("run seed-cnn --set lr", "--set: 'lr' is not allowed; it must be FIELD=VALUE, like --set lr=0.01."),
        ("run seed-cnn --set", "--set needs a value; it must be FIELD=VALUE, like --set lr=0.01."),
        ("resume last --set data=elsewhere", "data: a run that goes on keeps its data; only device, strategy,"),
        ("resume last --set lr", "--set: 'lr' is not allowed; it must be FIELD=VALUE"),
        ("run seed-cnn --max-steps", "--max-steps needs a value; it must be a whole number of 1 or more, or none."),
        ("export last -o", "-o needs a value."),
        ("export last --format CSV", "--format: 'CSV' is not allowed; it must be one of csv, json, pt, py. Did you mean 'csv'?"),
        ("bench --steps 0", "--steps: '0' is not allowed; it must be a whole number of 1 or more."),
        ("--json runs", "--json stands behind the command that it is for, one of bench, doctor, gpus, recipes, resume, run, runs, show."),
        ("--jsn runs", "--jsn: there is no such option. It must be one of --version, --runs-dir, --help."),
        ("export last --format pt", "--format pt needs -o FILE"),
        ("export last --format pt -o -", "--format pt needs -o FILE"),
    ],
)
@pytest.mark.usefixtures("a_run")
def test_options_that_are_wrong_or_do_not_go_together_are_refused(told: Callable[..., tuple[int, str]], words: str, said: str) -> None:
    ended, text = told(*words.split())
    assert ended == 2
    assert text.startswith(f"tuitrain: {said}")


@pytest.mark.parametrize("command", ["resume", "show", "attach", "pause", "stop", "export", "delete"])
def test_what_takes_a_run_says_in_its_help_what_names_one(command: str) -> None:
    found = program.commands.get_command(click.Context(program.commands), command)
    assert found is not None
    text = found.get_help(click.Context(found))
    assert text.endswith("RUN is an id, the start of one, or last; `tuitrain runs` lists them.")


def test_the_recipes_keep_their_column_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert recipes.callback is not None
    recipes.callback(as_json=False)
    piped = capsys.readouterr().out
    assert len(piped.splitlines()) == len(RECIPES)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    recipes.callback(as_json=False)
    shown = capsys.readouterr().out
    assert shown.split() == piped.split()
    assert max(map(len, shown.splitlines())) < 60
    column = piped.index("A small CNN")
    assert {line[:column].strip() for line in shown.splitlines()} == {*RECIPES, ""}


@pytest.mark.parametrize(("given", "instead"), [("", "run RECIPE"), ("resume", "resume RUN"), ("attach", "show RUN")])
def test_without_a_terminal_the_command_is_named_that_does_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, instead: str
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(click.UsageError) as refused:
        open_app(None, tmp_path, **({given: tmp_path} if given else {}))
    assert sentence_of(refused.value) == f"the app needs a terminal; without one use `tuitrain {instead}`."


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_the_app_is_not_drawn_where_the_cursor_stays_in_its_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, term: str) -> None:
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(sys, stream, SimpleNamespace(isatty=lambda: True))
    monkeypatch.setenv("TERM", term)
    with pytest.raises(click.UsageError) as refused:
        open_app(None, tmp_path)
    assert sentence_of(refused.value) == (
        f"TERM: on a '{term}' terminal the app cannot draw; "
        "it must be the name of the terminal, such as xterm-256color, or use `tuitrain run RECIPE`."
    )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ls", "runs"),
        ("rm", "delete"),
        ("kill", "stop"),
        ("train", "run"),
        ("logs", "attach"),
        ("continue", "resume"),
        ("download", "run seed-cnn --data cifar10"),
        ("version", "--version"),
        ("help", "--help"),
        ("speedrun-94", "run speedrun-94"),
        ("mine.toml", "run mine.toml"),
    ],
)
def test_a_command_as_other_programs_call_it_is_told_by_its_name_here(told: Callable[..., tuple[int, str]], typed: str, meant: str) -> None:
    code, said = told(typed, "x")
    assert code == 2
    assert said.startswith(f"tuitrain: there is no command '{typed}'; it must be one of run, ")
    assert said.endswith(f" Did you mean '{meant}'?\n")


@pytest.mark.parametrize(
    ("typed", "way"),
    [
        (("help", "run"), "Did you mean 'run --help'?"),
        (("top",), "bench, recipes. The app shows the GPUs live: `tuitrain`, and g there."),
        (("rename", "last"), "bench, recipes. The app does so: `tuitrain`, r for the runs, and e on one."),
        (("gpus", "--watch"), "there is no such option. The app shows the GPUs live: `tuitrain`, and g there."),
        (("gpus", "-l", "1"), "there is no such option. The app shows the GPUs live: `tuitrain`, and g there."),
        (("show", "last", "--follow"), "there is no such option. A live run is followed by `tuitrain attach RUN`."),
        (("runs", "--limit", "5"), f"there is no such option. {_ONE_RUN}"),
        (("runs", "resnet18"), f"'resnet18' is more than `tuitrain runs [OPTIONS]` takes. {_ONE_RUN}"),
        (("runs", "--jsn"), "there is no such option. Did you mean '--json'?"),
        (("eval", "last"), "bench, recipes. A run evaluates after each epoch; `tuitrain show RUN` tells what it found."),
        (("diff", "a", "b"), "bench, recipes. The app does so: `tuitrain`, r for the runs, space on some, and v."),
        (("ui",), "bench, recipes. `tuitrain` alone opens the app."),
        (("show", "last", "--jsn"), "there is no such option. Did you mean '--json'?"),
    ],
)
def test_what_other_programs_do_is_told_how_it_is_done_here(told: Callable[..., tuple[int, str]], typed: tuple[str, ...], way: str) -> None:
    code, said = told(*typed)
    assert code == 2
    assert said.endswith(f"{way}\n")

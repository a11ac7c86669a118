"""Which printer fits what `tuitrain run` prints to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import msgspec
import pytest

from tuitrain.console.printers import BarPrinter, JsonPrinter, PlainPrinter, Preparations, Printer, printer_for
from tuitrain.events import BYTES, Checkpoint, Notice, Progress, RunEnded, RunStarted, Step


@contextmanager
def a_terminal() -> Iterator[None]:
    """A terminal in the place of stdout."""
    ours, its = os.openpty()
    with open(its, "w", encoding="utf-8") as stream, redirect_stdout(stream):
        yield
    os.close(ours)


def started(total_steps: int) -> RunStarted:
    return RunStarted(
        recipe="seed-cnn",
        device=("cpu",),
        strategy="single",
        data="synthetic",
        parameters=10,
        train_samples=total_steps,
        test_samples=0,
        steps_per_epoch=total_steps,
        total_steps=total_steps,
    )


@pytest.mark.parametrize(
    ("term", "kind"), [("xterm-256color", BarPrinter), ("linux", BarPrinter), ("dumb", PlainPrinter), ("unknown", PlainPrinter)]
)
def test_a_terminal_that_cannot_redraw_a_bar_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, term: str, kind: type[Printer]) -> None:
    monkeypatch.setenv("TERM", term)
    with a_terminal():
        printer = printer_for(json=False)
        printer.close()
    assert isinstance(printer, kind)


def test_the_bar_of_a_download_counts_in_megabytes(capsys: pytest.CaptureFixture[str]) -> None:
    printer = BarPrinter()
    printer.show([Progress(phase="downloading CIFAR-10", done=42_000_000, total=170_498_071, unit=BYTES)])
    printer.close()
    assert "42/170 MB" in capsys.readouterr().out


def test_the_bar_shows_what_stands_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    printer = BarPrinter()
    printer.show([Progress(phase="reading [red]pets[/red]", done=1, total=2, unit="[b]files[/b]")])
    printer.close()
    shown = capsys.readouterr().out
    assert "reading [red]pets[/red]" in shown
    assert "1/2 [b]files[/b]" in shown


def test_on_a_terminal_the_line_of_a_run_breaks_between_words_and_that_of_a_path_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    path = "/a/folder/" + "long-name/" * 9 + "step-00000040"
    printer = BarPrinter()
    printer.show(
        [
            msgspec.structs.replace(started(total_steps=12_800), run="20261121-0413-seed-cnn-k3f"),
            Checkpoint(step=40, path=path, kind="last"),
        ]
    )
    printer.close()
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["run 20261121-0413-seed-cnn-k3f: seed-cnn on cpu, synthetic", "data (12,800 train, 0 test), 10 parameters"]
    assert f"checkpoint {path}" in lines


def test_plain_lines_tell_the_first_step_each_hundredth_and_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    printer = PlainPrinter()
    printer.show([started(total_steps=205)])
    printer.show([Step(step=step, epoch=1, loss=1.5, lr=0.1, samples_per_second=1000.0) for step in range(1, 206)])
    lines = capsys.readouterr().out.splitlines()[1:]
    assert lines == [f"step {step}/205  epoch 1  loss 1.5000  1,000 samples/s" for step in (1, 100, 200, 205)]


def test_the_line_of_a_run_on_many_gpus_has_a_range(capsys: pytest.CaptureFixture[str]) -> None:
    printer = PlainPrinter()
    printer.show([msgspec.structs.replace(started(total_steps=205), device=tuple(f"cuda:{index}" for index in range(8)))])
    assert "seed-cnn on cuda:0-7, synthetic data" in capsys.readouterr().out


def test_a_pipe_gets_plain_lines_and_json_where_it_is_asked_for() -> None:
    assert isinstance(printer_for(json=False), PlainPrinter)
    assert isinstance(printer_for(json=True), JsonPrinter)


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}])
def test_preparations_leave_nothing_but_notices_where_stderr_is_no_terminal(
    environment: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    preparations = Preparations()
    preparations.show(Progress(phase="importing torch"))
    preparations.show(Notice(text="no GPU"))
    preparations.close()
    assert capsys.readouterr() == ("", "tuitrain: no GPU\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("step 20: the loss is NaN.", "failed: step 20: the loss is NaN."),
        ("rank 1 (cpu): step 19: the loss is NaN.", "failed: rank 1 (cpu): step 19: the loss is NaN."),
        ("The process that trained it died.", "failed at step 19: The process that trained it died."),
        (None, "failed at step 19"),
    ],
)
def test_an_end_names_its_step_once(capsys: pytest.CaptureFixture[str], error: str | None, said: str) -> None:
    PlainPrinter().show([started(100), RunEnded(run="x", state="failed", step=19, error=error)])
    assert capsys.readouterr().out.splitlines()[-1] == said

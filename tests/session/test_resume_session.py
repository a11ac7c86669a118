"""A session that goes on with a run: one record, one store, one folder; what is refused leaves everything as it was."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from small_sessions import BOUND, Heard, session_of, started

from tuitrain.config import DEFAULTS, ConfigError, RunConfig, with_changes
from tuitrain.events import Checkpoint, Eval, Event, Losses, Notice, Parameters, Progress, RunEnded, RunStarted, State, Step
from tuitrain.recipes import load_recipe, to_toml
from tuitrain.runs import catalogue, silence
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.made_with import environment_of
from tuitrain.runs.process import this_process
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.status import RunStatus, read_status
from tuitrain.runs.summary import RunSummary
from tuitrain.session.control import Control
from tuitrain.session.owned import TakenRun
from tuitrain.session.resume import plan

CONFIG = with_changes(DEFAULTS, {"epochs": 1, "device": "cpu", "strategy": "single", "data": "random"})


@dataclass
class Engine:
    """Makes the steps from the one after `first` to `last`, each with the loss 1 / step; an evaluation and a checkpoint at the end.

    Attributes:
        folders: what `control.folder` was when it began.
    """

    first: int
    last: int
    scale: float = 1.0
    folders: list[Path] = field(default_factory=list)

    def __call__(self, config: RunConfig, control: Control) -> Iterator[Event]:
        self.folders.append(control.folder)
        control.resolved, control.environment = config, {"threads": 2}
        resumed = self.first if control.folder.is_absolute() else None
        yield msgspec.structs.replace(started(40), total_steps=40 * config.epochs, resumed_from=resumed)
        yield State(state="running")
        yield Parameters(rows=())
        for step in range(self.first + 1, self.last + 1):
            yield Losses(first_step=step, epoch=1, losses=(self.scale / step,), times=(float(step),))
            yield Step(step=step, epoch=1, loss=self.scale / step, lr=0.1, samples_per_second=1.0)
        yield Eval(step=self.last, epoch=1, loss=1.0, loss_sum=2.0, accuracy=self.last / 100)
        saved = control.folder / "checkpoints" / f"step-{self.last:08d}"
        saved.mkdir(parents=True)
        yield Checkpoint(step=self.last, path=str(saved), kind="last")
        yield RunEnded(state="stopped", step=self.last)


def make(runs_dir: Path, engine: Any, resume: Path | None = None, config: RunConfig = CONFIG) -> tuple[Heard, Any]:
    heard = Heard()
    session = session_of(engine, runs_dir, heard)
    session.start(config, resume=resume)
    assert session.join(BOUND)
    return heard, session


def the_run(runs_dir: Path) -> RunSummary:
    return catalogue.find(runs_dir, "last")


@pytest.fixture
def run(tmp_path: Path) -> RunSummary:
    """A run that was stopped at step 20 of 40."""
    make(tmp_path, Engine(0, 20))
    return the_run(tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    """What a folder holds, but for the number of its claim."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "claim" not in path.name}


def claimed_elsewhere(run: RunSummary) -> Path:
    """The run's claim, which is that of a process of another host."""
    path = run.path / "claim-99.json"
    path.write_bytes(msgspec.json.encode({**msgspec.structs.asdict(this_process()), "host": "gpu-2", "pid": 77, "taken": 0.0}))
    return path


# -- a process of another host has it, or had it ------------------------------------------------------------------------


def test_what_is_waited_for_is_said_while_a_process_of_another_host_is_watched(
    tmp_path: Path, run: RunSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "LOOK_SECONDS", 0.0001)
    monkeypatch.setattr(silence, "HEARTBEAT_SECONDS", 0.0003)
    monkeypatch.setattr(silence, "LEAST_SECONDS", 0.0003)
    claimed_elsewhere(run)
    heard, session = make(tmp_path, Engine(20, 40), run.path)
    watching = "watching whether pid 77 on gpu-2 still has the run"
    assert heard.events[0] == Notice(text=f"Up to 3 s: {watching}.")
    assert heard.events[1:4] == [Progress(phase=watching, done=done, total=3) for done in range(3)]
    assert session.refusal is None
    assert session.record.step == 40
    assert not [notice for notice in session.record.notices if "watching" in notice.text], "the run's own log begins with what it kept"


@pytest.mark.parametrize("lives", [True, False])
def test_a_run_that_a_process_of_another_host_may_have_is_left_as_it_is(
    tmp_path: Path, run: RunSummary, monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    """It gives a sign, or whoever wants to go on with it does not wait any longer."""
    if lives:
        monkeypatch.setattr(silence, "LOOK_SECONDS", 0.001)
    claimed, before = claimed_elsewhere(run), files(run.path)
    heard = Heard()
    session = session_of(Engine(20, 40), tmp_path, heard)

    def watched(batch: Sequence[Event]) -> None:
        if not lives:
            session.stop()
        elif batch and isinstance(batch[0], Progress):
            claimed.write_bytes(claimed.read_bytes() + b" ")

    session.subscribe(watched)
    session.start(CONFIG, resume=run.path)
    assert session.join(BOUND)
    belongs = "belongs to another process (pid 77 on gpu-2); stop it first."
    unsure = "is left as it is: it was not watched long enough whether pid 77 on gpu-2 still has it."
    assert session.refusal == f"RUN: {run.run} {belongs if lives else unsure}"
    assert files(run.path) == before


def test_a_run_whose_heartbeat_is_of_the_future_may_be_gone(tmp_path: Path, run: RunSummary) -> None:
    """The clock of its host was ahead: that it seems to live says nothing, and whoever takes it finds out."""
    change_state(run.path, state="running", host="gpu-2", heartbeat=time.time() + 30)
    with pytest.raises(ConfigError, match=r"is running \(pid \d+ on gpu-2\); stop it first"):
        plan(the_run(tmp_path), {})
    change_state(run.path, heartbeat=time.time() + 3600)
    assert the_run(tmp_path).live
    assert plan(the_run(tmp_path), {}) == CONFIG


# -- the run goes on --------------------------------------------------------------------------------------------------


def test_record_and_store_hold_the_old_curve_and_the_new_points_as_one(tmp_path: Path, run: RunSummary) -> None:
    # The checkpoint was at step 15: the five steps after it are made again.
    engine = Engine(15, 40, scale=2.0)
    heard, session = make(tmp_path, engine, run.path)
    assert session.refusal is None
    assert engine.folders == [run.path]
    assert [path.name for path in tmp_path.iterdir()] == [run.run]
    told = next(event for event in heard.events if isinstance(event, RunStarted))
    assert (told.run, told.resumed_from) == (run.run, 15)

    expected = [(step, (1.0 if step <= 15 else 2.0) / step) for step in range(1, 41)]
    for record in (session.record, load_record(run.path)):
        assert [record.loss.at(step) for step, _ in expected] == expected
        assert [record.learning_rate.at(step) for step, _ in expected] == [(step, 0.1) for step, _ in expected]
        assert (record.step, record.state, record.best_accuracy) == (40, "stopped", 0.4)
        assert [event.step for event in record.evals] == [40]
        assert record.run == run.run
    with MetricsReader(run.path / "metrics.sqlite") as reader:
        assert [event.step for _, event in reader.step_events()] == list(range(1, 41))
        assert [event.state for _, event in reader.states()] == ["running", "stopped", "running", "stopped"]
    states = [line.split(" ", 2)[2] for line in (run.path / "log.txt").read_text().splitlines()]
    assert states.count("running") == 2
    assert states.count("stopped at step 20") == states.count("stopped at step 40") == 1
    assert [line.text for line in session.record.log.tail(1000)] == states
    after = the_run(tmp_path)
    assert (after.state, after.step, after.started, after.accuracy) == ("stopped", 40, run.started, 0.4)


def test_run_toml_has_the_configuration_that_the_run_went_on_with(tmp_path: Path, run: RunSummary) -> None:
    make(tmp_path, Engine(20, 40), run.path, plan(run, {"epochs": "3"}))
    assert load_recipe(str(run.path / "run.toml")).epochs == 3
    assert environment_of(run.path) == {"threads": 2}
    assert json.loads((run.path / "state.json").read_text())["total_steps"] == 120


def test_a_run_whose_state_cannot_be_written_when_it_begins_keeps_its_configuration_too(
    tmp_path: Path, run: RunSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = files(run.path), RunFolder.write_state

    def failing(folder: RunFolder, status: RunStatus) -> None:
        if status.total_steps == 120:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(folder, status)

    monkeypatch.setattr(RunFolder, "write_state", failing)
    _, session = make(tmp_path, Engine(20, 40), run.path, plan(run, {"epochs": "3"}))
    assert session.refusal == f"RUN: {run.run} cannot go on: run.toml or state.json cannot be written: No space left on device."
    after = files(run.path)
    assert {name for name in before if before[name] != after[name]} <= {"metrics.sqlite"}


@pytest.mark.parametrize("kept", [75.0, None], ids=["kept", "of an older version"])
def test_the_time_in_which_no_process_had_the_run_is_not_counted(tmp_path: Path, run: RunSummary, kept: float | None) -> None:
    # As after kill -9 at the heartbeat: the last state is "running", two hours ago.
    with sqlite3.connect(run.path / "metrics.sqlite") as connection:
        connection.execute("DELETE FROM states WHERE state = 'stopped'")
        (since,) = connection.execute("UPDATE states SET time = time - 7200 RETURNING time").fetchone()
    change_state(run.path, state="running", pid=2**22 + 5, heartbeat=since + 60, running_seconds=kept)
    _, session = make(tmp_path, Engine(20, 40), run.path)
    least = kept or 60
    assert least <= session.record.running_seconds < least + 60
    assert load_record(run.path).running_seconds == pytest.approx(session.record.running_seconds)


@pytest.mark.parametrize("begun", [False, True], ids=["while it prepared", "when it had just begun"])
def test_a_process_that_is_killed_before_it_trains_takes_no_running_time_away(tmp_path: Path, run: RunSummary, begun: bool) -> None:
    change_state(run.path, running_seconds=75.0)
    taken = TakenRun(run.path, RunRecord(CONFIG))
    if begun:
        taken.begin(CONFIG, msgspec.structs.replace(started(40), resumed_from=20), {})
    taken._claim.release()
    assert load_record(run.path).running_seconds == 75.0


@pytest.mark.parametrize(
    ("first", "sentence"),
    [(25, "losses of the steps 21 to 25 were never written, and they are"), (21, "loss of step 21 was never written, and it is")],
)
def test_a_gap_of_losses_before_the_checkpoint_is_named_once(tmp_path: Path, run: RunSummary, first: int, sentence: str) -> None:
    # The checkpoint got to disk, and the losses before it did not.
    heard, _ = make(tmp_path, Engine(first, 30), run.path)
    text = f"The {sentence} not made again: the run goes on from its checkpoint at step {first}."
    assert [event for event in heard.events if isinstance(event, Notice)] == [Notice(level="warning", text=text)]
    assert [event.text for event in load_record(run.path).notices] == [text]
    assert text in (run.path / "log.txt").read_text()
    heard, _ = make(tmp_path, Engine(30, 40), run.path)
    assert [event for event in heard.events if isinstance(event, Notice)] == []


def test_while_it_prepares_the_run_is_shown_as_this_processs_own(tmp_path: Path, run: RunSummary) -> None:
    seen = []

    def engine(config: RunConfig, control: Control) -> Iterator[Event]:
        seen.append(the_run(tmp_path))
        yield from Engine(20, 21)(config, control)

    _, session = make(tmp_path, engine, run.path)
    assert [(row.state, row.pid) for row in seen] == [("queued", os.getpid())]
    assert session.record.started is not None


@pytest.mark.parametrize("ending", ["finished", "failed"])
def test_a_run_that_had_ended_and_whose_process_is_killed_while_it_prepares_has_ended_as_before(run: RunSummary, ending: str) -> None:
    change_state(run.path, state=ending, step=40, error="it \x1b[31mfailed" if ending == "failed" else None)
    ended = read_status(run.path)
    # Twice: the second finds what the first has left.
    for _ in range(2):
        TakenRun(run.path, RunRecord(CONFIG)).beat()
        assert read_status(run.path).state == the_run(run.path.parent).state == "queued"
        kill(run.path)
        row = the_run(run.path.parent)
        assert (row.state, row.live, row.error) == (ending, False, ended.error)
        assert load_record(run.path).state == ending
        assert read_status(run.path).ended == ended.ended is not None
    TakenRun(run.path, RunRecord(CONFIG)).end(None)
    after = read_status(run.path)
    assert (after.state, after.error, after.ended) == (ending, ended.error, ended.ended)


def kill(folder: Path) -> None:
    """To all that is on disk, the process that has the run is there no more."""
    change_state(folder, pid=2**22 + 5)
    for claimed in folder.glob("claim-*.json"):
        claimed.write_text(json.dumps(json.loads(claimed.read_text()) | {"pid": 2**22 + 5}))


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_run_that_another_process_has_is_refused_and_nothing_changes(tmp_path: Path, run: RunSummary) -> None:
    me = msgspec.structs.asdict(this_process())
    (run.path / "claim-5.json").write_text(json.dumps(me | {"taken": 0.0}))
    before, engine = files(run.path), Engine(20, 40)
    _, session = make(tmp_path, engine, run.path)
    assert session.refusal == f"RUN: {run.run} belongs to another process (pid {os.getpid()} on {me['host']}); stop it first."
    assert files(run.path) == before
    assert engine.folders == []


def test_what_the_engine_refuses_leaves_the_folder_as_it_was(tmp_path: Path, run: RunSummary) -> None:
    def refuse(config: RunConfig, control: Control) -> Iterator[Event]:
        yield Notice(text="looking")
        raise ConfigError("data: nothing there.")

    before = files(run.path)
    _, session = make(tmp_path, refuse, run.path, plan(run, {"epochs": "7"}))
    assert session.refusal == "data: nothing there."
    assert files(run.path) == before
    # The claim is released: the next one may have it.
    assert make(tmp_path, Engine(20, 40), run.path)[1].refusal is None


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunSummary, Path]:
    """A run with a model of one's own that was started in another folder, of which the working directory has none; and that folder."""
    project, here = tmp_path / "project", tmp_path / "here"
    for folder in (project, here):
        folder.mkdir()
    (project / "own_net_x.py").touch()
    monkeypatch.chdir(project)
    make(tmp_path / "runs", Engine(0, 20), config=with_changes(CONFIG, {"model": "own_net_x:make"}))
    monkeypatch.chdir(here)
    return the_run(tmp_path / "runs"), project


def test_where_its_own_code_is_not_a_run_says_where_it_was_started(tmp_path: Path, elsewhere: tuple[RunSummary, Path]) -> None:
    run, project = elsewhere
    before = files(run.path)
    _, session = make(tmp_path / "runs", Engine(20, 40), run.path, plan(run, {}))
    here = f"there is no module own_net_x in {tmp_path / 'here'} or in the installed packages"
    assert session.refusal == f"model: 'own_net_x:make': {here}; the run was started in {project}, and goes on from there."
    assert files(run.path) == before


def test_other_code_of_that_name_is_told_of_and_that_of_the_start_is_not(
    tmp_path: Path, elsewhere: tuple[RunSummary, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, project = elsewhere
    here = tmp_path / "here"
    (here / "own_net_x.py").touch()
    heard, _ = make(tmp_path / "runs", Engine(20, 30), run.path, plan(run, {}))
    told = f"The module own_net_x is that of {here}; the run was started in {project}."
    assert [event.text for event in heard.events if isinstance(event, Notice)] == [told]
    # It goes on there from now on.
    heard, session = make(tmp_path / "runs", Engine(30, 35), run.path, plan(the_run(tmp_path / "runs"), {}))
    assert not [event for event in heard.events if isinstance(event, Notice)]
    assert session.refusal is None


def test_where_its_data_folder_has_gone_a_run_says_what_brings_it_back(tmp_path: Path) -> None:
    runs_dir, data, engine = tmp_path / "runs", tmp_path / "pictures", Engine(20, 40)
    data.mkdir()
    config = with_changes(CONFIG, {"data": str(data)})
    make(runs_dir, Engine(0, 20), config=config)
    run = the_run(runs_dir)
    before = files(run.path)
    data.rename(tmp_path / "pictures-2")
    gone = f"data: the folder {data} does not exist. Did you mean 'pictures-2'?"
    _, session = make(runs_dir, engine, run.path, plan(run, {}))
    assert session.refusal == f"{gone} Put it back there, or write its new place into {run.path / 'run.toml'}."
    assert files(run.path) == before
    _, session = make(runs_dir, engine, config=config)
    assert session.refusal == gone, "a new run has no such file"
    assert engine.folders == []


def test_a_run_without_own_code_goes_on_anywhere(tmp_path: Path, run: RunSummary, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment_of(run.path) == {"threads": 2}
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    heard, _ = make(tmp_path, Engine(20, 40), run.path)
    assert not [event for event in heard.events if isinstance(event, Notice)]


def test_a_run_that_fails_before_it_begins_keeps_its_state(tmp_path: Path, run: RunSummary) -> None:
    def fail(config: RunConfig, control: Control) -> Iterator[Event]:
        yield RunEnded(state="failed", step=0, error="no checkpoint")

    before = files(run.path)
    heard, _ = make(tmp_path, fail, run.path)
    assert heard.events[-1] == RunEnded(run=run.run, state="failed", step=20, error="no checkpoint")
    assert files(run.path) == before


@pytest.mark.parametrize(("state", "left"), [("finished", "finished"), ("running", "stopped")])
def test_a_run_that_is_stopped_before_it_begins_again_has_ended_as_before(tmp_path: Path, run: RunSummary, state: str, left: str) -> None:
    # One that was live was handed over, and nobody goes on with it.
    change_state(run.path, state=state, pid=2**22 + 1)

    def end(config: RunConfig, control: Control) -> Iterator[Event]:
        yield RunEnded(state="stopped", step=0)

    make(tmp_path, end, run.path)
    assert the_run(tmp_path).state == left


@pytest.mark.parametrize("damage", ["missing", "garbage", "cut", "empty"])
def test_damaged_metrics_are_set_aside_and_named(tmp_path: Path, run: RunSummary, damage: str) -> None:
    path = run.path / "metrics.sqlite"
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"garbage": b"x" * 5000, "cut": whole[: len(whole) // 2], "empty": b""}[damage])
    _, session = make(tmp_path, Engine(20, 40), run.path)
    assert session.refusal is None
    (text,) = [event.text for event in session.record.notices]
    assert text.startswith("The run's metrics.sqlite is missing" if damage == "missing" else "The run's metrics.sqlite is damaged")
    assert text.endswith("the curves begin anew.")
    assert (run.path / "damaged-1-metrics.sqlite").exists() == (damage != "missing")
    with MetricsReader(path) as reader:
        assert [event.step for _, event in reader.step_events()] == list(range(21, 41))


# -- what a run may go on with ----------------------------------------------------------------------------------------


def change_state(folder: Path, **changes: Any) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps(state | changes))


def test_a_plan_is_the_runs_configuration_with_what_was_asked_for(tmp_path: Path, run: RunSummary) -> None:
    assert plan(run, {}) == CONFIG
    assert plan(run, {"epochs": "4", "max_steps": "100"}) == msgspec.structs.replace(CONFIG, epochs=4, max_steps=100)
    assert plan(run, {"device": "cpu,cpu"}).strategy == "auto"
    assert plan(run, {"device": "cpu,cpu", "strategy": "ddp"}).strategy == "ddp"
    assert plan(run, {"device": "cuda:1"}).strategy == "single"


def test_on_other_devices_the_outputs_are_no_more_gathered_where_they_were(run: RunSummary) -> None:
    before = msgspec.structs.replace(CONFIG, device="cuda:0,cuda:1", strategy="dp", output_device="cuda:1")
    (run.path / "run.toml").write_text(to_toml(before), encoding="utf-8")
    assert plan(run, {"device": "cuda:0,cuda:1"}) == before
    assert plan(run, {"device": "cuda:0,cuda:2"}) == msgspec.structs.replace(before, device="cuda:0,cuda:2", output_device=None)
    assert plan(run, {"device": "cuda:0"}) == msgspec.structs.replace(before, device="cuda:0", strategy="auto", output_device=None)


_MAY_BE_CHANGED = (
    "only device, strategy, epochs, max_steps may be changed. U in the app's list of runs begins another run with its weights."
)


@pytest.mark.parametrize(
    ("state", "changes", "sentence"),
    [
        (
            {"state": "finished", "step": 40},
            {},
            "RUN: {run} has done 40 steps, and with epochs = 1 there are no more than 40; give --epochs a larger number.",
        ),
        (
            {},
            {"max_steps": "10"},
            "RUN: {run} has done 20 steps, and with max_steps = 10 there are no more than 10; give --max-steps a larger number.",
        ),
        ({}, {"lr": "0.5"}, f"lr: a run that goes on keeps its lr; {_MAY_BE_CHANGED}"),
        (
            {"state": "running"},
            {"seed": "x"},
            f"seed: a run that goes on keeps its seed; {_MAY_BE_CHANGED}",
        ),
        ({}, {"momentun": "0.5"}, "momentun: there is no such field. Did you mean 'momentum'?"),
        ({}, {"epochs": "many"}, "epochs: 'many' is not allowed; it must be a whole number of 1 or more."),
        ({}, {"strategy": "dp"}, "strategy: dp (nn.DataParallel) takes GPUs only, and device is 'cpu'; use split."),
        ({"state": "running"}, {}, "RUN: {run} is running (pid {pid} on {host}); stop it first, or attach to it."),
    ],
)
def test_what_cannot_be_is_one_sentence(
    tmp_path: Path, run: RunSummary, state: dict[str, Any], changes: dict[str, str], sentence: str
) -> None:
    # The tests' own process lives, and its pid must not be in a test's name: each of pytest's processes has another.
    change_state(run.path, **state, pid=os.getpid(), pid_started=None)
    if "step" in state:
        (run.path / "checkpoints" / f"step-{state['step']:08d}").mkdir()
    with pytest.raises(ConfigError) as refused:
        plan(the_run(tmp_path), changes)
    assert str(refused.value) == sentence.format(run=run.run, pid=os.getpid(), host=this_process().host)


def test_a_run_that_finished_goes_on_with_more_epochs_and_a_lost_one_as_it_is(tmp_path: Path, run: RunSummary) -> None:
    change_state(run.path, state="finished", step=40)
    assert plan(the_run(tmp_path), {"epochs": "2"}).epochs == 2
    change_state(run.path, state="running", pid=2**22 + 5, step=40)
    assert plan(the_run(tmp_path), {}) == CONFIG


def test_a_run_that_finished_and_whose_last_step_could_not_be_saved_goes_on_to_make_it(tmp_path: Path, run: RunSummary) -> None:
    # Its newest checkpoint is that of step 20.
    change_state(run.path, state="finished", step=40)
    assert plan(the_run(tmp_path), {}) == CONFIG


def test_a_run_with_a_damaged_state_is_refused(tmp_path: Path, run: RunSummary) -> None:
    (run.path / "state.json").write_text("{")
    with pytest.raises(ConfigError, match=rf"^RUN: {run.run}: state.json is damaged: .*[^.]; it cannot go on\.$"):
        plan(the_run(tmp_path), {})


def test_a_beat_that_comes_late_takes_nothing_back(run: RunSummary) -> None:
    started = read_status(run.path).as_started()
    assert started is not None
    record = RunRecord(CONFIG)
    taken = TakenRun(run.path, record)
    archive = taken.begin(CONFIG, started, {})
    begun = read_status(run.path)
    taken.beat()
    assert read_status(run.path) == begun
    archive.close(record)
    taken.end("stopped")

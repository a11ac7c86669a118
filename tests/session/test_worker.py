"""The worker thread with a small engine: order of events, requests, folders, refusals, and that nothing is left behind."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partialmethod
from pathlib import Path

import msgspec
import pytest
from small_sessions import BOUND, Heard, count_to, session_of, started, staying, until

from tuitrain.config import DEFAULTS, ConfigError, RunConfig, with_changes
from tuitrain.events import (
    Checkpoint,
    Eval,
    Event,
    GpuSample,
    Losses,
    Notice,
    Parameter,
    Parameters,
    Predictions,
    Progress,
    RunEnded,
    RunStarted,
    State,
    Step,
)
from tuitrain.paths import METRICS
from tuitrain.runs import claim
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record
from tuitrain.runs.series import Series
from tuitrain.runs.store import MetricsWriter
from tuitrain.session import archive, recorder
from tuitrain.session.archive import Archive
from tuitrain.session.control import Control
from tuitrain.session.worker import WorkerSession


def test_a_run_is_recorded_and_told_in_order(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(250), tmp_path, heard)
    assert session.state == "idle"
    session.start(DEFAULTS)
    heard.wait_for(Step, 250)
    assert session.state == "running"
    session.stop()
    assert session.join(BOUND)
    assert heard.over.is_set()
    assert session.state == "ended"
    assert [event.step for event in heard.events if isinstance(event, Step)] == list(range(1, 251))
    record = session.record
    assert record is not None
    assert (record.state, record.step, len(record.loss)) == ("stopped", 250, 250)
    assert record.path is not None
    assert record.path.parent == tmp_path
    assert isinstance(heard.events[-1], RunEnded)
    assert heard.events[-1].run == record.run == record.path.name


def stopped_at(steps: int, tmp_path: Path, heard: Heard) -> WorkerSession:
    """A session whose run was stopped after so many steps."""
    session = session_of(count_to(steps), tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(Step, steps)
    session.stop()
    assert session.join(BOUND)
    return session


def test_curves_that_are_seldom_shown_take_no_memory(tmp_path: Path, heard: Heard) -> None:
    record = stopped_at(250, tmp_path, heard).record
    assert record is not None
    events = [event for event in heard.events if isinstance(event, Step)]
    for curve, name in ((record.learning_rate, "lr"), (record.speed, "samples_per_second")):
        assert not isinstance(curve, Series)
        assert [curve.at(event.step) for event in events] == [(event.step, getattr(event, name)) for event in events]


def test_listeners_get_batches_not_single_events(tmp_path: Path, heard: Heard) -> None:
    stopped_at(1000, tmp_path, heard)
    assert len(heard.batches) < 100


def test_pause_go_on_and_interrupt(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(1), tmp_path, heard)
    session.start(DEFAULTS)
    session.pause()
    heard.wait_for(State, 2)
    assert session.state == "paused"
    session.resume()
    heard.wait_for(State, 3)
    assert session.state == "running"
    session.interrupt()
    assert session.join(BOUND)
    assert isinstance(heard.events[-1], RunEnded)
    assert heard.events[-1].state == "interrupted"


def test_a_second_start_is_refused_while_the_first_run_lives(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(1), tmp_path, heard)
    session.start(DEFAULTS)
    with pytest.raises(RuntimeError, match="alive"):
        session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    assert len([path for path in tmp_path.iterdir() if not path.name.startswith(".")]) == 2


def test_a_configuration_error_makes_no_folder_and_is_told(tmp_path: Path, heard: Heard) -> None:
    looked = threading.Event()

    def refuse(config: RunConfig, control: Control) -> Iterator[Event]:
        yield Notice(text="looking")
        assert looked.wait(BOUND)
        raise ConfigError("data: nothing there.")

    session = session_of(refuse, tmp_path / "runs", heard)
    session.start(DEFAULTS)
    assert session.state == "preparing"
    looked.set()
    assert session.join(BOUND)
    assert session.refusal == "data: nothing there."
    assert heard.over.is_set()
    assert not (tmp_path / "runs").exists()
    assert session.state == "ended"


@pytest.mark.parametrize("field", ["model", "data"])
@pytest.mark.parametrize("name", ["no_such_module_x", "no_such_module_x.nets"])
def test_a_module_that_is_nowhere_is_told_before_the_engine_is_loaded(tmp_path: Path, heard: Heard, field: str, name: str) -> None:
    def load() -> Callable[[RunConfig, Control], Iterator[Event]]:
        raise AssertionError("torch is loaded")

    session = WorkerSession(load, tmp_path / "runs", lambda: ())
    session.subscribe(heard)
    session.start(with_changes(DEFAULTS, {field: f"{name}:make"}))
    assert session.join(BOUND)
    where = f"in {Path.cwd()} or in the installed packages"
    assert session.refusal == f"{field}: '{name}:make': there is no module no_such_module_x {where}."
    assert not any(isinstance(event, Progress) for event in heard.events)


@pytest.mark.parametrize("value", ["mine_x:make", "mine_x.nets:make", "folder_x.nets:make", "json:make", "__main__:make", "seed-cnn"])
def test_a_module_that_may_be_there_is_left_to_the_engine(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_x.py").write_text("raise SystemExit\n")
    (tmp_path / "folder_x").mkdir()
    session = session_of(count_to(3), tmp_path / "runs", heard)
    session.start(with_changes(DEFAULTS, {"model": value}))
    heard.wait_for(Step, 3)
    session.stop()
    assert session.join(BOUND)
    assert session.refusal is None


def test_an_engine_that_raises_ends_the_run_as_failed(tmp_path: Path, heard: Heard) -> None:
    def broken(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(5)
        yield Step(step=3, epoch=1, loss=1.0, lr=0.1, samples_per_second=1.0)
        # It was written meanwhile.
        yield Checkpoint(step=2, path="somewhere", kind="epoch")
        raise ZeroDivisionError("oops")

    session = session_of(broken, tmp_path, heard)
    session.start(DEFAULTS)
    assert session.join(BOUND)
    ended = heard.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.state, ended.step, ended.error) == ("failed", 3, "ZeroDivisionError: oops")


@pytest.mark.parametrize("prints", [True, False])
def test_what_a_model_raises_is_in_the_log_and_on_stderr_where_that_is_seen(
    tmp_path: Path, heard: Heard, capsys: pytest.CaptureFixture[str], *, prints: bool
) -> None:
    def failing(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(5)
        try:
            raise ZeroDivisionError("oops \x1b[31m")
        except ZeroDivisionError as error:
            control.raised(error)
        yield RunEnded(state="failed", step=1, error="step 1: oops")

    session = session_of(failing, tmp_path, heard)
    session.prints_errors = prints
    session.start(DEFAULTS)
    assert session.join(BOUND)
    assert session.record is not None
    assert session.record.path is not None
    logged = [line.split(" ", 1)[1] for line in (session.record.path / "log.txt").read_text().splitlines()]
    assert logged[-2:] == ["output ZeroDivisionError: oops ·[31m", "error failed: step 1: oops"]
    assert logged[0].startswith("info custom on cpu"), "what came before stands before it"
    assert (capsys.readouterr().err.splitlines()[-1:] == ["ZeroDivisionError: oops ·[31m"]) == prints


def test_a_listener_that_blocks_does_not_hold_up_training(tmp_path: Path) -> None:
    finished = threading.Event()
    release = threading.Event()

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(2000)
        for step in range(1, 2001):
            yield Losses(first_step=step, epoch=1, losses=(1.0,), times=(0.0,))
        finished.set()
        yield RunEnded(state="finished", step=2000)

    session = WorkerSession(lambda: train, tmp_path, lambda: [])
    session.subscribe(lambda batch: release.wait(BOUND) and None)
    session.start(DEFAULTS)
    assert finished.wait(BOUND)
    assert session.state != "ended"
    release.set()
    assert session.join(BOUND)
    assert session.record is not None
    assert len(session.record.loss) == 2000


def test_a_listener_that_raises_costs_nothing(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(50), tmp_path, heard)
    session.subscribe(lambda batch: print(1 // 0))
    session.start(DEFAULTS)
    heard.wait_for(Step, 50)
    session.stop()
    assert session.join(BOUND)
    assert heard.over.is_set()
    assert session.record is not None
    assert session.record.path is not None
    assert MetricsReader(session.record.path / METRICS).last_loss() is not None


def test_a_listener_that_raises_keeps_nobody_from_hearing_that_a_run_let_go_of_was_stopped(tmp_path: Path, heard: Heard) -> None:
    session = WorkerSession(lambda: count_to(5), tmp_path, lambda: [])
    session.subscribe(lambda batch: print(1 // 0))
    session.subscribe(heard)
    session.start(DEFAULTS)
    heard.wait_for(Step, 5)
    assert session.let_go(BOUND)
    session.stop_after_all()
    ended = heard.events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.state, ended.step) == ("stopped", 5)


def test_a_run_that_cannot_be_saved_is_not_let_go_of_and_says_why(tmp_path: Path, heard: Heard) -> None:
    session = session_of(staying, tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(State)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^the run stays here\. The checkpoint at step 1 could not be saved: No space left"):
            session.let_go(BOUND)
        assert session.state == "running"
    session.stop()
    assert session.join(BOUND)
    assert isinstance(heard.events[-1], RunEnded), "the end is told: nobody else has the run"
    assert session.record is not None
    assert session.record.path is not None
    assert load_record(session.record.path).state == "stopped"


def test_a_run_that_ends_by_itself_is_not_let_go_of(tmp_path: Path, heard: Heard) -> None:
    def finishing(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(1)
        yield State(state="running")
        assert control.take(wait=True) == "leave"
        yield RunEnded(state="finished", step=1)

    session = session_of(finishing, tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(State)
    assert not session.let_go(BOUND)
    assert isinstance(heard.events[-1], RunEnded)


def test_a_run_that_is_to_be_paused_hears_so_before_anything_else(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(3), tmp_path, heard)
    session.start(DEFAULTS, paused=True)
    until(lambda: session.state == "paused")
    session.resume()
    until(lambda: session.state == "running")
    session.stop()
    assert session.join(BOUND)


@pytest.mark.parametrize("paused", [False, True])
def test_a_run_that_was_taken_over_ends_here_and_writes_nothing_more(tmp_path: Path, heard: Heard, paused: bool) -> None:
    """As after a machine was suspended, while another one that shares the folder went on with the run."""
    go_on = threading.Event()

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(40)
        yield State(state="running")
        yield Step(step=1, epoch=1, loss=0.5, lr=0.1, samples_per_second=1.0)
        assert go_on.wait(BOUND)
        if paused:
            assert control.take(wait=True) == "resume"
        for step in range(2, 41):
            until(lambda: control.lost is not None)
            yield Step(step=step, epoch=1, loss=0.5, lr=0.1, samples_per_second=1.0)

    session = session_of(train, tmp_path, heard)
    session.start(with_changes(DEFAULTS, {"on_end": f"touch {tmp_path}/ended"}))
    heard.wait_for(Step)
    assert session.record is not None
    folder = session.record.path
    assert folder is not None
    until(lambda: load_record(folder).step == 1)
    (mine,) = folder.glob("claim-*.json")
    holder = msgspec.json.decode(mine.read_bytes())
    (folder / "claim-2.json").write_bytes(msgspec.json.encode({**holder, "host": "gpu-2", "pid": 77}))
    mine.unlink()
    until(lambda: session._control is not None and session._control.lost is not None)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    go_on.set()
    assert session.join(BOUND)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    ended = heard.events[-1]
    assert isinstance(ended, RunEnded)
    why = "pid 77 on gpu-2 has taken the run over, because this process gave no sign for some time; it goes on there."
    assert (ended.state, ended.step, ended.error) == ("failed", 1, why)
    assert not (tmp_path / "ended").exists()


def test_no_thread_is_left(tmp_path: Path, heard: Heard) -> None:
    before = set(threading.enumerate())
    session = session_of(count_to(3), tmp_path, heard)
    session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    assert set(threading.enumerate()) == before


PARAMETERS = Parameters(rows=(Parameter(name="w", shape=(2, 3), count=6, device="cpu", trainable=True),))


def predictions(step: int) -> Predictions:
    return Predictions(step=step, epoch=1, classes=("a",), confusion=((4,),), samples=())


def telling(config: RunConfig, control: Control) -> Iterator[Event]:
    """An engine that says what its network is, and twice what that says of the test samples."""
    yield started(2)
    yield PARAMETERS
    for step in (1, 2):
        yield predictions(step)
    control.take(wait=True)
    yield RunEnded(state="stopped", step=2)


def test_parameters_and_the_newest_predictions_are_kept(tmp_path: Path, heard: Heard) -> None:
    session = session_of(telling, tmp_path, heard)
    session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    assert session.record is not None
    assert (session.record.parameters, session.record.predictions) == (PARAMETERS, predictions(2))
    assert session.record.path is not None
    kept = load_record(session.record.path)
    assert (kept.parameters, kept.predictions) == (PARAMETERS, predictions(2))


def test_a_disk_that_refuses_the_predictions_is_one_notice(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path, event: Event) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "write_network", full)
    session = session_of(telling, tmp_path, heard)
    session.start(DEFAULTS)
    session.stop()
    assert session.join(BOUND)
    assert session.record is not None
    assert session.record.state == "stopped"
    (notice,) = session.record.notices
    assert notice.text.startswith("The run's parameters and predictions cannot be written: No space left on device.")


def test_samples_of_the_runs_own_devices_are_kept(tmp_path: Path, heard: Heard) -> None:
    session = session_of(telling, tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(Predictions)
    for device in ("cpu", "cuda:0"):
        sample = GpuSample(time=5.0, device=device, memory_used=7, utilization=80, power=None, temperature=None)
        session.note_samples([sample])
    session.stop()
    assert session.join(BOUND)
    assert session.record is not None
    assert session.record.path is not None
    for record in (session.record, load_record(session.record.path)):
        assert list(record.devices) == ["cpu"]
        assert record.devices["cpu"].at("utilization", 5.0) == 80.0


def test_what_an_engine_waits_for_is_on_disk_at_once(tmp_path: Path, heard: Heard) -> None:
    kept: list[int] = []

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(4)
        for step in range(1, 5):
            yield Losses(first_step=step, epoch=1, losses=(1.0,), times=(float(step),))
            control.recorded()
            with MetricsReader(control.folder / METRICS) as reader:
                kept.append(reader.last_step())
        yield RunEnded(state="finished", step=4)

    session = session_of(train, tmp_path, heard)
    session.start(DEFAULTS)
    assert session.join(BOUND)
    assert kept == [1, 2, 3, 4]


@pytest.mark.parametrize("fly", [True, False])
def test_evaluations_are_written_at_once_unless_they_fly(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, fly: bool) -> None:
    monkeypatch.setattr(recorder, "BATCH_SECONDS", 0.0)
    monkeypatch.setattr(recorder, "COMMIT_SECONDS", BOUND)
    monkeypatch.setattr(RunRecord, "epochs_fly", fly)
    kept: list[int] = []

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(20)
        for step in range(1, 21):
            yield Losses(first_step=step, epoch=step, losses=(1.0,), times=(float(step),))
            yield Eval(step=step, epoch=step, loss=1.0, loss_sum=1.0, accuracy=0.5)
            heard.wait_for(Eval, step)
            with MetricsReader(control.folder / METRICS) as reader:
                kept.append(len(reader.evals()))
        yield RunEnded(state="finished", step=20)

    session = session_of(train, tmp_path, heard)
    session.start(DEFAULTS)
    assert session.join(BOUND)
    # The first one may come together with the start, which is written at once.
    assert max(kept) <= 1 if fly else kept == list(range(1, 21))
    assert len(load_record(session.record.path).evals) == 20


def mistaken_about(step: int) -> Callable[[RunRecord, Event], None]:
    """An `apply` that has a mistake about one step."""
    apply = RunRecord.apply

    def applied(record: RunRecord, event: Event) -> None:
        if isinstance(event, Step) and event.step == step:
            raise ZeroDivisionError("a mistake")
        apply(record, event)

    return applied


def test_a_mistake_about_one_event_does_not_end_the_writing(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunRecord, "apply", mistaken_about(3))
    record = stopped_at(5, tmp_path, heard).record
    assert heard.over.is_set()
    assert record is not None
    assert record.path is not None
    assert (record.state, load_record(record.path).state) == ("stopped", "stopped")
    with MetricsReader(record.path / METRICS) as reader:
        assert reader.last_step() == 5


def test_what_could_not_be_written_to_the_end_stands_in_the_log(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(own: MetricsWriter) -> bool:
        own.error = "database or disk is full"
        return False

    monkeypatch.setattr(MetricsWriter, "commit", full)
    monkeypatch.setattr(MetricsWriter, "close", partialmethod(MetricsWriter.close, timeout=0.0))
    record = stopped_at(5, tmp_path, heard).record
    assert record is not None
    assert record.path is not None
    said = [notice.text for notice in record.notices]
    assert said[0] == "The run's metrics cannot be written: database or disk is full. Training goes on; it is tried again."
    assert re.fullmatch(r"\d+ events could not be written to the run's metrics: database or disk is full\.", said[1])
    logged = [line.split(" ", 2)[1:] for line in (record.path / "log.txt").read_text().splitlines()]
    assert [text for level, text in logged if level == "warning"] == said


def test_text_that_is_no_unicode_costs_nothing_else(tmp_path: Path, heard: Heard) -> None:
    def broken(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(1)
        yield Notice(text="caf\udce9 is skipped")
        yield Losses(first_step=1, epoch=1, losses=(0.5,), times=(1.0,))
        raise OSError("caf\udce9 cannot be read")

    session = session_of(broken, tmp_path, heard)
    session.start(DEFAULTS)
    assert heard.over.wait(BOUND)
    assert session.record is not None
    assert session.record.path is not None
    kept = load_record(session.record.path)
    assert (kept.state, kept.step, kept.error) == ("failed", 1, "OSError: caf· cannot be read")
    assert [notice.text for notice in kept.notices] == ["caf· is skipped"]


def test_a_mistake_at_the_last_writing_does_not_keep_the_end_from_anybody(
    tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(own: Archive, record: RunRecord) -> list[Notice]:
        raise ZeroDivisionError

    monkeypatch.setattr(Archive, "close", mistaken)
    record = stopped_at(5, tmp_path, heard).record
    assert heard.over.is_set()
    assert record is not None
    assert record.path is not None
    assert not claim.is_claimed(record.path, but_by="")


def test_without_tensorboard_a_run_is_kept_and_says_so_once(tmp_path: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where protobuf does not fit it, which is a TypeError at the import."""
    tries: list[Path] = []

    def broken(folder: Path, earlier: Sequence[Event]) -> None:
        tries.append(folder)
        raise TypeError("Descriptors cannot be created directly.")

    monkeypatch.setattr(archive, "TensorBoardWriter", broken)
    record = stopped_at(250, tmp_path, heard).record
    assert record is not None
    assert record.path is not None
    said = "The run's TensorBoard file cannot be written: Descriptors cannot be created directly. Training goes on without it."
    assert [notice.text for notice in record.notices] == [said]
    with MetricsReader(record.path / METRICS) as reader:
        assert [notice.text for _, notice in reader.notices()] == [said]
    assert len(tries) == 1


def test_a_run_is_let_go_of_while_the_command_after_an_earlier_one_runs(tmp_path: Path, heard: Heard) -> None:
    session = session_of(count_to(5), tmp_path, heard)
    session.start(with_changes(DEFAULTS, {"on_end": "exec sleep 1000"}))
    session.stop()
    until(lambda: session.state == "ended")
    session.start(DEFAULTS)
    heard.wait_for(Step, 10)
    assert session.let_go(BOUND / 4)
    session.stop_after_all()
    session.interrupt()
    assert session.join(BOUND)


def test_a_run_that_comes_to_the_end_of_no_step_is_not_let_go_of_later(tmp_path: Path, heard: Heard) -> None:
    go_on = threading.Event()

    def train(config: RunConfig, control: Control) -> Iterator[Event]:
        yield started(1)
        assert go_on.wait(BOUND)
        assert control.take(wait=True) == "leave"
        yield RunEnded(state="stopped", step=1)

    session = session_of(train, tmp_path, heard)
    session.start(DEFAULTS)
    heard.wait_for(RunStarted)
    with pytest.raises(ConfigError, match=r"did not come to the end of a step within 0 s; it stops at the next one\.$"):
        session.let_go(0.01)
    go_on.set()
    assert session.join(BOUND)
    assert isinstance(heard.events[-1], RunEnded)
    assert session.record is not None
    assert session.record.path is not None
    assert load_record(session.record.path).state == "stopped"

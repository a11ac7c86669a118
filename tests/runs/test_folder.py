"""The run folder: whole or not at all, for its owner alone, its names easy to type."""

import math
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import threading
import time

import msgspec
import pytest
from small_runs import STARTED, evaluation, losses, make_run

from tuitrain.config import DEFAULTS, ConfigError
from tuitrain.events import RunEnded, State
from tuitrain.paths import ANOTHER_RUNS_DIR
from tuitrain.recipes import load_recipe
from tuitrain.runs import folder as folder_module
from tuitrain.runs import process as process_module
from tuitrain.runs.errors import RunError
from tuitrain.runs.folder import RunFolder, new_id
from tuitrain.runs.for_script import for_script
from tuitrain.runs.logtail import LogLine
from tuitrain.runs.process import this_process
from tuitrain.runs.record import RunRecord
from tuitrain.runs.status import has_process, is_lost, read_status

MORNING = 1795234380.0
"""2026-11-21 04:13 UTC."""


def create(runs_dir, **changes):
    config = msgspec.structs.replace(load_recipe("seed-cnn"), **changes)
    return RunFolder.create(runs_dir, config, STARTED, {"threads": 2, "torch": "2.15.0"})


@pytest.mark.parametrize("make", [lambda path: path.touch(), lambda path: path.symlink_to("nowhere")], ids=["file", "link"])
def test_a_file_in_the_place_of_the_runs_folder_is_said_to_be_no_folder(tmp_path, make):
    make(tmp_path / "runs")
    with pytest.raises(ConfigError, match=rf"^the runs folder .*/runs cannot be written: it is no folder; {ANOTHER_RUNS_DIR}\.$"):
        create(tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("seed-cnn", "seed-cnn"),
        ("My Net (v2)", "my-net-v2"),
        ("../../etc/passwd", "etc-passwd"),
        ("[/]\x1b]52;c;eA==\x1b\\", "52-c-ea"),
        ("网络", "run"),
        ("", "run"),
        ("a" * 23 + "-long-name", "a" * 23),
    ],
)
def test_an_id_sorts_by_time_and_is_easy_to_type(name, slug):
    assert re.fullmatch(rf"20261121-0413-{slug}-[0-9a-z]{{3}}", new_id(name, MORNING))


def test_an_id_does_not_touch_the_runs_random_numbers():
    random.seed(1)
    first, before = new_id("x", MORNING), random.getstate()
    random.seed(1)
    assert random.getstate() == before
    assert len({first, *(new_id("x", MORNING) for _ in range(20))}) > 1


def test_a_new_folder_is_complete(runs_dir):
    made = create(runs_dir / "deeper", note="the first try")
    names = {path.name for path in made.path.iterdir()}
    assert names == {"run.toml", "state.json", "metrics.sqlite", "log.txt", "checkpoints", "tensorboard"}
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (made.path, made.path.parent)} == {0o700}
    assert os.listdir(made.path.parent) == [made.id]
    assert load_recipe(str(made.path / "run.toml")) == msgspec.structs.replace(load_recipe("seed-cnn"), note="the first try")
    assert "[environment]\nthreads = 2" in (made.path / "run.toml").read_text()
    status = read_status(made.path)
    assert status == made.status
    assert (status.state, status.pid, status.device, status.parameters) == ("queued", os.getpid(), ("cpu",), 145_578)
    assert status.note == "the first try"
    assert msgspec.structs.asdict(this_process()).items() <= msgspec.structs.asdict(status).items()


def test_a_custom_run_is_called_by_its_name(runs_dir):
    config = msgspec.structs.replace(DEFAULTS, name="My Net")
    assert "-my-net-" in RunFolder.create(runs_dir, config, STARTED, {}).id
    assert "-custom-" in RunFolder.create(runs_dir, DEFAULTS, STARTED, {}).id
    assert "-seed-cnn-" in create(runs_dir, name="My Net").id, "one of a recipe is called by that"


def test_a_name_that_is_taken_is_left_alone(runs_dir, monkeypatch):
    ids = iter(["same", "same", "other"])
    monkeypatch.setattr(folder_module, "new_id", lambda name, now: next(ids))
    first = create(runs_dir)
    before = (first.path / "run.toml").stat().st_mtime_ns
    assert create(runs_dir).id == "other"
    assert (first.path / "run.toml").stat().st_mtime_ns == before
    assert sorted(os.listdir(runs_dir)) == ["other", "same"]


def test_many_at_once_get_folders_of_their_own(runs_dir):
    made = []
    threads = [threading.Thread(target=lambda: made.append(create(runs_dir).id)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == sorted(os.listdir(runs_dir))
    assert len(made) == 6


def test_a_folder_that_cannot_be_made_leaves_nothing(runs_dir, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_module, "write_atomically", full)
    with pytest.raises(ConfigError, match=rf"^the runs folder .*/runs cannot be written: No space left on device; {ANOTHER_RUNS_DIR}\.$"):
        create(runs_dir)
    assert os.listdir(runs_dir) == []


def test_what_a_killed_process_left_of_a_new_folder_goes_with_a_later_start(runs_dir):
    old, new = (runs_dir / f".new-{name}" for name in ("old", "new"))
    for left in (old, new):
        (left / "checkpoints").mkdir(parents=True)
    os.utime(old, (1000.0, 1000.0))
    made = create(runs_dir)
    assert sorted(os.listdir(runs_dir)) == sorted([new.name, made.id])


def test_what_a_killed_process_left_beside_a_file_goes_when_the_run_is_taken(runs_dir):
    made = create(runs_dir)
    before = sorted(os.listdir(made.path))
    for name in ("state.json", "run.toml", "parameters.json"):
        (made.path / f".{name}.4711").touch()
    (made.path / ".label.json.4711").touch()
    RunFolder.open(made.path)
    assert sorted(os.listdir(made.path)) == sorted([".label.json.4711", *before])


def test_state_is_replaced_whole(runs_dir, monkeypatch):
    made = create(runs_dir)
    made.write_state(msgspec.structs.replace(made.status, state="running", step=7))
    assert read_status(made.path).step == 7
    assert made.status.step == 7
    monkeypatch.setattr(os, "fsync", lambda descriptor: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        made.write_state(msgspec.structs.replace(made.status, step=8))
    assert read_status(made.path).step == 7
    assert made.status.step == 7
    assert not [path for path in made.path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("read", [read_status, for_script])
def test_a_run_that_has_gone_is_said_to_have_gone(runs_dir, read):
    made = create(runs_dir)
    shutil.rmtree(made.path)
    with pytest.raises(RunError, match=rf"^{made.id} is not there any more\.$"):
        read(made.path)


def test_the_log_gets_clean_lines_with_time_and_level(runs_dir):
    made = create(runs_dir)
    made.log([LogLine(MORNING, "warning", "no\x1b[2J\ncontrol"), LogLine(MORNING + 0.5, "output", "x")])
    made.log([])
    expected = "2026-11-21T04:13:00.000Z warning no·[2J·control\n2026-11-21T04:13:00.500Z output x\n"
    assert (made.path / "log.txt").read_text() == expected


# -- is the process still there ---------------------------------------------------------------------------------------


def test_a_live_run_of_this_process_is_not_lost(run_folder):
    status = msgspec.structs.replace(run_folder.status, state="running")
    assert not is_lost(status, status.heartbeat + 10_000)


@pytest.mark.parametrize(
    "changes",
    [{"pid": 2**22 + 5}, {"pid": -1}, {"pid_started": 12.0}, {"host": "elsewhere", "heartbeat": 0.0}],
)
@pytest.mark.parametrize("state", ["queued", "running", "paused"])
def test_a_live_state_without_its_process_is_lost(run_folder, state, changes):
    status = msgspec.structs.replace(run_folder.status, state=state, **changes)
    assert is_lost(status, 1_000.0 if "heartbeat" in changes else status.heartbeat)
    assert not is_lost(msgspec.structs.replace(status, state="finished"), status.heartbeat + 1e6)


@pytest.mark.parametrize("where", [{"host": "elsewhere"}, {"pid_namespace": 5}, {"boot_id": "another"}])
def test_another_host_another_container_and_another_machine_of_the_name_are_believed_for_a_minute(run_folder, where):
    status = msgspec.structs.replace(run_folder.status, state="running", pid=1, **where)
    assert not is_lost(status, status.heartbeat + 59)
    assert is_lost(status, status.heartbeat + 61)


def test_a_run_without_a_process_has_none_on_another_host_either(run_folder):
    status = msgspec.structs.replace(run_folder.status, host="elsewhere")
    assert [has_process(msgspec.structs.replace(status, pid=pid), status.heartbeat) for pid in (0, 1)] == [False, True]


def test_a_run_from_before_a_reboot_is_lost_at_once(run_folder, monkeypatch):
    status = msgspec.structs.replace(run_folder.status, state="running", boot_id="another")
    monkeypatch.setattr(process_module, "_booted", lambda: status.heartbeat + 1)
    assert is_lost(status, status.heartbeat + 2)
    assert not is_lost(msgspec.structs.replace(status, host="elsewhere"), status.heartbeat + 2)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody asks")
def test_the_machine_started_before_its_processes_did():
    since_then = this_process().pid_started
    assert since_then is not None
    assert time.time() - process_module._booted() > since_then > 0


@pytest.mark.parametrize("start_time", [process_module.start_time, process_module._start_on_other_systems])
def test_a_zombie_is_no_process(start_time):
    assert start_time(os.getpid()) is not None
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(child.pid) is None


def test_a_state_follows_the_record(runs_dir):
    made, record = create(runs_dir), RunRecord(DEFAULTS)
    made.status = msgspec.structs.replace(made.status, heartbeat=0.0)
    record.attached = 2
    for event in (State(state="running"), losses(1, [2.0, 1.5], epoch=3), evaluation(2, 3, 0.4)):
        record.apply(event)
    running = made.status.with_record(record)
    assert (running.state, running.step, running.epoch, running.loss, running.accuracy) == ("running", 2, 3, 1.5, 0.4)
    assert (running.attached, running.ended, running.error) == (2, None, None)
    assert running.heartbeat > time.time() - 60
    for event in (losses(3, [math.nan], epoch=3), RunEnded(state="failed", step=3, error="the loss is NaN")):
        record.apply(event)
    failed = running.with_record(record)
    assert (failed.state, failed.step, failed.loss, failed.attached, failed.error) == ("failed", 3, None, 0, "the loss is NaN")
    assert failed.ended >= failed.started
    assert msgspec.structs.replace(failed, ended="before").with_record(record).ended == "before"


def test_a_state_says_what_the_run_said_when_it_began(run_folder):
    assert run_folder.status.as_started() == msgspec.structs.replace(STARTED, run=run_folder.id)
    assert msgspec.structs.replace(run_folder.status, steps_per_epoch=0).as_started() is None


def test_a_run_that_goes_on_with_other_devices_keeps_what_it_had_trained_with(runs_dir):
    run = create(runs_dir)
    assert (run.status.device, run.status.strategy) == (("cpu",), "single")

    def goes_on(step, devices, strategy):
        config = msgspec.structs.replace(load_recipe("seed-cnn"), device=",".join(devices), strategy=strategy)
        started = msgspec.structs.replace(STARTED, device=devices, strategy=strategy, resumed_from=step)
        run.begin_again(config, started, {"threads": 2})
        return for_script(run.path)[2]

    assert goes_on(10, ("cpu",), "single") == {"threads": 2}
    before = "single on cpu up to step 1,020"
    assert goes_on(1020, ("cpu", "cpu"), "split")["trained_before"] == before
    assert goes_on(1030, ("cpu", "cpu"), "split")["trained_before"] == before
    assert goes_on(1040, ("cpu",), "single")["trained_before"] == f"{before}; split on cpu ×2 up to step 1,040"


@pytest.mark.parametrize(("changes", "said"), [({"lr_schedule": "triangle"}, "20 planned steps up to step 12"), ({}, None)])
def test_a_run_that_goes_on_further_keeps_the_plan_by_which_its_learning_rates_were(runs_dir, changes, said):
    run = create(runs_dir, **changes)
    config = msgspec.structs.replace(load_recipe("seed-cnn"), **changes)
    run.begin_again(config, msgspec.structs.replace(STARTED, total_steps=40, resumed_from=12), {})
    assert for_script(run.path)[2].get("trained_before") == said


def test_a_run_that_ended_says_when(runs_dir):
    status = make_run(runs_dir).status
    assert (status.state, status.step, status.epoch, status.loss, status.accuracy) == ("finished", 20, 2, pytest.approx(1.0), 0.6)
    assert status.started <= status.ended

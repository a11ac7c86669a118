"""Why a run is lost, as the list, the opened run and `show` say it."""

import msgspec
import pytest
from small_runs import make_run

from tuitrain.runs import gone
from tuitrain.runs import process as process_module
from tuitrain.runs.catalogue import list_runs
from tuitrain.runs.gone import memory_kills, more_kills, why_lost
from tuitrain.runs.report import show
from tuitrain.runs.saved import load_record

NOBODY = 2**22 + 5
GONE = "The process that trained it is gone; what it had written is kept."


@pytest.fixture
def lost(run_folder):
    return msgspec.structs.replace(run_folder.status, state="running", pid=NOBODY, memory_kills=7)


@pytest.mark.parametrize(("kills", "perhaps"), [(7, False), (8, True), (None, False)])
def test_memory_that_ran_out_may_have_been_the_end(lost, run_folder, monkeypatch, kills, perhaps):
    monkeypatch.setattr(gone, "memory_kills", lambda: kills)
    words = why_lost(lost, run_folder.path)
    assert ("perhaps for want of memory" in words) == perhaps
    assert perhaps or words == GONE


def test_what_another_machine_ran_out_of_says_nothing_here(lost, run_folder, monkeypatch):
    monkeypatch.setattr(gone, "memory_kills", lambda: 8)
    elsewhere = msgspec.structs.replace(lost, host="elsewhere", boot_id="another")
    assert why_lost(elsewhere, run_folder.path) == (
        "The process that trained it on elsewhere has given no sign for more than a minute; what it had written is kept."
    )


def test_a_container_that_shares_the_machine_ran_out_of_the_same_memory(lost, run_folder, monkeypatch):
    monkeypatch.setattr(gone, "memory_kills", lambda: 8)
    assert "want of memory" in why_lost(msgspec.structs.replace(lost, pid_namespace=5), run_folder.path)


def test_a_machine_that_was_started_anew_is_told(lost, run_folder, monkeypatch):
    monkeypatch.setattr(process_module, "_booted", lambda: lost.heartbeat + 1)
    words = why_lost(msgspec.structs.replace(lost, boot_id="another"), run_folder.path)
    assert words == f"{lost.host} was started anew while it trained; what it had written is kept."


def test_it_is_said_wherever_the_run_is_shown(runs_dir):
    folder = make_run(runs_dir, state="running", pid=NOBODY)
    assert load_record(folder.path).error == GONE
    assert [run.error for run in list_runs(runs_dir)] == [GONE]
    assert f"lost: {GONE}" in show(runs_dir, "last", as_json=False)


@pytest.mark.skipif(memory_kills() is None, reason="this system does not tell")
def test_the_count_is_the_systems_and_each_sign_of_life_has_it(run_folder):
    before = memory_kills()
    assert isinstance(before, int)
    run_folder.write_state(run_folder.status)
    assert before <= run_folder.status.memory_kills <= memory_kills()


@pytest.mark.parametrize("content", ["", "nr_free_pages 5\n", "oom_kill many\n"])
def test_a_system_that_does_not_count_blames_nobody(tmp_path, monkeypatch, content):
    (tmp_path / "vmstat").write_text(content)
    monkeypatch.setattr(gone, "_COUNTS", str(tmp_path / "vmstat"))
    assert memory_kills() is None
    assert not more_kills(5, None)
    assert not more_kills(None, 5)

"""Names and notes given afterwards: kept beside the run's own files, and shown wherever the run is."""

import os
import shutil
import time

import msgspec
import pytest
from small_runs import make_run

from tuitrain.config import ConfigError, with_changes
from tuitrain.recipes import load_recipe
from tuitrain.runs import report
from tuitrain.runs.catalogue import find, list_runs
from tuitrain.runs.errors import RunError
from tuitrain.runs.label import Label, annotate, read_label, rename
from tuitrain.runs.made_with import config_of
from tuitrain.runs.removal import check_deletable
from tuitrain.runs.saved import load_record
from tuitrain.runs.shelf import Shelf
from tuitrain.runs.status import read_status

NAMED = with_changes(load_recipe("seed-cnn"), {"name": "first", "note": "as started"})


@pytest.fixture
def named(runs_dir):
    return make_run(runs_dir, NAMED)


def test_without_a_label_the_run_is_called_what_it_was_started_with(runs_dir, named):
    [run] = list_runs(runs_dir)
    assert (run.name, run.note) == ("first", "as started")
    assert read_label(named.path) == Label()


def test_a_new_name_and_note_are_seen_everywhere(runs_dir, named):
    rename(named.path, "  second ")
    annotate(named.path, "warm-up")
    [run] = list_runs(runs_dir)
    assert (run.name, run.note) == ("second", "warm-up")
    assert (config_of(run.path).name, config_of(run.path).note) == ("second", "warm-up")
    assert (read_status(named.path).name, load_record(named.path).config.title()) == ("second", "second")
    assert msgspec.json.decode(report.runs(runs_dir, as_json=True))[0]["name"] == "second"
    shown = msgspec.json.decode(report.show(runs_dir, named.id, as_json=True))
    assert (shown["name"], shown["config"]["note"]) == ("second", "warm-up")
    assert "second" in report.show(runs_dir, named.id, as_json=False)
    assert "note" not in run.to_json()


def test_the_run_goes_on_writing_its_state_and_the_name_stays(runs_dir, named):
    rename(named.path, "second")
    named.write_state(msgspec.structs.replace(named.status, step=99))
    [run] = list_runs(runs_dir)
    assert (run.name, run.step) == ("second", 99)


def test_an_empty_name_is_the_recorded_one_and_an_empty_note_is_none(runs_dir, named):
    rename(named.path, "second")
    rename(named.path, "   ")
    annotate(named.path, "")
    [run] = list_runs(runs_dir)
    assert (run.name, run.note) == ("first", "")


def test_one_of_the_two_leaves_the_other(named):
    rename(named.path, "second")
    annotate(named.path, "x")
    rename(named.path, "third")
    assert read_label(named.path) == Label(name="third", note="x")


def test_control_characters_are_replaced_going_in_and_coming_out(runs_dir, named):
    rename(named.path, "a\x1b[2J\u202eb")
    assert msgspec.json.decode((named.path / "label.json").read_bytes()) == {"name": "a·[2J·b"}
    (named.path / "label.json").write_bytes(msgspec.json.encode({"name": "\x9bx", "note": "\x07深"}))
    [run] = list_runs(runs_dir)
    assert (run.name, run.note) == ("·x", "·深")


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 3}', b'{"name": "\xff"}', b"\xff\xfe", b"[]"])
def test_a_damaged_label_is_none(runs_dir, named, content):
    (named.path / "label.json").write_bytes(content)
    assert list_runs(runs_dir)[0].name == "first"
    rename(named.path, "again")
    assert list_runs(runs_dir)[0].name == "again"


def test_a_run_without_a_state_has_its_label_too(runs_dir, named):
    rename(named.path, "second")
    (named.path / "state.json").unlink()
    [run] = list_runs(runs_dir)
    assert (run.state, run.name) == ("lost", "second")


def test_a_folder_that_is_gone_is_a_sentence(named):
    shutil.rmtree(named.path)
    with pytest.raises(ConfigError, match=rf"^RUN: {named.path.name} is not there any more\.$"):
        rename(named.path, "x")


def test_a_label_that_cannot_be_written_is_a_sentence(named):
    (named.path / "label.json").mkdir()
    with pytest.raises(ConfigError, match=rf"^{named.path.name}: label\.json cannot be written: Is a directory\.$"):
        annotate(named.path, "x")


def test_a_copied_folder_keeps_its_label(runs_dir, named):
    rename(named.path, "second")
    shutil.copytree(named.path, runs_dir / "20990101-0000-copy-aaa")
    assert find(runs_dir, "20990101").name == "second"


# -- the list for somebody who looks at it for long -------------------------------------------------------------------------


def test_the_shelf_says_what_the_list_says(runs_dir, named):
    shelf = Shelf(runs_dir)
    other = make_run(runs_dir, started="2020-01-01T00:00:00.000Z")
    (runs_dir / "notes").mkdir()
    assert shelf.read() == list_runs(runs_dir)
    assert len(shelf.read()) == 2
    rename(other.path, "changed")
    assert [run.name for run in shelf.read()] == ["first", "changed"]
    named.write_state(msgspec.structs.replace(named.status, step=7))
    assert shelf.read()[0].step == 7
    (other.path / "state.json").write_text("{")
    assert shelf.read()[1].broken
    shutil.rmtree(other.path)
    assert shelf.read() == list_runs(runs_dir)


def test_the_shelf_reads_again_what_could_not_be_read(runs_dir, named, monkeypatch):
    def refuse(*given):
        raise OSError(5, "Input/output error")

    shelf = Shelf(runs_dir)
    with monkeypatch.context() as patched:
        patched.setattr("tuitrain.runs.status.read_in", refuse)
        assert shelf.read()[0].broken
    assert shelf.read() == list_runs(runs_dir)


def test_the_shelf_reads_an_unchanged_run_once_and_a_live_one_always(runs_dir, named, opened):
    live = make_run(runs_dir, state="running", pid=2**22 + 5)
    shelf = Shelf(runs_dir)
    assert [run.state for run in shelf.read()].count("lost") == 1
    opened.clear()
    shelf.read()
    assert not opened
    live.write_state(msgspec.structs.replace(live.status, host="elsewhere", heartbeat=time.time()))
    assert {run.state for run in shelf.read()} == {"running", "finished"}
    opened.clear()
    shelf.read()
    assert {path.parent for path in opened} == {live.path}


def test_the_newest_come_first_and_are_not_read_again(runs_dir, opened):
    folders = [make_run(runs_dir, started=f"202{year}-01-01T00:00:00.000Z").path for year in (1, 3, 2)]
    renamed = [folder.rename(runs_dir / f"202{year}0101-0000-run") for folder, year in zip(folders, (1, 3, 2), strict=True)]
    shelf = Shelf(runs_dir)
    opened.clear()
    found = shelf.newest(2)
    assert found is not None
    assert ([run.path for run in found[0]], found[1]) == ([renamed[1], renamed[2]], 1)
    assert {path.parent for path in opened} == set(renamed[1:])
    opened.clear()
    assert [run.path for run in shelf.read()] == [renamed[1], renamed[2], renamed[0]]
    assert {path.parent for path in opened} == {renamed[0]}
    opened.clear()
    assert shelf.newest(3) is None
    assert not opened


def test_no_folder_is_an_empty_shelf_and_a_file_is_a_sentence(runs_dir):
    assert Shelf(runs_dir).read() == []
    runs_dir.touch()
    with pytest.raises(ConfigError, match="cannot be read: Not a directory"):
        Shelf(runs_dir).read()


def test_only_ended_runs_may_be_deleted(runs_dir, named):
    check_deletable(find(runs_dir, named.id))
    live = make_run(runs_dir, state="paused")
    with pytest.raises(ConfigError, match=rf"{live.id} is paused \(pid {os.getpid()} on .*\); stop it first\."):
        check_deletable(find(runs_dir, live.id))


def test_a_run_that_cannot_be_looked_into_is_not_said_to_be_gone(out_of_sight, as_another_user):
    def look():
        with pytest.raises(RunError, match=r"^folder: label\.json cannot be written: Permission denied\.$"):
            annotate(out_of_sight, "x")

    as_another_user(look)

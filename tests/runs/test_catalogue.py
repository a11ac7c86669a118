"""The list of runs: read from state.json alone, broken folders included; finding, showing and deleting."""

import os
import shutil
import time

import msgspec
import pytest
from small_runs import make_run

from tuitrain.config import ConfigError, with_changes
from tuitrain.recipes import load_recipe
from tuitrain.runs import claim, label, removal, report
from tuitrain.runs.catalogue import find, list_runs
from tuitrain.runs.label import rename
from tuitrain.runs.process import this_process
from tuitrain.runs.removal import delete
from tuitrain.runs.status import InQueue

KEYS = [
    "run",
    "name",
    "recipe",
    "state",
    "attached",
    "device",
    "strategy",
    "data",
    "step",
    "epoch",
    "loss",
    "accuracy",
    "started",
    "host",
    "pid",
]


def test_no_folder_and_no_runs(runs_dir):
    assert list_runs(runs_dir) == []
    with pytest.raises(ConfigError, match=r"RUN: there are no runs in .* yet\."):
        find(runs_dir, "last")
    assert report.runs(runs_dir, as_json=True) == "[]"
    assert "no runs in" in report.runs(runs_dir, as_json=False)


def test_a_row_has_the_fields_of_the_contract(runs_dir):
    run_folder = make_run(runs_dir, name="Mine")
    [row] = msgspec.json.decode(report.runs(runs_dir, as_json=True))
    assert list(row) == KEYS
    assert row["device"] == ["cpu"]
    status = run_folder.status
    assert row == {
        "run": run_folder.id,
        "name": "Mine",
        "recipe": "seed-cnn",
        "state": "finished",
        "attached": 0,
        "device": ["cpu"],
        "strategy": "single",
        "data": "synthetic",
        "step": 20,
        "epoch": 2,
        "loss": pytest.approx(1.0),
        "accuracy": 0.6,
        "started": status.started,
        "host": status.host,
        "pid": os.getpid(),
    }


def test_only_a_live_run_is_attached_and_only_a_queued_one_in_the_queue(runs_dir):
    queue = InQueue(since=1.0)
    ended, live = (make_run(runs_dir, state=state, attached=2, queue=queue, started=state) for state in ("failed", "running"))
    assert [(run.run, run.attached, run.queue, run.pid) for run in list_runs(runs_dir)] == [
        (live.id, 2, None, os.getpid()),
        (ended.id, 0, None, os.getpid()),
    ]


def test_newest_first_also_within_a_minute(runs_dir):
    made = [make_run(runs_dir, started=f"2026-11-21T04:13:0{second}.000Z").id for second in (3, 1, 2)]
    assert [run.run for run in list_runs(runs_dir)] == [made[0], made[2], made[1]]
    assert find(runs_dir, "last").run == made[0]


def test_broken_folders_are_rows_that_say_why(runs_dir, run_folder):
    torn, empty, wrong = (runs_dir / f"20200101-000{number}-x-abc" for number in range(3))
    for path in (torn, empty, wrong):
        shutil.copytree(run_folder.path, path)
    state = (torn / "state.json").read_bytes()
    (torn / "state.json").write_bytes(state[: len(state) // 2])
    (empty / "state.json").unlink()
    label.rename(empty, "Mine")
    label.annotate(empty, "again")
    (wrong / "state.json").write_bytes(state.replace(b'"finished"', b'"melted"'))
    (runs_dir / "notes").mkdir()
    shutil.copytree(run_folder.path, runs_dir / ".deleted-x")
    (runs_dir / "file.txt").touch()
    runs = list_runs(runs_dir)
    assert [run.run for run in runs] == [run_folder.id, wrong.name, empty.name, torn.name]
    assert [run.state for run in runs] == ["finished", "lost", "lost", "lost"]
    assert "melted" in runs[1].broken
    assert "No such file" in runs[2].broken
    assert "damaged" in runs[3].broken
    assert [(run.started, run.name, run.note) for run in runs[2:]] == [
        ("2020-01-01T00:01:00.000Z", "Mine", "again"),
        ("2020-01-01T00:00:00.000Z", "", ""),
    ]
    text = report.runs(runs_dir, as_json=False)
    assert runs[1].broken in text
    (wrong / "state.json").write_bytes(state.replace(b'"finished"', b'"\xff"'))
    assert "damaged" in find(runs_dir, wrong.name).broken
    delete(torn)
    assert torn.name not in os.listdir(runs_dir)


def test_a_renamed_copy_is_a_run_of_its_own(runs_dir, run_folder):
    shutil.copytree(run_folder.path, runs_dir / "20990101-0000-copy-aaa")
    assert find(runs_dir, "20990101").run == "20990101-0000-copy-aaa"


def test_only_state_and_label_files_are_read(runs_dir, run_folder, opened):
    for number in range(200):
        (runs_dir / f"20210101-0000-copy-{number:03}").mkdir()
        shutil.copy(run_folder.path / "state.json", runs_dir / f"20210101-0000-copy-{number:03}")
    opened.clear()
    assert len(list_runs(runs_dir)) == 201
    assert sorted(path.name for path in opened) == ["label.json"] * 201 + ["state.json"] * 201


def test_find_by_id_prefix_and_last(runs_dir):
    first = make_run(runs_dir, started="2026-01-01T00:00:00.000Z")
    second = make_run(runs_dir, load_recipe("multi-gpu"), started="2026-01-02T00:00:00.000Z")
    assert find(runs_dir, first.id).path == first.path
    assert find(runs_dir, second.id[:-2]).run == second.id
    assert find(runs_dir, "last").run == second.id
    with pytest.raises(ConfigError, match="is the start of 2 runs: ") as raised:
        find(runs_dir, "20")
    assert first.id in str(raised.value)
    with pytest.raises(ConfigError, match=rf"there is no run '{first.id}x'\. Did you mean '{first.id}'\?"):
        find(runs_dir, f"{first.id}x")
    for part in (first.id[-6:], first.id[-3:]):
        with pytest.raises(ConfigError, match=rf"there is no run '{part}'\. Did you mean '{first.id}'\?"):
            find(runs_dir, part)
    with pytest.raises(
        ConfigError, match=r"there is no run 's'\. It must be an id, the start of one, or last; `tuitrain runs` lists them\."
    ):
        find(runs_dir, "s")
    with pytest.raises(ConfigError, match="there is no run ''"):
        find(runs_dir, "")
    with pytest.raises(ConfigError, match=r"there is no run '\.\./·\[2J'"):
        find(runs_dir, "../\x1b[2J")


def test_the_end_of_an_id_is_not_taken_for_a_time_of_another(runs_dir):
    for day, name in (("02", "20260102-0340-multi-gpu-abc"), ("01", "20260101-0000-seed-cnn-034")):
        make_run(runs_dir, started=f"2026-01-{day}T00:00:00.000Z").path.rename(runs_dir / name)
    with pytest.raises(ConfigError, match=r"there is no run '034'\. Did you mean '20260101-0000-seed-cnn-034'\?"):
        find(runs_dir, "034")


def test_a_name_in_the_place_of_an_id_is_answered_with_the_ids_of_its_runs(runs_dir):
    first = make_run(runs_dir, started="2026-01-01T00:00:00.000Z", name="wider net")
    make_run(runs_dir, started="2026-01-02T00:00:00.000Z", name="wider")
    with pytest.raises(ConfigError, match=rf"^RUN: 'wider net' is the name of {first.id}; it must be an id, the start of one, or last\.$"):
        find(runs_dir, "wider net")
    second = make_run(runs_dir, started="2026-01-03T00:00:00.000Z")
    rename(second.path, "wider net")
    with pytest.raises(ConfigError, match=rf"is the name of 2 runs: {second.id}, {first.id}; "):
        find(runs_dir, "wider net")
    with pytest.raises(ConfigError, match="there is no run ''"):
        find(runs_dir, "")


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, " and 1 more")])
def test_a_start_of_many_names_five_of_them(runs_dir, count, more):
    names = [f"20260101-000{number}-x-abc" for number in range(count)]
    for name in names:
        (runs_dir / name).mkdir(parents=True)
        (runs_dir / name / "run.toml").touch()
    shown = ", ".join(sorted(names, reverse=True)[:5])
    with pytest.raises(ConfigError, match=rf"^RUN: '2026' is the start of {count} runs: {shown}{more}\.$"):
        find(runs_dir, "2026")


def test_a_whole_id_is_meant_even_when_it_starts_others(runs_dir, run_folder):
    shutil.copytree(run_folder.path, runs_dir / f"{run_folder.id}-backup")
    assert find(runs_dir, run_folder.id).path == run_folder.path


def save_checkpoint(folder, step, kind):
    path = folder / "checkpoints" / f"step-{step:08}"
    path.mkdir()
    (path / "manifest.json").write_text(f'{{"format": 1, "kind": "{kind}", "step": {step}, "files": {{}}}}')
    return path


def test_show_has_configuration_and_checkpoints(runs_dir, run_folder):
    best, last = save_checkpoint(run_folder.path, 10, "epoch"), save_checkpoint(run_folder.path, 20, "last")
    (run_folder.path / "checkpoints" / "best").write_text(f"{best.name}\n")
    (run_folder.path / "checkpoints" / "step-00000030").mkdir()
    (save_checkpoint(run_folder.path, 40, "epoch") / "manifest.json").write_text("{")
    (save_checkpoint(run_folder.path, 50, "epoch") / "manifest.json").write_bytes(b'{"kind": "\xff", "step": 50}')
    (run_folder.path / "checkpoints" / "step-00000060" / "manifest.json").mkdir(parents=True)
    shown = msgspec.json.decode(report.show(runs_dir, "last", as_json=True))
    assert list(shown) == [*KEYS, "config", "checkpoints"]
    assert shown["config"] == msgspec.to_builtins(load_recipe("seed-cnn"))
    assert shown["checkpoints"] == [{"step": 10, "kind": "best", "path": str(best)}, {"step": 20, "kind": "last", "path": str(last)}]
    text = report.show(runs_dir, "last", as_json=False)
    assert str(best) in text
    assert "accuracy   60.0%" in text
    assert "  batch_size = 64" in text


def test_show_tells_people_how_long_a_run_took_that_has_ended(runs_dir):
    took = "took       1:02:05"
    assert took in report.show(runs_dir, make_run(runs_dir, running_seconds=3725.4).id, as_json=False)
    assert "took " not in report.show(runs_dir, make_run(runs_dir, running_seconds=None).id, as_json=False)
    assert "took " not in report.show(runs_dir, make_run(runs_dir, running_seconds=3725.4, state="running").id, as_json=False)


def test_a_table_lines_up_for_people(runs_dir):
    make_run(runs_dir, state="failed", error="step 3: the loss is NaN", started="2026-01-01T00:00:00.000Z", loss=None, accuracy=None)
    make_run(runs_dir, started="2026-01-02T00:00:00.000Z", step=123_456, device=("cuda:0", "网卡"))
    header, newest, oldest = report.runs(runs_dir, as_json=False).splitlines()
    assert newest.index("123,456") + len("123,456") == header.index("STEP") + len("STEP") - 2
    assert "failed" in oldest
    assert header.rstrip() == header
    assert "failed: step 3: the loss is NaN" in report.show(runs_dir, list_runs(runs_dir)[1].run, as_json=False)


def test_a_narrow_terminal_does_without_columns_and_no_line_of_the_list_wraps(runs_dir):
    make_run(runs_dir, load_recipe("transformer-batch-first"), device=("cpu", "cpu"))
    wide = report.runs(runs_dir, as_json=False)
    longest = max(map(len, wide.splitlines()))
    assert report.runs(runs_dir, as_json=False, width=longest) == wide
    without_start = report.runs(runs_dir, as_json=False, width=longest - 1)
    assert without_start.splitlines() == [line[: wide.index("STARTED")].rstrip() for line in wide.splitlines()]
    header, row = report.runs(runs_dir, as_json=False, width=80).splitlines()
    assert header.split() == ["RUN", "STATE", "STEP", "LOSS", "ACCURACY"]
    assert len(row) <= 80
    assert row.split() == [list_runs(runs_dir)[0].run, "finished", "20", "1.0000", "60.0%"]


def test_names_have_a_column_where_there_are_any(runs_dir):
    make_run(runs_dir, started="2026-01-01T00:00:00.000Z")
    assert report.runs(runs_dir, as_json=False).splitlines()[0].endswith("STARTED (UTC)")
    named = make_run(runs_dir, started="2026-01-02T00:00:00.000Z", name="wider net")
    make_run(runs_dir, started="2026-01-03T00:00:00.000Z", name="x")
    rename(named.path, "网 [b]wide\x1b[2J")
    header, _, second, third = report.runs(runs_dir, as_json=False).splitlines()
    assert header.endswith("  NAME")
    assert second.endswith("2026-01-02 00:00  网 [b]wide·[2J")
    assert third.endswith("2026-01-01 00:00")


def test_what_was_changed_from_the_recipe_has_a_column_where_there_is_anything(runs_dir):
    make_run(runs_dir, started="2026-01-01T00:00:00.000Z")
    assert "CHANGED" not in report.runs(runs_dir, as_json=False)
    changed = with_changes(load_recipe("seed-cnn"), {"lr": 0.03, "epochs": 2, "seed": 4, "data": "/tmp/of it", "name": "x"})
    make_run(runs_dir, changed, started="2026-01-02T00:00:00.000Z", name="x")
    header, newest, oldest = report.runs(runs_dir, as_json=False).splitlines()
    assert header.endswith("  NAME  CHANGED")
    assert newest.endswith("  x     lr=0.03 seed=4 data=/tmp/of it epochs=2")
    assert oldest.endswith("2026-01-01 00:00")
    plain, told = (report.show(runs_dir, one.run, as_json=False) for one in reversed(list_runs(runs_dir)))
    assert "\nchanged    lr=0.03 seed=4 data=/tmp/of it epochs=2\n" in told
    assert "\nchanged " not in plain


def test_of_what_was_changed_the_path_of_the_weights_is_last(runs_dir):
    changed = with_changes(load_recipe("seed-cnn"), {"weights": "/tmp/best.pt", "data": "/tmp/of it", "max_steps": 9, "lr": 0.03})
    make_run(runs_dir, changed)
    assert report.runs(runs_dir, as_json=False).endswith("  lr=0.03 data=/tmp/of it max_steps=9 weights=/tmp/best.pt")


@pytest.mark.parametrize(("width", "ends"), [(84, "  lr=0.03 seed=4"), (83, "  lr=0.03 …"), (80, "  lr=0.03 seed=4")])
def test_of_what_was_changed_a_narrow_terminal_shows_no_half_a_number(runs_dir, width, ends):
    changed = with_changes(load_recipe("seed-cnn"), {"lr": 0.03, "seed": 4})
    make_run(runs_dir, changed)
    header, row = report.runs(runs_dir, as_json=False, width=width).splitlines()
    assert header.endswith("  CHANGED")
    assert row.endswith(ends)
    assert len(row) <= width


def test_where_it_has_no_room_the_list_does_without_what_was_changed(runs_dir):
    make_run(runs_dir, with_changes(load_recipe("seed-cnn"), {"lr": 0.03}))
    for width in (54, 62):
        header, row = report.runs(runs_dir, as_json=False, width=width).splitlines()
        assert header.split() == ["RUN", "STATE", "LOSS", "ACCURACY"]
        assert len(row) <= width


def test_a_live_run_is_not_deleted(runs_dir):
    live = make_run(runs_dir, state="running")
    with pytest.raises(ConfigError, match=rf"is running \(pid {os.getpid()} on .*\); stop it first\."):
        delete(live.path)
    assert live.path.is_dir()


def test_a_run_that_another_process_takes_at_the_last_moment_is_not_deleted(runs_dir, run_folder, monkeypatch):
    taken = []
    with monkeypatch.context() as patch:
        check = claim.check_free

        def late(folder, wait):
            free = check(folder, wait=wait)
            taken.append(claim.take(folder))
            return free

        patch.setattr(claim, "check_free", late)
        with pytest.raises(ConfigError, match=rf"^RUN: {run_folder.id} belongs to another process meanwhile; stop it first\.$"):
            delete(run_folder.path)
    assert os.listdir(runs_dir) == [run_folder.id]
    with pytest.raises(ConfigError, match=rf" belongs to another process \(pid {os.getpid()} on .+\); stop it first\.$"):
        delete(run_folder.path)
    assert os.listdir(runs_dir) == [run_folder.id]
    taken[0].release()
    delete(run_folder.path)
    assert os.listdir(runs_dir) == []


def test_a_run_that_has_gone_takes_no_other_with_it(runs_dir, run_folder):
    """Its name may be what the name of a copy begins with."""
    copy = run_folder.path.with_name(f"{run_folder.id}-backup")
    shutil.copytree(run_folder.path, copy)
    shutil.rmtree(run_folder.path)
    with pytest.raises(ConfigError, match=rf"^RUN: {run_folder.id} is not there any more\.$"):
        delete(run_folder.path)
    assert os.listdir(runs_dir) == [copy.name]


def test_a_run_that_seems_lost_because_its_host_is_behind_is_watched_and_not_deleted(runs_dir):
    live = make_run(runs_dir, state="running", host="gpu-2", heartbeat=time.time() - 3600)
    holder = claim.Holder(**{**msgspec.structs.asdict(this_process()), "host": "gpu-2"}, taken=0.0)
    (live.path / "claim-3.json").write_bytes(msgspec.json.encode(holder))
    state = live.path / "state.json"
    looks = []

    def beat(progress):
        looks.append(progress.done)
        if progress.done == 2:
            state.write_bytes(state.read_bytes() + b" ")
        return False

    assert list_runs(runs_dir)[0].state == "lost"
    with pytest.raises(ConfigError, match=rf"^RUN: {live.id} belongs to another process \(pid {holder.pid} on gpu-2\); stop it first\.$"):
        delete(live.path, beat)
    assert (os.listdir(runs_dir), looks) == ([live.id], [0, 1, 2])
    delete(live.path, lambda progress: False)
    assert os.listdir(runs_dir) == []


def test_a_lost_run_is_deleted(runs_dir):
    lost = make_run(runs_dir, state="running", pid=2**22 + 5)
    assert delete(lost.path).state == "lost"
    assert os.listdir(runs_dir) == []


@pytest.mark.parametrize(
    ("refused", "left"), [("checkpoints", {"checkpoints", "run.toml", "state.json"}), (".deleted-", {"run.toml", "state.json"})]
)
def test_a_run_that_cannot_be_removed_is_a_sentence_and_can_be_deleted_later(runs_dir, run_folder, monkeypatch, refused, left):
    saved = save_checkpoint(run_folder.path, 10, "last")
    really = shutil.rmtree

    def refuse(path):
        if path.name.startswith(refused):
            raise PermissionError(13, "Permission denied", str(path))
        really(path)

    with monkeypatch.context() as patched:
        patched.setattr(removal.shutil, "rmtree", refuse)
        with pytest.raises(ConfigError, match=rf"^RUN: {run_folder.id} cannot be removed: Permission denied\.$"):
            delete(run_folder.path)
    assert saved.is_dir() == ("checkpoints" in left)
    assert left <= set(os.listdir(run_folder.path)), "by these it is known to be a run"
    assert os.listdir(runs_dir) == [run.run for run in list_runs(runs_dir)] == [run_folder.id]
    delete(run_folder.path)
    assert os.listdir(runs_dir) == []


def test_what_a_link_in_a_run_leads_to_is_left_alone(runs_dir, run_folder, tmp_path):
    elsewhere = tmp_path / "large disk"
    elsewhere.mkdir()
    (run_folder.path / "checkpoints").rmdir()
    (run_folder.path / "checkpoints").symlink_to(elsewhere)
    save_checkpoint(run_folder.path, 10, "last")
    delete(run_folder.path)
    assert os.listdir(runs_dir) == []
    assert os.listdir(elsewhere) == ["step-00000010"]


def test_what_a_killed_process_left_half_removed_goes_with_the_next_run(runs_dir, run_folder):
    killed, going, link = (runs_dir / f".deleted-{name}-run" for name in ("killed", "going", "link"))
    for folder in (killed, going):
        (folder / "checkpoints").mkdir(parents=True)
        save_checkpoint(folder, 10, "last")
    link.symlink_to(run_folder.path)
    with removal._locked(going) as alone:
        assert alone
        delete(run_folder.path)
        assert sorted(os.listdir(runs_dir)) == sorted([going.name, link.name])
    delete(make_run(runs_dir).path)
    assert os.listdir(runs_dir) == [link.name]


def test_what_a_state_file_says_is_cleaned(runs_dir):
    make_run(runs_dir, state="failed", name="[/]\x1b]52;c;eA==\x07", error="a\x9bb\nc", device=("cuda\x1b[2J",))
    [run] = list_runs(runs_dir)
    shown = [report.runs(runs_dir, as_json=False), report.show(runs_dir, "last", as_json=False)]
    for text in (run.name, run.error, *run.device, *(text.replace("\n", "") for text in shown)):
        assert text
        assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text)


def test_a_folder_with_a_hostile_name_is_listed_shown_and_deleted(runs_dir, run_folder):
    hostile = os.fsdecode(b"20990101-0000-\xff\x1b[2J-aaa")
    run_folder.path.rename(runs_dir / hostile)
    save_checkpoint(runs_dir / hostile, 10, "epoch")
    (runs_dir / os.fsdecode(b"broken-\xff")).mkdir()
    (runs_dir / os.fsdecode(b"broken-\xff") / "run.toml").touch()
    good, broken = msgspec.json.decode(report.runs(runs_dir, as_json=True))
    assert (good["run"], broken["run"]) == ("20990101-0000-··[2J-aaa", "broken-·")
    shown = msgspec.json.decode(report.show(runs_dir, good["run"], as_json=True))
    assert shown["checkpoints"][0]["path"].endswith("aaa/checkpoints/step-00000010")
    assert "\x1b" not in report.runs(runs_dir, as_json=False) + report.show(runs_dir, "last", as_json=False)
    delete(find(runs_dir, good["run"]).path)
    assert [run.run for run in list_runs(runs_dir)] == ["broken-·"]

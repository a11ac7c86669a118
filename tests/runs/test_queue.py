"""Whose turn it is, in words and by place; and that one process at a time decides it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_runs import make_run

from tuitrain.runs import catalogue, queue, removal, report
from tuitrain.runs.queue import Standing, standing
from tuitrain.runs.status import InQueue
from tuitrain.runs.summary import RunSummary

HERE = socket.gethostname()
GPUS = ("cuda:1", "cuda:0")


def trains(run: str, *device: str, state: str = "running", host: str = HERE) -> RunSummary:
    return RunSummary(path=Path(run), run=run, state=state, device=device, host=host, pid=7)


def waits(run: str, *device: str, since: float = 0.0, pid: int | None = 7, turn: bool = False, host: str = HERE) -> RunSummary:
    return RunSummary(path=Path(run), run=run, state="queued", device=device, host=host, pid=pid, queue=InQueue(since=since, turn=turn))


def runs_before(found: Standing) -> list[str]:
    assert not found.devices
    return [run.run for run in found.behind]


def test_a_run_waits_for_those_that_train_on_its_devices() -> None:
    me = waits("me", "cpu")
    free = standing(me, [me, trains("a", "cuda:0")], GPUS)
    assert free.devices == ("cpu",)
    assert queue.waits_for(me, free) == "waits for cpu", "for a moment, where another process decides just now"
    assert runs_before(standing(me, [me, trains("a", "cpu", state="paused")], GPUS)) == ["a"]
    assert standing(me, [me, trains("a", "cpu", state="finished"), trains("b", "cpu", state="lost")], GPUS).devices == ("cpu",)
    assert standing(me, [me, trains("a", "cpu", host="elsewhere")], GPUS).devices == ("cpu",)
    two = waits("two", "cuda:0", "cuda:1")
    assert runs_before(standing(two, [two, trains("a", "cuda:1"), trains("b", "cpu")], GPUS)) == ["a"]
    assert standing(waits("twice", "cpu", "cpu"), [], GPUS).devices == ("cpu", "cpu"), "a replica each"


def test_those_that_came_before_go_first_also_past_a_device_that_is_free() -> None:
    first, me, last = waits("first", "cuda:0", "cuda:1", since=1), waits("me", "cuda:0", since=2), waits("last", "cuda:0", since=3)
    busy = trains("busy", "cuda:1")
    assert runs_before(standing(me, [last, me, first, busy], GPUS)) == ["first"]
    assert standing(me, [last, me, busy], GPUS).devices == ("cuda:0",)
    other = waits("other", "cpu", since=9)
    assert standing(other, [first, me, last, other, busy], GPUS).devices == ("cpu",), "another device is another queue"
    same = waits("another", "cuda:0", since=2)
    assert standing(same, [same, me], GPUS).devices, "of two that came at the same moment the id decides"
    assert runs_before(standing(me, [same, me], GPUS)) == ["another"]


def test_a_run_whose_turn_has_come_has_its_devices() -> None:
    me, begins = waits("me", "cpu", since=1), waits("begins", "cpu", since=2, turn=True)
    assert runs_before(standing(me, [me, begins], GPUS)) == ["begins"]
    assert standing(begins, [begins], GPUS).devices == ("cpu",), "it is not in its own way"


@pytest.mark.parametrize("turn", [False, True])
def test_a_run_that_nobody_waits_for_holds_nobody_up_but_after_a_restart(turn: bool) -> None:
    left, me = waits("left", "cpu", since=1, pid=None, turn=turn), waits("me", "cpu", since=2)
    assert standing(me, [left, me], GPUS).devices == ("cpu",)
    assert runs_before(standing(me, [left, me], GPUS, patient=True)) == ["left"]


def test_any_gpu() -> None:
    me = waits("me", "auto", since=5)
    assert standing(me, [me], GPUS).devices == ("cuda:1",), "the freest"
    assert standing(me, [me, trains("a", "cuda:1")], GPUS).devices == ("cuda:0",)
    assert runs_before(standing(me, [me, trains("a", "cuda:1"), trains("b", "cuda:0")], GPUS)) == ["a", "b"]
    assert standing(me, [me, waits("before", "auto", since=1)], GPUS).devices == ("cuda:0",), "the other one is for the one before"
    assert runs_before(standing(me, [me, waits("b", "auto:2", since=1), trains("a", "cuda:1")], GPUS)) == ["a", "b"]
    both, every = waits("both", "auto:2"), waits("every", "auto:all")
    assert standing(both, [], GPUS).devices == standing(every, [], GPUS).devices == GPUS
    assert standing(waits("many", "auto:8"), [], GPUS).devices == GPUS, "no more are here"
    assert runs_before(standing(both, [trains("a", "cuda:0")], GPUS)) == ["a"]
    assert standing(me, [trains("a", "cuda:0")], ()).devices == ("cpu",), "without a GPU it is the CPU"
    assert runs_before(standing(me, [trains("a", "cpu")], ())) == ["a"]


def test_while_nobody_knows_which_gpus_there_are_any_gpu_is_waited_for_and_the_cpu_is_not() -> None:
    anyone, mine = waits("any", "auto", since=1), waits("mine", "cpu", since=2)
    found = standing(anyone, [anyone, mine], None)
    assert not found.devices
    assert queue.waits_for(anyone, found) == "waits for a GPU: the NVIDIA driver does not answer"
    assert standing(mine, [anyone, mine], None).devices == ("cpu",)


@pytest.mark.parametrize(
    ("device", "others", "words"),
    [
        (("cpu",), [trains("a", "cpu")], "waits for cpu: a trains there"),
        (("cpu",), [trains("a", "cpu", state="paused"), trains("b", "cpu")], "waits for cpu: a is paused there, and 1 more run"),
        (("cpu", "cpu"), [waits("a", "cpu")], "waits for cpu: a is before it"),
        (("cuda:0", "cuda:1"), [trains("a", "cuda:1"), waits("b", "cuda:0")], "waits for cuda:0, cuda:1: a trains there"),
        (("cpu",), [waits("a", "cpu"), waits("b", "cpu")], "waits for cpu: a is before it, and 1 more run"),
        (("auto",), [trains("a", "cuda:0"), trains("b", "cuda:1")], "waits for a GPU: a trains there, and 1 more run"),
        (("auto:2",), [trains("a", "cuda:0")], "waits for 2 GPUs: a trains there"),
        (("auto:all",), [trains("a", "cuda:0")], "waits for all GPUs: a trains there"),
        (("no", "device"), [trains("a", "device")], "waits for no, device: a trains there"),
    ],
)
def test_what_it_waits_for_is_a_sentence(device: tuple[str, ...], others: list[RunSummary], words: str) -> None:
    me = waits("me", *device, since=1)
    assert queue.waits_for(me, standing(me, [me, *others], ("cuda:0", "cuda:1"))) == words


def test_places() -> None:
    runs = [
        waits("e", "auto", since=5),
        waits("d", "cpu", since=4),
        waits("c", "auto", since=3),
        waits("b", "cpu", since=2),
        waits("a", "cuda:0", since=1),
        waits("left", "cpu", since=0, pid=None),
        waits("elsewhere", "cpu", since=0, host="elsewhere"),
        trains("t", "cpu"),
    ]
    places = {path.name: place for path, place in queue.places(runs).items()}
    assert places == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3, "elsewhere": 1}
    assert queue.place_in_words(runs[2], 2) == "queued, 2nd for a GPU"
    assert [
        queue.ordinal(place) for place in (1, 2, 3, 4, 11, 12, 13, 21, 22, 111)
    ] == "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 111th".split()


def kept(runs_dir: Path, since: float, **status: object) -> str:
    """A run in the queue that this process waits for."""
    fields = {"state": "queued", "ended": None, "step": 0, "loss": None, "accuracy": None, **status}
    return make_run(runs_dir, queue=InQueue(since=since, words="waits for cpu: \x1b[31m"), **fields).id


def test_the_lists_say_how_queued_runs_stand(tmp_path: Path) -> None:
    second, first, left = kept(tmp_path, 2.0), kept(tmp_path, 1.0), kept(tmp_path, 0.0, pid=0)
    lines = {line.split()[0]: line for line in report.runs(tmp_path, as_json=False).splitlines()}
    assert "queued, 1st for cpu " in lines[first]
    assert "queued, 2nd for cpu " in lines[second]
    assert "queued, nobody waits " in lines[left]
    shown = report.show(tmp_path, second, as_json=False)
    assert "waits for cpu: ·[31m" in shown
    assert "\nqueued " in shown
    assert "\nstarted " not in shown, "it has not"
    rows = {row["run"]: row for row in (run.to_json() for run in catalogue.list_runs(tmp_path))}
    assert {row["state"] for row in rows.values()} == {"queued"}
    assert (rows[first]["pid"], rows[left]["pid"]) == (os.getpid(), None)
    assert "queue" not in rows[first]
    assert [run.run for run in queue.left_behind(tmp_path)] == [left]
    removal.delete(tmp_path / left)


def test_what_has_not_begun_is_the_newest(tmp_path: Path) -> None:
    later, sooner = kept(tmp_path, 2.0, started="2026-11-21T04:02:00.000Z"), kept(tmp_path, 1.0, started="2026-11-21T04:01:00.000Z")
    begun = make_run(tmp_path, started="2026-11-21T05:00:00.000Z").id
    assert [run.run for run in catalogue.list_runs(tmp_path)] == [later, sooner, begun]
    assert catalogue.find(tmp_path, "last").run == later


def test_one_that_prepares_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path, state="queued", queue=InQueue(since=1.0, turn=True)).id
    assert catalogue.find(tmp_path, run).state_words == "queued, begins"
    assert queue.places(catalogue.list_runs(tmp_path)) == {}


def test_left_behind_is_of_this_host_and_in_order(tmp_path: Path) -> None:
    later, sooner = kept(tmp_path, 2.0, pid=0), kept(tmp_path, 1.0, pid=2**22 + 1)
    kept(tmp_path, 0.0, pid=0, host="elsewhere")
    make_run(tmp_path)
    (tmp_path / "20261121-0000-broken-aaa").mkdir()
    (tmp_path / "20261121-0000-broken-aaa" / "state.json").write_text('{"queue":{')
    assert [run.run for run in queue.left_behind(tmp_path)] == [sooner, later]


def test_who_uses_a_device(tmp_path: Path) -> None:
    waiting = kept(tmp_path, 1.0)
    training = make_run(tmp_path, state="running", ended=None).id
    make_run(tmp_path)
    make_run(tmp_path, state="running", pid=2**22 + 5)
    make_run(tmp_path, state="running", host="elsewhere")
    assert [run.run for run in queue.on_devices(tmp_path, ("cpu",))] == [training, waiting]
    assert queue.on_devices(tmp_path, ("cuda:0",)) == []
    assert queue.on_devices(tmp_path / "none", ("cpu",)) == []


CONTENDER = """
import os, sys
from pathlib import Path
from tuitrain.runs import queue
folder, had = Path(sys.argv[1]), 0
while had < 200:
    with queue.locked(folder) as alone:
        if alone:
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))  # fails where another one is inside
            os.unlink(folder / "inside")
            had += 1
"""


def test_one_process_at_a_time_decides(tmp_path: Path) -> None:
    contenders = [subprocess.Popen([sys.executable, "-c", CONTENDER, str(tmp_path)]) for _ in range(2)]
    assert [contender.wait(60) for contender in contenders] == [0, 0]


LEAVES = """
import os, sys
from pathlib import Path
from tuitrain.runs import queue
queue.locked(Path(sys.argv[1])).__enter__()
os._exit(9)
"""


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    with queue.locked(tmp_path) as alone:
        assert alone
        with queue.locked(tmp_path) as also:
            assert not also
    assert subprocess.run([sys.executable, "-c", LEAVES, str(tmp_path)], timeout=60).returncode == 9
    with queue.locked(tmp_path) as alone:
        assert alone


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in which everybody may make runs, as /tmp lets them."""
    # pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def test_users_of_one_folder_have_one_lock(shared: Path, as_another_user: Callable[[Callable[[], object]], None]) -> None:
    def other_has(wanted: bool) -> None:
        with queue.locked(shared) as also:
            assert also is wanted

    with queue.locked(shared) as alone:
        assert alone
        as_another_user(lambda: other_has(False))
    as_another_user(lambda: other_has(True))


def test_without_leave_to_read_the_lock_the_order_alone_decides(
    shared: Path, as_another_user: Callable[[Callable[[], object]], None]
) -> None:
    (shared / queue.LOCK).touch(mode=0)

    def look() -> None:
        with queue.locked(shared) as alone:
            assert alone

    as_another_user(look)

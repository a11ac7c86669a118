"""One process at a time has a run: several that take it at once, dead holders, another boot, other hosts."""

import os
import subprocess
import sys
import threading
import time

import msgspec
import pytest
from small_runs import make_run

from tuitrain.runs import claim
from tuitrain.runs import process as process_module
from tuitrain.runs.claim import Holder
from tuitrain.runs.errors import RunError
from tuitrain.runs.process import this_process
from tuitrain.runs.silence import LEAST_SECONDS
from tuitrain.runs.status import HEARTBEAT_SECONDS


@pytest.fixture
def folder(runs_dir):
    return make_run(runs_dir).path


def held_by(folder, number=1, **changes):
    """A claim of another process."""
    me = msgspec.structs.asdict(this_process())
    holder = Holder(**(me | {"taken": 0.0} | changes))
    (folder / f"claim-{number}.json").write_bytes(msgspec.json.encode(holder))


def files(folder):
    return sorted(path.name for path in folder.iterdir() if "claim" in path.name)


def test_a_run_is_taken_once_and_again_when_it_is_released(folder):
    mine = claim.take(folder)
    with pytest.raises(RunError, match=rf"^RUN: {folder.name} belongs to another process \(pid {os.getpid()} on .+\); stop it first\.$"):
        claim.take(folder)
    mine.release()
    mine.release()
    assert files(folder) == ["claim-1.released"]
    claim.take(folder).release()
    assert files(folder) == ["claim-2.released"]


def test_of_many_threads_exactly_one_takes_it(folder):
    held_by(folder, pid=2**22 + 5)
    for turn in range(20):
        taken, refused = [], []
        together = threading.Barrier(8)

        def take(together=together, taken=taken, refused=refused):
            together.wait(60)
            try:
                taken.append(claim.take(folder))
            except RunError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert (len(taken), len(refused)) == (1, 7), (turn, refused)
        assert all("belongs to another process" in text for text in refused), refused
        assert len(files(folder)) == 1
        taken[0].release()


def test_a_run_that_was_taken_and_released_meanwhile_is_taken_under_the_next_number(folder, monkeypatch):
    held_by(folder, pid=2**22 + 5)
    others = [lambda: claim.take(folder).release()]
    really = claim._make

    def slowly(path, content):
        if others:
            others.pop()()
        return really(path, content)

    monkeypatch.setattr(claim, "_make", slowly)
    mine = claim.take(folder)
    with pytest.raises(RunError, match="belongs to another process"):
        claim.take(folder)
    mine.release()


TAKER = """
import sys, time
from pathlib import Path
from tuitrain.runs import claim
from tuitrain.runs.errors import RunError
from tuitrain.runs.silence import LEAST_SECONDS
print("ready", flush=True)
sys.stdin.readline()
try:
    claim.take(Path(sys.argv[1]))
    print("taken", flush=True)
except RunError as error:
    print(error, flush=True)
sys.stdin.readline()
"""


def processes(folder, count):
    found = [
        subprocess.Popen([sys.executable, "-c", TAKER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for process in found:
        assert process.stdout.readline() == "ready\n"
    return found


def test_of_several_processes_exactly_one_takes_it_and_when_it_is_killed_another_may(folder):
    takers = processes(folder, 3)
    try:
        for process in takers:
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.stdout.readline() for process in takers]
        assert said.count("taken\n") == 1
        holder = takers[said.index("taken\n")]
        assert all(f"(pid {holder.pid} on " in text for text in said if text != "taken\n")
        holder.kill()
        # Not waited for yet: what is left of a dead process holds nothing.
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        claim.take(folder).release()
    finally:
        for process in takers:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("changes", [{"pid": 2**22 + 5}, {"pid_started": 0.5}])
def test_a_claim_whose_process_is_gone_is_taken_over(folder, changes):
    held_by(folder, number=7, **changes)
    claim.take(folder)
    assert files(folder) == ["claim-8.json"]


def test_after_a_reboot_a_claim_of_the_same_pid_is_taken_over_and_that_of_another_machine_of_the_name_is_not(folder, monkeypatch):
    claim.take(folder)
    monkeypatch.setattr(process_module, "_boot_id", lambda: "another boot")
    watching = Watching(folder, beats=[1])
    with pytest.raises(RunError, match=r"belongs to another process \(pid \d+ on "):
        claim.take(folder, wait=watching)
    monkeypatch.setattr(process_module, "_booted", lambda: time.time() + 1)
    claim.take(folder, wait=watching)
    assert len(watching.told) == 2


ELSEWHERE = [{"host": "elsewhere"}, {"pid": 2**22 + 5, "pid_namespace": 5}]


class Watching:
    """A second of watching that takes none. `beats`: the looks before which the holder gives a sign, by its own clock."""

    def __init__(self, folder, ahead=0.0, beats=()):
        self._folder, self._ahead, self._beats = folder, ahead, beats
        self.told = []

    def __call__(self, progress):
        self.told.append(progress)
        if progress.done in self._beats:
            beat(self._folder, time.time() + self._ahead)
        return False


def beat(folder, heartbeat, written=None):
    """The state of a live run, written at the moment `written` by the file system's clock."""
    state = folder / "state.json"
    state.write_bytes(msgspec.json.encode(msgspec.json.decode(state.read_bytes()) | {"state": "running", "heartbeat": heartbeat}))
    if written is not None:
        os.utime(state, (written, written))
        for path in folder.glob("claim-*.json"):
            os.utime(path, (written, written))


@pytest.mark.parametrize("where", ELSEWHERE)
@pytest.mark.parametrize("ahead", [-7200.0, -90.0, 0.0, 90.0, 7200.0], ids="clock {}".format)
@pytest.mark.parametrize("seen", [0, 14], ids="sign before look {}".format)
def test_whatever_clock_another_host_has_its_live_run_is_never_taken(folder, where, ahead, seen):
    now = time.time() + ahead
    held_by(folder, **where, taken=now - 3600)
    # The file system has its times from the machine that writes, too.
    beat(folder, now, written=now)
    watching = Watching(folder, ahead, beats=[seen])
    with pytest.raises(RunError, match=r"belongs to another process \(pid \d+ on .+\); stop it first\.$"):
        claim.take(folder, wait=watching)
    assert [progress.done for progress in watching.told] == [*range(seen + 1)]
    assert files(folder) == ["claim-1.json"]


@pytest.mark.parametrize("where", ELSEWHERE)
@pytest.mark.parametrize(
    ("ahead", "age", "looks"),
    [
        pytest.param(0.0, 3600.0, LEAST_SECONDS, id="gone for long"),
        pytest.param(0.0, HEARTBEAT_SECONDS - 20.5, 21, id="gone for a while"),
        pytest.param(7200.0, 0.0, HEARTBEAT_SECONDS, id="gone at this moment"),
        pytest.param(7200.0, 3600.0, LEAST_SECONDS, id="its clock was ahead"),
        pytest.param(-7200.0, 5.5, HEARTBEAT_SECONDS - 5, id="its clock was behind"),
        pytest.param(0.0, -3600.0, HEARTBEAT_SECONDS, id="the file system's clock was set back"),
    ],
)
def test_the_run_of_another_host_that_gives_no_sign_is_taken_after_watching_by_the_own_clock(folder, where, ahead, age, looks):
    now = time.time()
    held_by(folder, **where, taken=now + ahead - 7200)
    beat(folder, now + ahead - age, written=now - age)
    watching = Watching(folder)
    claim.take(folder, wait=watching).release()
    assert len(watching.told) == looks
    assert {progress.total for progress in watching.told} == {looks}
    assert files(folder) == ["claim-2.released"]


def test_who_is_watched_is_named_and_whoever_does_not_wait_for_it_takes_nothing(folder):
    held_by(folder, host="else\x1bwhere", pid=77)
    told = []

    def enough(progress):
        told.append(progress.phase)
        return len(told) == 3

    with pytest.raises(RunError, match=r" is left as it is: it was not watched long enough whether pid 77 on else·where still has it\.$"):
        claim.take(folder, wait=enough)
    assert told == ["watching whether pid 77 on else·where still has the run"] * 3
    assert files(folder) == ["claim-1.json"]


def test_on_another_host_a_holder_that_lets_go_is_no_obstacle_any_more(folder):
    held_by(folder, host="elsewhere")

    def let_go(progress):
        (folder / "claim-1.json").rename(folder / "claim-1.released")
        return False

    claim.take(folder, wait=let_go)
    assert files(folder) == ["claim-2.json"]


@pytest.mark.parametrize("state", [b"{", None], ids=["damaged", "missing"])
def test_on_another_host_a_state_that_cannot_be_read_is_watched_like_another(folder, state):
    held_by(folder, host="elsewhere")
    path = folder / "state.json"

    def write(progress):
        path.write_bytes(b"{}")
        return False

    path.unlink() if state is None else path.write_bytes(state)
    with pytest.raises(RunError, match="elsewhere"):
        claim.take(folder, wait=write)
    claim.take(folder, wait=lambda progress: False)


def test_another_machine_of_the_same_name_that_is_behind_is_watched(folder, monkeypatch):
    """Its heartbeat is from before this machine's start, as that of a run of an earlier boot."""
    held_by(folder, boot_id="another boot", taken=time.time() - 90)
    monkeypatch.setattr(process_module, "_booted", lambda: time.time() - 45)
    beat(folder, time.time() - 90)
    with pytest.raises(RunError, match="belongs to another process"):
        claim.take(folder, wait=Watching(folder, ahead=-90.0, beats=[2]))


def test_on_another_host_a_state_that_nobody_can_look_at_is_no_sign_of_death(folder):
    held_by(folder, host="elsewhere")
    (folder / "state.json").unlink()
    (folder / "state.json").symlink_to("state.json")
    with pytest.raises(RunError, match=r"cannot be taken: .*: Too many levels of symbolic links\.$"):
        claim.take(folder)
    assert files(folder) == ["claim-1.json"]


def test_an_heir_takes_from_its_own_host_alone(folder):
    held_by(folder, host="else\x1bwhere", taken=time.time())
    with pytest.raises(RunError, match=rf"\(pid {os.getpid()} on else·where\)"):
        claim.take(folder, heir_of=os.getpid(), wait=Watching(folder, beats=[0]))


def test_a_holder_learns_who_has_taken_the_run_over(folder):
    mine = claim.take(folder)
    assert mine.taken_over_by() is None
    held_by(folder, number=2, host="gpu-2\x1b", pid=77)
    assert mine.taken_over_by() == "pid 77 on gpu-2·"
    (folder / "claim-2.json").write_bytes(b"{")
    assert mine.taken_over_by() is None, "it is being written"
    (folder / "claim-2.json").rename(folder / "claim-2.released")
    assert mine.taken_over_by() == "another process"
    for path in folder.glob("claim-*"):
        path.unlink()
    assert mine.taken_over_by() is None, "somebody tidied up"
    folder.rename(folder.with_name("moved"))
    assert mine.taken_over_by() is None


def test_one_that_was_taken_over_does_not_release_its_successors_claim(folder):
    first = claim.take(folder)
    second = claim.take(folder, heir_of=os.getpid())
    first.release()
    assert files(folder) == ["claim-2.json"]
    second.release()


@pytest.mark.parametrize(
    ("content", "age"),
    [
        pytest.param(b"{", HEARTBEAT_SECONDS + 5, id="old"),
        pytest.param(b'{"host":"\xff"}', HEARTBEAT_SECONDS + 5, id="no text"),
        pytest.param(b"{", -HEARTBEAT_SECONDS - 5, id="from before the clock was set back"),
    ],
)
def test_a_claim_that_is_being_written_is_waited_for_and_an_old_damaged_one_is_not(folder, content, age):
    path = folder / "claim-1.json"
    path.write_bytes(content)
    with pytest.raises(RunError, match="is being taken by another process; try again"):
        claim.take(folder)
    os.utime(path, (0, time.time() - age))
    claim.take(folder)


def test_a_file_system_without_hard_links_will_do(folder, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    mine = claim.take(folder)
    with pytest.raises(RunError, match="belongs to another process"):
        claim.take(folder)
    mine.release()
    assert files(folder) == ["claim-1.released"]


@pytest.mark.parametrize("links", [True, False])
def test_a_run_that_another_process_takes_between_the_look_and_the_claim_is_left_to_it(folder, monkeypatch, links):
    def refuse(*args, **options):
        raise PermissionError(1, "Operation not permitted")

    look = claim._newest
    looks = []

    def late(folder):
        found = look(folder)
        if not looks:
            held_by(folder, taken=5.0)
        looks.append(found)
        return found

    monkeypatch.setattr(claim, "_newest", late)
    if not links:
        monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(RunError, match="belongs to another process"):
        claim.take(folder)
    assert looks[0] == (0, None)
    assert msgspec.json.decode((folder / "claim-1.json").read_bytes(), type=Holder).taken == 5.0


def test_a_folder_that_cannot_be_written_is_a_sentence(folder, monkeypatch):
    def refuse(*args, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(RunError, match=r"cannot be taken: its folder cannot be written: Read-only file system\.$"):
        claim.take(folder)
    assert files(folder) == []

"""What the keys can do to an opened run, and which rows its panes get: without a screen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuitrain.events import LIVE_STATES
from tuitrain.tui.browse.layout import arrange
from tuitrain.tui.browse.opened_run import OpenedRun
from tuitrain.tui.browse.steering import Steering, why_apart, why_late
from tuitrain.tui.hosts.attachment import Attachment
from tuitrain.tui.run_view import ENDED

COMMANDS = ("pause", "resume", "checkpoint", "stop")


def run(state: str, **fields: bool) -> Steering:
    return Steering(**{"read": True, "state": state, "left": False, "heard": False, "saved": False, **fields})


@pytest.mark.parametrize(
    ("state", "taken"),
    [("running", {"pause", "checkpoint", "stop"}), ("paused", {"resume", "checkpoint", "stop"}), ("preparing", set()), ("stopping", set())],
)
def test_a_run_takes_what_its_state_allows_where_its_process_listens(state: str, taken: set[str]) -> None:
    assert {command for command in COMMANDS if run(state, heard=True).takes(command)} == taken
    assert not any(run(state).takes(command) for command in COMMANDS)


def test_a_queued_run_is_only_taken_out() -> None:
    assert run("queued", heard=True).leaves_queue
    assert not any(run("queued", heard=True).takes(command) for command in COMMANDS)
    assert not run("queued").leaves_queue
    assert [run("queued", left=left).goes_on for left in (True, False)] == [True, False]


def test_an_ended_run_goes_on_from_a_checkpoint_and_a_paused_one_where_it_is() -> None:
    assert all(run(state, saved=True).goes_on and not run(state).goes_on for state in ENDED)
    assert [run("paused", saved=True, heard=heard).goes_on for heard in (True, False)] == [True, False]
    assert not run("running", saved=True, heard=True).goes_on


@pytest.mark.parametrize(
    ("fields", "missed", "said"),
    [
        ({}, False, ""),
        ({}, True, "the process that trains it (pid 7) does not answer"),
        ({"here": False}, True, "it trains on box·, and keys are heard only there"),
        ({"alive": False}, True, ""),
        ({"alive": False, "here": False}, False, ""),
        ({"problem": "it is gone."}, True, "it is gone."),
        ({"problem": "it is gone.", "record": None, "alive": False}, False, ""),
    ],
    ids=["listens", "does not answer", "another host", "ended", "ended elsewhere", "no folder", "never read"],
)
def test_why_keys_are_not_heard(fields: dict[str, object], missed: bool, said: str) -> None:
    opened = SimpleNamespace(**{"record": object(), "problem": None, "alive": True, "here": True, "host": "box\x1b", "pid": 7, **fields})
    assert why_apart(cast("OpenedRun", opened), cast("Attachment", SimpleNamespace(missed=missed))) == said


@pytest.mark.parametrize(
    ("stalled", "here", "said"),
    [
        (0.0, True, ""),
        (35.0, True, "keys wait for the end of its step; `kill -9 7` ends the run without"),
        (35.0, False, ""),
    ],
)
def test_what_ends_a_run_that_hangs(stalled: float, here: bool, said: str) -> None:
    opened = cast("OpenedRun", SimpleNamespace(record=SimpleNamespace(stalled_seconds=stalled), alive=True, here=here, pid=7))
    assert why_late(opened) == said


def test_a_run_that_hangs_is_not_said_to_obey_at_once() -> None:
    hanging = run("running", heard=True, hangs=True)
    assert hanging.answer("stop") == "It stops when the step ends in which it hangs."
    assert hanging.answer("pause") == "It pauses when the step ends in which it hangs."


def test_a_run_whose_folder_has_gone_goes_nowhere() -> None:
    assert not any(run(state, saved=True, gone=True).goes_on for state in ENDED)
    assert run("running", heard=True, gone=True).takes("stop")


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("heard", [True, False])
@pytest.mark.parametrize("left", [True, False])
def test_no_hint_names_a_key_that_does_nothing(heard: bool, left: bool, gone: bool) -> None:
    for state in {*ENDED, *LIVE_STATES}:
        for saved in (True, False):
            found = run(state, heard=heard, left=left and state == "queued", saved=saved, gone=gone)
            hint = found.hints().get(state, "")
            assert not ("R " in hint and not found.goes_on), found
            assert not ("space " in hint and not found.takes("resume")), found
            assert not ("x " in hint and not found.leaves_queue), found


def test_what_a_command_will_do_depends_on_whether_the_run_makes_steps() -> None:
    assert run("running").answer("stop") == "It stops at the next step, with a checkpoint."
    assert run("paused").answer("stop") == "It stops now, with a checkpoint."
    assert run("queued").answer("stop") == "It ends before it has begun."
    assert run("running").answer("pause") == run("paused").answer("resume") == ""


@given(
    st.integers(80, 300),
    st.integers(21, 120),
    st.none() | st.tuples(st.integers(10, 40), st.integers(1, 9)),
    st.integers(1, 200),
    st.integers(1, 64),
    st.integers(0, 3),
)
def test_the_panes_fill_their_columns(
    width: int, height: int, devices: tuple[int, int] | None, checkpoints: int, replicas: int, notes: int
) -> None:
    sizes = arrange(width, height, devices=devices, checkpoints=checkpoints, replicas=replicas, notes=notes)
    assert sizes.progress + sizes.curve + sizes.replicas == height
    assert sizes.devices + sizes.settings + sizes.checkpoints + sizes.log == height
    assert min(sizes.settings, sizes.checkpoints, sizes.log, sizes.progress, sizes.curve, sizes.replicas) > 0
    assert (sizes.devices > 0) == (devices is not None and sizes.left > 0)

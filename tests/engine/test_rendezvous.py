"""Ranks that wait for each other, and what ends that."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from engine_small import FakeControl, small_config
from torch.distributed import DistNetworkError, HashStore, Store, TCPStore  # type: ignore[attr-defined]

from tuitrain.config import ConfigError
from tuitrain.engine.control import Interrupted
from tuitrain.engine.ranks import outside
from tuitrain.engine.ranks.outside import train_as_rank
from tuitrain.engine.ranks.rendezvous import wait_for_all
from tuitrain.events import Checkpoint, Event, Losses, Progress, RunEnded

BOUND = 60.0


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> int:
    """A port where no rank keeps a store yet, which the environment names as that of two ranks, of which this process is the second."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    for name, value in {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    return port


def rank(control: FakeControl) -> Iterator[Event]:
    return train_as_rank(small_config(device="cpu,cpu", strategy="ddp"), control, local_size=2)


def end_of_a_rank_that_waits(run_dir: Path) -> RunEnded:
    control = FakeControl(run_dir)
    events = rank(control)
    assert isinstance(next(events), Progress)
    control.ending = True
    (ended,) = within_bound(lambda: list(events))
    assert isinstance(ended, RunEnded)
    return ended


def test_a_rank_that_is_asked_to_end_does_not_wait_for_the_first_one(place: int, tmp_path: Path) -> None:
    ended = end_of_a_rank_that_waits(tmp_path)
    assert (ended.state, ended.step) == ("interrupted", 0)
    # What it has left behind, which would ask for ever, finds somebody.
    store = TCPStore("127.0.0.1", place, is_master=True, wait_for_workers=False)
    for thread in threading.enumerate():
        if thread.name == "tuitrain-rendezvous":
            thread.join(BOUND)
            assert not thread.is_alive(), store


def test_the_first_rank_that_is_asked_to_end_does_not_wait_for_the_others(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    assert end_of_a_rank_that_waits(tmp_path).state == "interrupted"


def test_a_port_in_use_is_named(place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    with socket.create_server(("0.0.0.0", place)), pytest.raises(ConfigError, match=rf"^MASTER_PORT: {place} is in use on this machine; "):
        list(rank(FakeControl(tmp_path)))


def test_no_rank_goes_on_without_one_that_was_asked_to_end() -> None:
    store = HashStore()
    with pytest.raises(Interrupted):
        wait_for_all(store, 1, 3, "cpu", lambda: True)
    for late in (0, 2):
        with pytest.raises(Interrupted):
            within_bound(lambda late=late: wait_for_all(store, late, 3, "cpu", lambda: False))


def test_a_rank_that_is_asked_to_end_when_all_are_there_goes_on_with_them() -> None:
    store: Store = HashStore()
    store.set_timeout(timedelta(seconds=BOUND))
    store.set("word 1", "cuda")
    assert wait_for_all(store, 0, 2, "cpu", lambda: True) == ["cpu", "cuda"]
    assert wait_for_all(store, 1, 2, "cuda", lambda: True) == ["cpu", "cuda"]


def test_a_run_that_has_lost_a_rank_says_how_far_it_was(place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lonely:
        group = None

        def __init__(self, *given: object) -> None:
            pass

        def events(self) -> Iterator[Event]:
            yield Losses(first_step=1, epoch=1, losses=(1.0,) * 4, times=(0.0,) * 4)
            yield Checkpoint(step=2, path="somewhere", kind="epoch")
            raise DistNetworkError("Connection reset by peer")

    monkeypatch.setattr(outside, "World", Lonely)
    monkeypatch.setattr(outside, "_check_apart", lambda group: None)
    *_, ended = rank(FakeControl(tmp_path))
    assert ended == RunEnded(state="failed", step=4, error="another rank has gone: Connection reset by peer.")


def within_bound(work: Callable[[], object]) -> object:
    """What `work` gives, or raises, in time."""
    answers: queue.SimpleQueue[tuple[object, Exception | None]] = queue.SimpleQueue()

    def do() -> None:
        try:
            answers.put((work(), None))
        except Exception as error:
            answers.put((None, error))

    threading.Thread(target=do, daemon=True).start()
    found, error = answers.get(timeout=BOUND)
    if error is not None:
        raise error
    return found

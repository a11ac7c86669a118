"""Priority and spinning: what the environment says and what the kernel says."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import threading
from pathlib import Path

import pytest

from tuitrain.python import lasting_imports
from tuitrain.session import threads
from tuitrain.session.control import Control
from tuitrain.session.threads import CPU_NICENESS, limit_openmp_spin, yield_to_the_screen


def test_spinning_is_limited_unless_the_person_has_chosen_or_the_engine_can_tell_when(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh: dict[str, str] = {}
    monkeypatch.setattr(threads, "waits_are_told", lambda: True)
    limit_openmp_spin(fresh)
    assert fresh == {}
    monkeypatch.setattr(threads, "waits_are_told", lambda: False)
    limit_openmp_spin(fresh)
    assert fresh == {"GOMP_SPINCOUNT": "2000"}
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        chosen = {name: "theirs"}
        limit_openmp_spin(chosen)
        assert chosen == {name: "theirs"}


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of single threads are Linux's")
def test_only_the_calling_thread_gets_a_lower_priority() -> None:
    seen = []

    def lower() -> None:
        yield_to_the_screen()
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    thread = threading.Thread(target=lower)
    thread.start()
    thread.join()
    assert seen == [max(before, CPU_NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of single threads are Linux's")
@pytest.mark.parametrize(
    ("devices", "lowered"), [(("cpu",), True), (("cpu", "cpu"), True), (("cuda:0",), False), (("cuda:0", "cpu"), False)]
)
def test_training_on_the_cpu_yields_and_feeding_a_gpu_does_not(devices: tuple[str, ...], lowered: bool) -> None:
    seen = []

    def train() -> None:
        Control(list).placed(devices)
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert seen == [max(before, CPU_NICENESS) if lowered else before]


def test_what_lasting_imports_make_is_not_collected_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "many_lists.py").write_text("lists = [[] for _ in range(1000)]\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = gc.get_freeze_count()
    with lasting_imports():
        assert not gc.isenabled()
        importlib.import_module("many_lists")
    assert gc.isenabled()
    frozen = gc.get_freeze_count()
    assert frozen >= before + 1000
    with lasting_imports():
        importlib.import_module("many_lists")
        made = [[] for _ in range(1000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() < frozen + len(made)
    gc.unfreeze()
    del sys.modules["many_lists"]

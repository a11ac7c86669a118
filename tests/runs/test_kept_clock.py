"""The clock of a run with a target accuracy, on disk: the newest one, and none from after the step that a run goes on from."""

import sqlite3

import msgspec
from small_runs import STARTED, losses, make_run, small_run, write

from tuitrain.events import Clock
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.saved import load_record

FIRST = Clock(step=5, seconds=1.5, target=0.94)
SECOND = Clock(step=10, seconds=3.25, target=0.94, crossed_epoch=1, crossed_seconds=3.25)


def clock(path):
    with MetricsReader(path) as reader:
        return reader.clock()


def test_the_newest_clock_is_kept(path):
    write(path, STARTED, *small_run())
    assert clock(path) is None
    write(path, FIRST, SECOND)
    assert clock(path) == SECOND


def test_a_run_that_is_opened_has_it(tmp_path):
    assert load_record(make_run(tmp_path, batch=[*small_run(), FIRST, SECOND]).path).clock == SECOND


def test_going_on_before_it_forgets_it(path):
    write(path, losses(1, [1.0] * 10), SECOND)
    write(path, msgspec.structs.replace(STARTED, resumed_from=10))
    assert clock(path) == SECOND
    write(path, msgspec.structs.replace(STARTED, resumed_from=7))
    assert clock(path) is None


def test_a_file_from_before_there_was_a_clock(path):
    write(path, losses(1, [1.0]))
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE clock")
    connection.commit()
    connection.close()
    assert clock(path) is None
    write(path, FIRST)
    assert clock(path) == FIRST

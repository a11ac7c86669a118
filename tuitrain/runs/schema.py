"""The tables of a run's metrics file, for its writer and its readers."""

from __future__ import annotations

from typing import NamedTuple

VERSION = 1
FACTOR = 64
LEVELS = 5
"""A billion steps lie in one bucket of the last level."""


class Column(NamedTuple):
    """One number for each step: where it stands, and the table of its pyramid, which files of older versions may lack."""

    table: str
    name: str
    pyramid: str


LOSS = Column("losses", "loss", "pyramid")
TIME = Column("losses", "time", "time_pyramid")
LEARNING_RATE = Column("step_events", "lr", "lr_pyramid")
SPEED = Column("step_events", "samples_per_second", "speed_pyramid")

GATHERED = (LOSS, TIME, LEARNING_RATE, SPEED)


def pyramid_schema(column: Column) -> str:
    """What makes the pyramid of a column."""
    return f"""
CREATE TABLE {column.pyramid} (
    level INTEGER NOT NULL, bucket INTEGER NOT NULL, count INTEGER NOT NULL, min REAL, mean REAL, max REAL,
    PRIMARY KEY (level, bucket)
) WITHOUT ROWID;
"""


STEP_TIMES = """
CREATE TABLE step_times (id INTEGER PRIMARY KEY CHECK (id = 1), event BLOB NOT NULL);
"""
"""One row: where the time of all measured steps went, summed up."""

CLOCK = """
CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), step INTEGER NOT NULL, event BLOB NOT NULL);
"""
"""One row: how long a run with a target accuracy has trained."""

SCHEMA = f"""
CREATE TABLE losses (step INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, loss REAL, time REAL NOT NULL);
CREATE TABLE step_events (step INTEGER PRIMARY KEY, lr REAL, samples_per_second REAL);
CREATE TABLE evals (step INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, loss REAL, loss_sum REAL, accuracy REAL, time REAL NOT NULL);
CREATE TABLE replicas (step INTEGER PRIMARY KEY, event BLOB NOT NULL);
CREATE TABLE replica_stats (step INTEGER PRIMARY KEY, event BLOB NOT NULL);
CREATE TABLE checkpoints (step INTEGER NOT NULL, kind TEXT NOT NULL, folder TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (step, kind));
CREATE TABLE notices (id INTEGER PRIMARY KEY, time REAL NOT NULL, level TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE states (id INTEGER PRIMARY KEY, time REAL NOT NULL, state TEXT NOT NULL);
CREATE TABLE gpu_samples (
    time REAL NOT NULL, device TEXT NOT NULL, memory_used INTEGER, utilization INTEGER, power REAL, temperature INTEGER
);
{STEP_TIMES}
{CLOCK}
{"".join(map(pyramid_schema, GATHERED))}
"""


def forget_buckets(column: Column) -> str:
    """Deletes the buckets of a level from one on."""
    return f"DELETE FROM {column.pyramid} WHERE level = :level AND bucket >= :bucket"


def gather_buckets(column: Column, level: int) -> str:
    """Gathers the buckets of a level, from one on, from the level below it; the lowest is gathered from the steps themselves."""
    if level == 1:
        number = column.name
        return f"""
INSERT INTO {column.pyramid} SELECT 1, (step - 1) / {FACTOR}, count({number}), min({number}), avg({number}), max({number})
FROM {column.table} WHERE step > :bucket * {FACTOR} GROUP BY (step - 1) / {FACTOR}
"""
    return f"""
INSERT INTO {column.pyramid} SELECT :level, bucket / {FACTOR}, sum(count), min(min), sum(mean * count) / sum(count), max(max)
FROM {column.pyramid} WHERE level = :level - 1 AND bucket >= :bucket * {FACTOR} GROUP BY bucket / {FACTOR}
"""

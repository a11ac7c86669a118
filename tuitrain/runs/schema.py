"""The tables of a run's metrics file, for its writer and its readers."""

VERSION = 1
FACTOR = 64
LEVELS = 5
"""A billion steps lie in one bucket of the last level."""

SCHEMA = """
CREATE TABLE losses (step INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, loss REAL, time REAL NOT NULL);
CREATE TABLE pyramid (
    level INTEGER NOT NULL, bucket INTEGER NOT NULL, count INTEGER NOT NULL, min REAL, mean REAL, max REAL,
    PRIMARY KEY (level, bucket)
) WITHOUT ROWID;
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
"""

FIRST_LEVEL = f"""
INSERT INTO pyramid SELECT 1, (step - 1) / {FACTOR}, count(loss), min(loss), avg(loss), max(loss)
FROM losses WHERE step > :bucket * {FACTOR} GROUP BY (step - 1) / {FACTOR}
"""

NEXT_LEVEL = f"""
INSERT INTO pyramid SELECT :level, bucket / {FACTOR}, sum(count), min(min), sum(mean * count) / sum(count), max(max)
FROM pyramid WHERE level = :level - 1 AND bucket >= :bucket * {FACTOR} GROUP BY bucket / {FACTOR}
"""

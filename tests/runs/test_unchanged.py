"""What is read again, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuitrain.files import write_atomically
from tuitrain.runs.unchanged import Unchanged


def test_a_file_is_read_again_only_when_it_is_another_one(tmp_path: Path) -> None:
    file, reads = tmp_path / "file", []

    def read() -> bytes:
        reads.append(1)
        return file.read_bytes()

    file.write_bytes(b"one")
    kept = Unchanged(read, file)
    assert [kept.get(), kept.get(), len(reads)] == [b"one", b"one", 1]
    write_atomically(file, b"two")
    os.utime(file, ns=(file.stat().st_atime_ns, 0))
    assert [kept.get(), kept.get(), len(reads)] == [b"two", b"two", 2]
    file.write_bytes(b"three")
    assert kept.get() == b"three"


def test_a_failure_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "file"
    kept = Unchanged(file.read_bytes, file)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            kept.get()
    file.write_bytes(b"there")
    assert kept.get() == b"there"
    file.unlink()
    with pytest.raises(FileNotFoundError):
        kept.get()


def test_a_folder_counts_by_what_it_lists(tmp_path: Path) -> None:
    kept = Unchanged(lambda: sorted(os.listdir(tmp_path)), tmp_path)
    assert kept.get() == []
    (tmp_path / "one").mkdir()
    os.utime(tmp_path, ns=(0, 1))
    assert kept.get() == ["one"]

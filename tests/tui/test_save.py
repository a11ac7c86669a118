"""Saving where the person says: what is there keeps its kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuitrain.tui.save import SaveError, save_text


def test_a_symlink_stays_one_and_its_file_is_written(tmp_path: Path) -> None:
    kept, link = tmp_path / "kept.txt", tmp_path / "link.txt"
    link.symlink_to(kept)
    for text in ("first", "second"):
        assert save_text(str(link), text, overwrite=True) == link
        assert (link.is_symlink(), kept.read_text()) == (True, text)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_fifo_and_a_device_are_refused(tmp_path: Path, overwrite: bool) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for name in (str(fifo), os.devnull):
        with pytest.raises(SaveError, match=r"^this is no regular file: choose another name$") as refused:
            save_text(name, "text", overwrite=overwrite)
        assert not refused.value.exists, "Enter again would overwrite nothing"

"""Records are byte for byte those of tensorboard's own writer, and are found again in files of any size."""

import io

import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from tuitrain.runs import tfrecord
from tuitrain.runs.tfrecord import contents_with, framed

MARK = b"mark"


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)), b"long" * 1_000])
def test_a_record_is_as_tensorboard_writes_it(content):
    file = io.BytesIO()
    RecordWriter(file).write(content)
    assert framed(content) == file.getvalue()


def marked(number):
    return b"%d %s %s" % (number, MARK, b"." * (number % 7))


def found_in(path):
    return list(contents_with(path, MARK))


@pytest.mark.parametrize("piece", [5, 64, 1 << 20])
def test_the_records_with_a_mark_are_found_in_their_order(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(tfrecord, "_PIECE", piece)
    contents = [content for number in range(50) for content in (b"other %d" % number, marked(number), b"")]
    path = tmp_path / "file"
    path.write_bytes(b"".join(map(framed, contents)))
    assert found_in(path) == [marked(number) for number in range(50)]


def test_what_is_damaged_or_torn_is_passed_over(tmp_path):
    first, second, third = (bytearray(framed(marked(number))) for number in range(3))
    second[14] ^= 1
    path = tmp_path / "file"
    path.write_bytes(first + second + b"\xff" * 30 + MARK + third + framed(marked(3))[:-1])
    assert found_in(path) == [marked(0), marked(2)]
    path.write_bytes(b"")
    assert found_in(path) == []

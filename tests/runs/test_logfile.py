"""A log file that grows, is torn, is cut, or goes away."""

from tuitrain.runs import logfile
from tuitrain.runs.logfile import LogFile
from tuitrain.runs.logtail import LOG_LINES

TIME = "2026-11-21T04:13:00.000Z"


def texts(log):
    return [line.text for line in log.tail(100)]


def test_new_lines_are_added_to_the_same_log(tmp_path):
    path = tmp_path / "log.txt"
    file = LogFile(path)
    assert texts(file.follow()) == []
    path.write_text(f"{TIME} info one\n{TIME} output two\n", encoding="utf-8")
    log = file.follow()
    assert texts(log) == ["one", "two"]
    with path.open("a", encoding="utf-8") as growing:
        growing.write(f"{TIME} warning 三\n{TIME} info fo")
        growing.flush()
        assert file.follow() is log
        assert texts(log) == ["one", "two", "三"]
        growing.write("ur\n")
    file.follow()
    assert (texts(log), log.total) == (["one", "two", "三", "four"], 4)
    assert [line.level for line in log.tail(4)] == ["info", "output", "warning", "info"]
    assert not log.cut


def test_a_file_that_was_cut_or_is_gone_starts_anew(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(f"{TIME} info a long first line\n", encoding="utf-8")
    file = LogFile(path)
    file.follow()
    path.write_text(f"{TIME} info new\n", encoding="utf-8")
    assert texts(file.follow()) == ["new"]
    path.unlink()
    assert texts(file.follow()) == []


def test_only_the_end_of_a_long_file_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(logfile, "_NEWEST_BYTES", 200)
    path = tmp_path / "log.txt"
    path.write_text("".join(f"{TIME} info line {number}\n" for number in range(1000)), encoding="utf-8")
    log = LogFile(path).follow()
    found = texts(log)
    assert log.cut
    assert found[-1] == "line 999"
    assert 1 < len(found) < 10
    assert all(text.startswith("line ") for text in found)


def test_of_many_lines_the_newest_are_kept_and_that_there_are_older_ones_is_known(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text(f"{TIME} info x\n" * (LOG_LINES + 1), encoding="utf-8")
    log = LogFile(path).follow()
    assert (len(log.tail(LOG_LINES + 1)), log.cut) == (LOG_LINES, True)

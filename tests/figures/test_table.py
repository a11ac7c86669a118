"""The README's table of figures, made from the files in benchmarks/results."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.awaited import LINES
from benchmarks.pairs import Figure, alone, figure, own, rounds
from benchmarks.results import NO_LONGER_TAKEN, Keeper, newest
from benchmarks.sections import OTHERS, place_of
from benchmarks.table import FAULTS, FIGURES, line_of, main, markdown, with_table

MACHINE = {
    "cpu": "Some CPU",
    "cores": 2,
    "bf16_instructions": False,
    "gpus": [],
    "python": "3.11.7",
    "torch": "2.13.0",
    "textual": "8.2.8",
    "tuitrain": "0.1.0",
}


def write(folder: Path, stamp: str, *lines: Figure, **machine: object) -> None:
    document = {"machine": {**MACHINE, **machine}, "figures": [asdict(line) for line in lines]}
    (folder / f"{stamp}.json").write_text(json.dumps(document), encoding="utf-8")


def speed(ratio: float, note: str = "") -> Figure:
    return figure("speed", [ratio] * 3, ours="a", peer="b", least=1.5, note=note)


def test_the_newest_figure_of_each_name_counts_also_when_it_is_a_miss(tmp_path: Path) -> None:
    write(tmp_path, "20261121-0338", speed(2.0), alone("bytes", 400, most=500, unit="B/s"))
    write(tmp_path, "20261121-033801", speed(1.2))
    table = markdown(newest(tmp_path))
    assert "| speed | a | b | 1.2 | ≥ 1.5 | no | A, 2026-11-21 |" in table
    assert "| bytes | 400 B/s | - | - | ≤ 500 B/s | yes | A, 2026-11-21 |" in table
    assert table.count("| speed |") == 1


def test_what_no_command_takes_any_more_is_not_shown(tmp_path: Path) -> None:
    write(tmp_path, "20261121-0338", *(alone(name, 400, most=500, unit="B/s") for name in ("bytes", *NO_LONGER_TAKEN)))
    assert [kept.figure.name for kept in newest(tmp_path)] == ["bytes"]


def test_each_line_says_its_machine(tmp_path: Path) -> None:
    write(tmp_path, "20261121-0338", speed(2.0))
    write(tmp_path, "20261122-0338", alone("bytes", 400, most=500, unit="B/s"), bf16_instructions=True, amx=True, gpus=["NVIDIA H200"])
    table = markdown(newest(tmp_path))
    assert "yes | A, 2026-11-21 |" in table
    assert "yes | B, 2026-11-22 |" in table
    assert "- A: 2 cores of Some CPU, without bf16 instructions, no GPU" in table
    assert "- B: 2 cores of Some CPU, with bf16 instructions and AMX, NVIDIA H200" in table


def test_a_median_that_holds_with_an_interval_that_does_not_is_said() -> None:
    line = figure("speed", [1.4, 1.6, 1.7], ours="a", peer="b", least=1.5)
    assert "| 1.6 (1.4 to 1.7, 3 pairs) | ≥ 1.5 | median yes, interval no |" in line_of(line)


def test_the_interval_of_a_ratio_does_not_count_where_the_target_is_a_value() -> None:
    line = own("bytes", [100.0, 110.0], [50.0, 60.0], most=200, unit="B/s", what="peer")
    assert line_of(line).endswith("| ≤ 200 B/s | yes |")


def test_a_note_says_why_a_target_was_missed() -> None:
    assert line_of(speed(1.0, "this CPU is slow")).endswith("| no: this CPU is slow |")


def test_check_fails_until_the_table_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "20261121-0338", speed(2.0))
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{FIGURES}\nold\n{FIGURES}\nafter\n{FAULTS}\n{FAULTS}\nend\n", encoding="utf-8")
    (tmp_path / "torture").mkdir()
    tried = {"fault": "kill", "name": "SIGKILL", "tried": 9, "expected": 8, "facts": ["step 3 on"], "left_out": "", "problems": ["x"]}
    other = {"fault": "disk", "name": "a full disk", "tried": 0, "expected": 0, "facts": [], "left_out": "only root can", "problems": []}
    for stamp, faults in (("20261121-010203", [{**tried, "expected": 9}, other]), ("20261122-010203", [tried])):
        (tmp_path / "torture" / f"{stamp}.json").write_text(json.dumps({"machine": MACHINE, "faults": faults}), encoding="utf-8")
    where = ["--readme", str(readme), "--results", str(tmp_path), "--torture", str(tmp_path / "torture")]
    monkeypatch.setattr("sys.argv", ["table", "--check", *where])
    assert main() == 1
    assert "old" in readme.read_text(encoding="utf-8")
    assert "does not hold the newest figures" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["table", *where])
    assert main() == 0
    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{FIGURES}\n**Training on a GPU**\n\n| Figure |")
    assert "\n**Others**\n\n| Figure |" in text
    assert f"{FIGURES}\nafter\n{FAULTS}\n| What is done" in text
    assert "| SIGKILL | 9 | 8 | step 3 on | 2026-11-22 |\n| a full disk | 0 | 0 | not tried: only root can | 2026-11-21 |\n" in text
    assert text.endswith(f"{FAULTS}\nend\n")
    monkeypatch.setattr("sys.argv", ["table", "--check", *where])
    assert main() == 0


def test_a_readme_without_both_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly twice"):
        with_table(f"before\n{FIGURES}\nafter\n", FIGURES, "table")


def test_every_kept_result_can_be_read_and_keeping_more_changes_none(tmp_path: Path) -> None:
    kept = Keeper(tmp_path, MACHINE)
    kept.add([speed(2.0)])
    kept.add([alone("bytes", 400, most=500, unit="B/s")])
    assert [one.figure.name for one in newest(tmp_path)] == ["speed", "bytes"]
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    assert markdown(newest(results)).count("\n") > 15
    assert f"**{OTHERS}**" not in markdown(newest(results)), "each line that there is has its section"


def test_a_section_has_its_lines_in_their_order_and_those_that_were_not_measured(tmp_path: Path) -> None:
    names = "ddp with one rank, CPU", "training speed, CPU, fp32", "first frame (120×40)", "training speed, CPU, bf16"
    write(tmp_path, "20261121-0338", *(figure(name, [2.0], ours="a", peer="b", least=1.5) for name in names))
    tables = {title: text.split("\n\n")[1] for title, text in zip(*[iter(markdown(newest(tmp_path)).split("**")[1:])] * 2, strict=True)}
    lines = {title: [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]] for title, table in tables.items()}
    gpu = [line.name for line in LINES if line.taken_by != "watching"]
    assert lines == {
        "Start": ["first frame (120×40)"],
        "Training on the CPU": ["training speed, CPU, fp32", "training speed, CPU, bf16", "ddp with one rank, CPU"],
        "Training on a GPU": sorted(gpu, key=lambda name: place_of(name)[1]),
        "Watching GPUs and runs": ["watching a run beside W&B LEET, terminal output"],
    }


def test_rounds_alternate_and_leave_the_first_ones_out() -> None:
    called: list[str] = []
    values = iter(range(100))

    def taker(name: str) -> float:
        called.append(name)
        return next(values)

    taken = rounds([lambda: taker("a"), lambda: taker("b"), lambda: taker("c")], 2)
    assert "".join(called) == "abccbaabc"
    assert taken == [(5, 4, 3), (6, 7, 8)]

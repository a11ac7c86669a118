"""What the GPU screen says, shows and computes, without a screen."""

from __future__ import annotations

import os
import re
from itertools import pairwise

import msgspec
import pytest
from fakes import GIB, HOST, card, cpu_sampler
from gpu_machines import full_card, new_machine, process, with_cards
from rich.cells import cell_len

from tuitrain.devices import Choice, DeviceSample, HistoryPoint, Link, ProcessSample
from tuitrain.devices import choices as rows_of
from tuitrain.devices.names import short_name
from tuitrain.devices.samples import Clocks
from tuitrain.tui.gpus import cards, facts
from tuitrain.tui.gpus.history import SPANS, Span, filled, grid, means
from tuitrain.tui.gpus.layout import GpuSizes, arrange
from tuitrain.tui.gpus.process_list import ProcessList
from tuitrain.tui.gpus.process_rows import SORTS, arranged, cell, columns, process_rows, unheld, unheld_lines
from tuitrain.tui.gpus.sample import memory_share

NOW = 1_800_000_000.0


def choices(*devices: DeviceSample) -> tuple[Choice, ...]:
    return rows_of(new_machine(*devices).latest())


# -- history --------------------------------------------------------------------------------------------------------------


def points(seconds: int, value: float = 50.0) -> list[HistoryPoint]:
    return [
        HistoryPoint(time=NOW - ago, utilization=value, memory_used=None, power=None, temperature=None) for ago in range(seconds, -1, -1)
    ]


@pytest.mark.parametrize("seconds", [seconds for _, seconds in SPANS])
@pytest.mark.parametrize("cells", [4, 13, 57, 190])
def test_a_graph_shows_its_whole_span_and_is_full_to_where_now_is(seconds: int, cells: int) -> None:
    for late in range(0, 2 * seconds, max(seconds // 20, 1)):
        where = grid(seconds, cells, NOW + late)
        newest = where.newest * where.step
        assert newest - where.oldest_seconds >= seconds - 3 * where.step
        past = [msgspec.structs.replace(point, time=point.time + late) for point in points(seconds + 600)]
        known = [value is not None for value in means(past, lambda point: point.utilization, where)]
        assert len(known) == cells
        filled_cells = where.cell_of_newest() + 1
        assert all(known[:filled_cells])
        assert not any(known[filled_cells:])
        assert filled_cells >= cells // 2


def test_a_graph_stands_still_and_moves_only_now_and_then() -> None:
    firsts = [grid(300, 57, NOW + late).first for late in range(300)]
    moves = sum(one != other for one, other in pairwise(firsts))
    assert 5 <= moves <= 12


def test_columns_are_means_and_what_is_unknown_is_blank() -> None:
    where = grid(60, 32, NOW)
    past = [msgspec.structs.replace(point, utilization=100.0 if int(point.time) % 2 else 0.0) for point in points(99)]
    values = means(past, lambda point: point.utilization, where)
    inside = values[1 : where.cell_of_newest() - 1]
    assert inside
    assert all(value is not None and 100 / 3 - 1 < value < 200 / 3 + 1 for value in inside)
    assert means(past, lambda point: point.power, where) == [None] * 32
    # The clock was set back meanwhile.
    ahead = [msgspec.structs.replace(point, time=point.time + 700) for point in points(700)]
    assert means(ahead, lambda point: point.utilization, where)[: where.cell_of_newest()] == [None] * where.cell_of_newest()
    assert filled([None, 0.0, 25.0, 50.0, 100.0, 120.0], 100.0, 2) == ["    ██", " ▁▄███"]
    assert filled([None, 0.0], 0.0, 1) == [" ▁"], "all that is known is 0"


def test_the_span_goes_from_a_minute_to_an_hour() -> None:
    span = Span()
    names = [span.name]
    for by in (-1, -1, 1, 1, 1, 1, 1):
        span.step(by)
        names.append(span.name)
    assert names == ["5 min", "1 min", "1 min", "5 min", "15 min", "1 h", "1 h", "1 h"]


# -- rows of each pane ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (80, 60), (200, 24)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 16, 64])
@pytest.mark.parametrize("notes", [0, 2])
def test_the_panes_share_the_screen_and_processes_keep_five_lines(size: tuple[int, int], count: int, notes: int) -> None:
    width, height = size[0], size[1] - 2
    sizes = arrange(width, height, cards=count, notes=notes)
    assert sizes.cards + sizes.history + sizes.processes == height
    assert sizes.cards >= 4
    assert min(sizes.cards, sizes.history, sizes.processes) >= 0
    if count:
        assert sizes.processes - 3 >= 5
    if 0 < count <= 8 and size[1] >= 40:
        assert sizes.history >= 6


@pytest.mark.parametrize(
    ("size", "count", "sizes"),
    [
        ((80, 24), 0, GpuSizes(4, True, 18, 0, across=2)),
        ((80, 24), 1, GpuSizes(6, True, 8, 8)),
        ((120, 40), 1, GpuSizes(6, True, 16, 16, across=2)),
        ((200, 60), 2, GpuSizes(10, True, 26, 22, subjects=2)),
        ((80, 24), 2, GpuSizes(5, False, 9, 8)),
        ((120, 40), 8, GpuSizes(11, False, 12, 15, across=2)),
        ((200, 60), 8, GpuSizes(11, False, 15, 32)),
        ((80, 24), 8, GpuSizes(11, False, 0, 11)),
    ],
)
def test_few_cards_are_tall_and_graphs_stand_side_by_side_where_there_is_room(size: tuple[int, int], count: int, sizes: GpuSizes) -> None:
    assert arrange(size[0], size[1] - 2, cards=count, notes=0) == sizes


# -- words of a card ------------------------------------------------------------------------------------------------------


def test_who_has_a_card() -> None:
    assert cards.holders(full_card(3)) == cards.FREE
    assert cards.is_free(full_card(3))
    drawing = ProcessSample(pid=2**22, name="Xorg", user="root", memory=8 << 20, kind="G")
    assert cards.is_free(full_card(3, processes=(drawing,)))
    assert not cards.is_free(full_card(3, processes=(msgspec.structs.replace(drawing, kind="C"),)))
    assert cards.holders(full_card(3, status="lost")) == cards.FREE
    assert not cards.is_free(full_card(3, status="lost"))
    assert cards.holders(full_card(0)) == "bob 4.0 GiB, this tuitrain 3.0 GiB"
    assert cards.holders(full_card(0), 16) == "bob 4.0 GiB +1"
    assert cards.holders(full_card(0), 13) == "bob +1"
    assert cards.holders(full_card(0, processes=None)) == "n/a"
    assert cards.holders(full_card(0, processes=())) == "nobody seen here"
    assert cards.holders(full_card(0, processes=(), mig=True)) == "its instances"
    assert cards.holders(full_card(3, mig=True, parent="GPU-0", instance=0)) == cards.FREE
    foreign = process(1, foreign=True, user=None, memory=None)
    assert cards.holders(full_card(0, processes=(foreign, process(2, user=None)))) == "not visible 5.0 GiB, another container"


def test_what_holds_a_card_back_fits_its_column() -> None:
    hot = full_card(0, throttle=("too hot (hardware)", "power cap"))
    assert cards.held_back(hot) == cards.held_back(hot, 29) == "too hot (hardware), power cap"
    assert cards.held_back(hot, 28) == "too hot +1"
    assert cards.held_back(full_card(0, throttle=("too hot (hardware)",)), 10) == "too hot"
    assert cards.held_back(full_card(0, throttle=()), 3) == "-"


def test_numbers_that_are_not_known_are_not_zero() -> None:
    bare = DeviceSample(nvml_index=0)
    row = choices(bare)[0]
    assert cards.memory(bare) == "n/a"
    assert cards.power(bare) == "n/a"
    assert cards.held_back(bare) == "n/a"
    names = ("utilization", "temperature", "power", "fan", "state", "clock", "memory utilization", "bus")
    assert [cards.cell(row, name) for name in names] == ["n/a"] * len(names)
    told = {fact.label: fact.value for fact in facts.facts(row, new_machine(bare).latest())}
    assert {label: value for label, value in told.items() if value not in ("n/a", "n/a · n/a")} == {
        "CUDA · NVML": "n/a · 0",
        "driver · CUDA": "570.86.15 · 12.8",
    }
    assert cards.memory(DeviceSample(nvml_index=0, unified=True)) == "unified"
    assert cards.memory(DeviceSample(nvml_index=0, memory_total=80 * GIB)) == "n/a/80 GiB"
    assert cards.power(DeviceSample(nvml_index=0, power=412.0)) == "412 W"
    assert cards.power(DeviceSample(nvml_index=0, power_cap=700.0)) == "n/a"
    assert memory_share(bare) is memory_share(DeviceSample(nvml_index=0, memory_used=0, memory_total=0)) is None


def test_the_facts_of_a_card() -> None:
    one = full_card(1, ecc_errors=3, throttle=("power cap", "too hot (hardware)"))
    told = {fact.label: fact for fact in facts.facts(choices(one)[0], new_machine(one).latest())}
    assert told["held back by"].value == "power cap, too hot (hardware)"
    assert told["ECC"].value == "on, 3 uncorrected"
    assert all(told[label].loud for label in ("held back by", "ECC"))
    assert told["bus id"].value == "20:00.0"
    assert told["PCIe"].value == "gen 5 · x16"
    assert told["NVLink received"].value == "19.1 GiB/s"
    assert [told[label].value for label in ("power", "energy", "memory clock")] == ["442/700 W", "888.9 kWh", "2,619 of 2,619 MHz"]
    well = full_card(
        1,
        ecc_errors=0,
        throttle=(),
        clocks=Clocks(graphics=1980, memory_max=2619),
        pcie=Link(generation=4, generation_max=5),
        reason="another one is hidden",
    )
    told = {fact.label: fact for fact in facts.facts(choices(well)[0], new_machine(well).latest())}
    assert (told["ECC"].value, told["PCIe"].value) == ("on, 0 uncorrected", "gen 4 of 5")
    assert told["status"].value == "ok, but not for CUDA: another one is hidden"
    assert (told["graphics clock"].value, told["memory clock"].value) == ("1,980 MHz", "n/a")
    assert not [label for label, fact in told.items() if fact.loud or fact.old]
    host = rows_of(cpu_sampler().latest())[0]
    assert [fact.label for fact in facts.facts(host, cpu_sampler().latest())] == ["usable cores", "CPU", "RAM"]


@pytest.mark.parametrize(
    ("cores", "quota", "told"), [(1, 1.5, "1, by a quota of 1.5"), (4, 4.0, "4, by a quota of 4"), (2, 64.0, "2"), (2, None, "2")]
)
def test_a_quota_that_limits_the_cores_is_told(cores: int, quota: float | None, told: str) -> None:
    latest = cpu_sampler().latest()
    host = msgspec.structs.replace(latest.host, cores=cores, quota=quota)
    limited = facts.facts(rows_of(latest)[0], msgspec.structs.replace(latest, host=host))
    assert limited[0].value == told


def gone(seconds_ago: float | None, *, watched: int = 3600) -> dict[str, facts.Fact]:
    """The facts of a lost card, which was well until then."""
    lost = DeviceSample(nvml_index=1, cuda_index=1, uuid="GPU-1", name="NVIDIA H100", status="lost", reason="it is gone")
    snapshot = new_machine(lost).latest()
    blank = HistoryPoint(time=snapshot.time, utilization=None, memory_used=None, power=None, temperature=None)
    past = [msgspec.structs.replace(blank, time=snapshot.time - ago) for ago in range(watched - 1, 0, -1)]
    if seconds_ago is not None:
        past[-int(seconds_ago)] = msgspec.structs.replace(past[-int(seconds_ago)], utilization=83.0, memory_used=20 * GIB, temperature=61)
    return {fact.label: fact for fact in facts.facts(choices(lost)[0], snapshot, past)}


def test_a_lost_card_says_when_it_was_seen_and_what_it_told_and_not_that_nothing_is_known() -> None:
    told = gone(130)
    assert (told["status"].value, told["status"].loud) == ("lost: it is gone", True)
    assert re.fullmatch(r"\d\d:\d\d:\d\d, 2 min ago", told["last seen"].value)
    assert (told["what it told then"].value, told["what it told then"].old) == ("20.0 GiB in use · 83 % busy · 61 °C", True)
    assert "press d" in told["what to do"].value
    assert told["uuid"].value == "GPU-1"
    assert not {"power", "PCIe", "used by", "ECC"} & set(told)
    assert gone(5)["last seen"].value.endswith(", just now")
    assert gone(None)["last seen"].value == "not in the last hour"
    assert gone(None, watched=600)["last seen"].value == "not since tuitrain was opened"
    assert "what it told then" not in gone(None)


@pytest.mark.parametrize(("status", "answers"), [("ok", (True, True)), ("not responding", (False, True)), ("hidden", (False, False))])
def test_a_card_answers_while_there_is_something_to_show(status: str, answers: tuple[bool, bool]) -> None:
    mute = DeviceSample(nvml_index=0, status=status)  # type: ignore[arg-type]
    assert (cards.answers(mute), cards.answers(msgspec.structs.replace(mute, temperature=0))) == answers
    assert cards.silent(mute) == (status == "not responding")


def test_a_card_that_never_answered_was_not_seen() -> None:
    closed = DeviceSample(nvml_index=0, status="no permission", reason="this user may not open this card")
    told = {fact.label: fact.value for fact in facts.facts(choices(closed)[0], new_machine(closed).latest())}
    assert told["last seen"] == "not since tuitrain was opened"
    assert told["status"] == "no permission: this user may not open this card"


@pytest.mark.parametrize("width", range(70, 200, 7))
def test_the_columns_of_cards_fill_the_line(width: int) -> None:
    rows = rows_of(with_cards(16).latest())
    shown = cards.columns(width, rows, HOST)
    assert sum(column.width + 1 for column in shown) - 1 == width
    assert all(column.width >= 3 for column in shown)


def test_the_columns_of_cards_have_room_for_their_texts() -> None:
    large = card(12, name="NVIDIA RTX PRO 6000 Blackwell Server Edition", memory_total=192 * GIB)
    instance = card(12, instance=3, parent="GPU-9", cuda_index=None, memory_total=None)
    rows = choices(large, instance)[:-1]
    widths = {column.name: column.width for column in cards.columns(200, rows, HOST)}
    assert widths["gpu"] == max(len(cards.label(row)) for row in rows) == len("└mig 12.3")
    assert widths["memory"] >= len("98.9/192 GiB")
    assert widths["name"] == 20


def test_a_bus_id_of_another_domain_stays_whole() -> None:
    assert cards.bus(card(0, pci_bus_id="00000000:65:00.0")) == "65:00.0"
    assert cards.bus(card(0, pci_bus_id="00000001:65:00.0")) == "00000001:65:00.0"


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (
            full_card(0, memory_total=80 * GIB, power_cap=700.0),
            {"utilization": ("%", 100, 83), "memory": ("GiB", 80, 20), "power": ("W", 700, 412), "temperature": ("°C", 100, 61)},
        ),
        (card(0, instance=1, parent="GPU-9", memory_total=10 * GIB), {"memory": ("GiB", 10, 20)}),
        (card(0, instance=1, parent="GPU-9", memory_total=None, unified=True), {"memory": ("GiB", 512, 20)}),
        (card(0, instance=1, parent="GPU-9", memory_total=None), {"memory": ("GiB", 0, 20)}),
        (None, {"CPU": ("%", 100, 83), "RAM": ("GiB", 512, 20)}),
    ],
)
def test_graphs_and_their_tops_are_in_the_same_unit(device: DeviceSample | None, expected: dict[str, tuple[str, float, float]]) -> None:
    point = HistoryPoint(time=NOW, utilization=83, memory_used=20 * GIB, power=412.0, temperature=61)
    snapshot = new_machine(*([] if device is None else [device])).latest()
    graphs = cards.graphs_of(rows_of(snapshot)[0], snapshot)
    assert {graph.name: (graph.unit, graph.top, graph.value(point)) for graph in graphs} == expected


# -- processes ------------------------------------------------------------------------------------------------------------


def test_processes_of_instances_stand_under_them_only() -> None:
    one, other = process(1), process(2)
    parent = full_card(0, cuda_index=None, mig=True, processes=(one, other))
    child = full_card(1, cuda_index=0, uuid="MIG-1", parent=parent.uuid, processes=(one,))
    rows = process_rows(choices(parent, child))
    assert sorted((row.card_key, row.process.pid) for row in rows) == sorted([(parent.key, other.pid), ("MIG-1", one.pid)])


def test_memory_that_nobody_holds_is_said_where_it_is_much_and_known() -> None:
    held = full_card(0, memory_used=20 * GIB)
    assert unheld(held) == 13 * GIB
    assert unheld_lines(choices(held), 72, 1) == ["Held by no process seen here: cuda:0 13 GiB"]
    assert unheld_lines(choices(full_card(0)), 72, 1) == []
    assert unheld(full_card(0)) is None
    assert unheld(full_card(0, processes=None)) is None
    assert unheld(full_card(0, memory_used=20 * GIB, unified=True)) is None
    assert unheld(full_card(0, memory_used=20 * GIB, processes=(process(1), process(2, memory=None)))) is None
    assert unheld(full_card(0, memory_used=7 * GIB + 299 * 2**20)) is None
    assert unheld(full_card(0, memory_used=7 * GIB + 301 * 2**20)) == 301 * 2**20
    assert unheld(full_card(0, memory_total=4 * GIB, memory_used=GIB, processes=(process(1, memory=GIB - 250 * 2**20),))) == 250 * 2**20


@pytest.mark.parametrize("count", [1, 2, 8, 16])
@pytest.mark.parametrize("width", [72, 112, 192])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_memory_that_nobody_holds_fits_its_lines_and_no_card_is_forgotten(count: int, width: int, most: int) -> None:
    held = choices(*(full_card(index, memory_used=(10 + index) * GIB, processes=()) for index in range(count)))
    lines = unheld_lines(held, width, most)
    assert 1 <= len(lines) <= most
    assert all(cell_len(line) <= width for line in lines)
    text = " ".join(lines)
    named = [index for index in range(count) if f"cuda:{index} {10 + index} GiB" in text]
    assert named == list(range(len(named)))
    assert named
    assert text.endswith(f" and {count - len(named)} more") == (len(named) < count)
    assert len(named) == count or most < 5, "five lines have room for sixteen cards"


@pytest.mark.parametrize(
    ("status", "reason", "width", "said"),
    [
        ("lost", "it fell; reboot", 30, "lost: it fell; reboot"),
        ("lost", "it fell; reboot", 20, "lost: it fell"),
        ("lost", "it fell; reboot", 12, "lost"),
        ("reset required", "it needs a reset (sudo x) or y", 33, "reset required: it needs a reset"),
        ("not responding", "NVML not responding for 6 s", 60, "NVML not responding for 6 s"),
        ("hidden", "in MIG mode: choose an instance", 10, "hidden: in MIG mode: choose an instance"),
        ("no permission", None, 60, "no permission"),
    ],
)
def test_trouble_is_cut_between_clauses(status: str, reason: str | None, width: int, said: str) -> None:
    assert cards.trouble(full_card(0, status=status, reason=reason), width) == said


@pytest.mark.parametrize("name", SORTS)
def test_every_order_holds_all_and_turns_round(name: str) -> None:
    rows = process_rows(choices(*(full_card(index) for index in range(8))))
    unknown = process(50, user=None, memory=None, utilization=None, cpu_percent=None, started=None)
    rows.append(msgspec.structs.replace(rows[0], process=unknown))
    key, largest_first = SORTS[name]
    once = arranged(rows, name, reverse=False, sought="", card=None)
    assert len(once) == len(rows)
    values = [key(row) for row in once]
    assert values == sorted(values, reverse=largest_first)
    turned = [key(row) for row in arranged(rows, name, reverse=True, sought="", card=None)]
    assert turned == sorted(values, reverse=not largest_first)
    assert values != turned


@pytest.mark.parametrize(
    ("name", "field"), [("memory", "memory"), ("gpu", "utilization"), ("cpu", "cpu_percent"), ("ram", "host_memory"), ("age", "started")]
)
def test_the_largest_and_the_oldest_come_first_and_the_unknown_last(name: str, field: str) -> None:
    known = [getattr(process(0), field) + by for by in (5, 1, 3)]
    held = tuple(process(number, **{field: value}) for number, value in enumerate([*known, None]))
    found = arranged(process_rows(choices(full_card(0, processes=held))), name, reverse=False, sought="", card=None)
    assert [getattr(row.process, field) for row in found] == [*sorted(known, reverse=name != "age"), None]


def test_every_word_of_the_filter_must_be_somewhere() -> None:
    rows = process_rows(choices(*(full_card(index) for index in range(8))))
    found = arranged(rows, "card", reverse=False, sought="BOB  vllm", card=None)
    assert found
    assert all(row.process.user == "bob" and "vllm" in row.command for row in found)
    assert arranged(rows, "card", reverse=False, sought="bob nobody", card=None) == []
    renamed = process_rows(choices(full_card(0, processes=(process(1, name="vLLM::Worker", command="python"),))))
    assert arranged(renamed, "card", reverse=False, sought="worker", card=None) == renamed
    assert {row.card for row in arranged(rows, "card", reverse=False, sought="", card=full_card(2).key)} == {"cuda:2"}


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/opt/conda/envs/torch/bin/python -m torch.distributed.run /data/train.py", "python -m torch.distributed.run /data/train.py"),
        ("./.venv/bin/tuitrain", "tuitrain"),
        ("sshd: alice@pts/0", "sshd: alice@pts/0"),
        ("/", "/"),
        ("", "python"),
        (None, "python"),
    ],
)
def test_a_command_is_shown_without_the_folder_of_its_program_and_found_by_it(command: str | None, shown: str) -> None:
    rows = process_rows(choices(full_card(0, processes=(process(1, name="python", command=command),))))
    assert [cell(row, "command", 0.0) for row in rows] == [shown]
    for word in (command or "python").split():
        assert arranged(rows, "card", reverse=False, sought=word, card=None) == rows


def test_the_selection_stays_with_its_process() -> None:
    seen = ProcessList()
    seen.page = 4
    seen.show(process_rows(choices(*(full_card(index) for index in range(8)))))
    seen.go_to(6)
    chosen = seen.selected
    assert chosen is not None
    assert seen.top == 3
    for _ in SORTS:
        seen.next_sort()
        assert seen.selected == chosen
        assert chosen in seen.in_view
    seen.turn()
    assert seen.selected == chosen
    seen.show(seen.all[2:])
    assert seen.selected == chosen
    seen.show([row for row in seen.all if row.key != chosen.key])
    assert seen.selected is not None
    seen.show([])
    assert seen.selected is None
    assert seen.in_view == []


@pytest.mark.parametrize("width", range(74, 200, 9))
def test_the_columns_of_processes_leave_the_command_the_rest(width: int) -> None:
    shown = columns(width)
    assert sum(column.width + 1 for column in shown) - 1 == width
    assert shown[-1].name == "command"
    assert shown[-1].width >= 15
    large = process(9, pid=4194304, memory=999 * GIB, utilization=100.0, cpu_percent=6400.0)
    row = process_rows(choices(full_card(0, memory_total=999 * GIB, processes=(large,))))[0]
    for column in shown[:-1]:
        assert cell_len(cell(row, column.name, NOW)) <= column.width, column.name
    more = [name for name, least in (("gpu", 74), ("ram", 84), ("kind", 99), ("share", 115)) if width >= least]
    assert {column.name for column in shown} == {"card", "pid", "user", "memory", "cpu", "age", "command", *more}


def test_a_row_tells_what_is_known_of_a_process() -> None:
    one = process(7, memory=20 * GIB, utilization=97.0, cpu_percent=149.6, host_memory=3 * GIB, started=NOW - 7200)
    row = process_rows(choices(full_card(0, memory_total=80 * GIB, processes=(one,))))[0]
    told = {column.name: cell(row, column.name, NOW) for column in columns(200)[:-1]}
    assert told == {
        **{"card": "cuda:0", "pid": "4000007", "user": "dan", "kind": "C"},
        **{"memory": "20.0 GiB", "share": "25 %", "gpu": "97 %", "cpu": "150 %", "ram": "3.0 GiB", "age": "2 h"},
    }


def test_a_process_of_another_container_is_called_so() -> None:
    foreign = process(9, foreign=True, name=None, user=None, command=None, cpu_percent=None, host_memory=None, started=None)
    row = process_rows(choices(full_card(0, processes=(foreign,))))[0]
    assert [cell(row, name, NOW) for name in ("user", "cpu", "ram", "age", "command")] == [
        *("-", "-", "-", "-"),
        "another container's or the host's",
    ]
    gone = process_rows(choices(full_card(0, processes=(process(9, name=None, command=None),))))[0]
    assert gone.command == "not visible here"
    assert process_rows(choices(full_card(0)))[0].process.pid == os.getpid()


def test_a_mig_instance_has_the_name_that_tells_it_apart_and_its_number() -> None:
    one = card(0, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", instance=2, parent="GPU-x", cuda_index=0)
    assert short_name(one.name) == "MIG 1g.10gb"
    choice, _ = choices(one)
    known = {fact.label: fact.value for fact in facts.facts(choice, new_machine(one).latest())}
    assert known["CUDA · NVML"] == "cuda:0 · 0.2"
    assert "NVML tells its memory and its processes only" in known["everything else"]
    assert "PCIe" not in known
    assert [graph.name for graph in cards.graphs_of(choice, new_machine(one).latest())] == ["memory"]
    assert cards.name(choice, 11) == "MIG 1g.10gb"
    assert cards.name(choice, 10) == "1g.10gb"

"""The memory split: whatever the driver and torch say, each used byte is in exactly one part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuitrain.devices.samples import DeviceSample, ProcessSample
from tuitrain.devices.split import MemorySplit, OwnMemory, guess_context, split_memory

GIB = 2**30
US, ALICE, BOB = 100, 200, 300


def process(pid: int, memory: int | None, *, foreign: bool = False, rank_of: int | None = None) -> ProcessSample:
    return ProcessSample(pid=pid, name="python", user="someone", memory=memory, foreign=foreign, rank_of=rank_of)


def split(used: int | None, *processes: ProcessSample, allocated: int = 3 * GIB, reserved: int = 4 * GIB, **more: int) -> MemorySplit:
    card = DeviceSample(nvml_index=0, memory_used=used, memory_total=80 * GIB, processes=processes)
    found = split_memory(card, OwnMemory(allocated=allocated, reserved=reserved), US, **more)
    assert found is not None
    return found


def test_the_driver_tells_our_context_from_the_others() -> None:
    found = split(25 * GIB, process(US, 5 * GIB), process(ALICE, 18 * GIB))
    assert found == MemorySplit(used=25 * GIB, tensors=3 * GIB, cache=GIB, context=GIB, others=18 * GIB, unseen=2 * GIB)


def test_a_process_that_draws_and_computes_is_counted_once() -> None:
    found = split(10 * GIB, process(US, 5 * GIB), process(US, 5 * GIB), process(ALICE, 2 * GIB), process(ALICE, 2 * GIB))
    assert (found.context, found.others, found.unseen) == (GIB, 2 * GIB, 3 * GIB)


@pytest.mark.parametrize(
    "processes",
    [
        pytest.param((), id="a container without the host's processes"),
        pytest.param((process(7, 5 * GIB, foreign=True),), id="ours under the host's number"),
        pytest.param((process(US, 9 * GIB, foreign=True),), id="a foreign process that happens to have our number"),
        pytest.param((process(US, None),), id="ours, and the driver does not say how much"),
    ],
)
def test_where_ours_is_not_found_the_context_is_an_estimate_or_left_with_the_others(processes: tuple[ProcessSample, ...]) -> None:
    estimated = split(10 * GIB, *processes, context=GIB)
    assert (estimated.context, estimated.estimated) == (GIB, True)
    assert estimated.others + estimated.unseen == 5 * GIB
    untold = split(10 * GIB, *processes)
    assert (untold.context, untold.estimated) == (None, False)
    assert untold.others + untold.unseen == 6 * GIB


def test_the_estimate_is_not_used_where_the_driver_knows_better() -> None:
    found = split(10 * GIB, process(US, 5 * GIB), context=3 * GIB)
    assert (found.context, found.estimated) == (GIB, False)


def test_a_foreign_process_with_our_number_is_one_of_the_others() -> None:
    found = split(25 * GIB, process(US, 18 * GIB, foreign=True), context=GIB)
    assert (found.others, found.unseen) == (18 * GIB, 2 * GIB)


def test_what_a_rank_of_our_run_holds_is_ours_beside_the_context_of_an_earlier_run_of_this_process() -> None:
    found = split(25 * GIB, process(US, GIB), process(BOB, 10 * GIB, rank_of=US), process(ALICE, 2 * GIB))
    assert (found.tensors + found.cache + (found.context or 0), found.estimated) == (11 * GIB, False)
    assert (found.others, found.unseen) == (2 * GIB, 12 * GIB)


def test_nothing_is_called_unseen_where_a_process_does_not_say_what_it_holds() -> None:
    found = split(25 * GIB, process(US, 5 * GIB), process(ALICE, 2 * GIB), process(BOB, None))
    assert (found.others, found.unseen) == (20 * GIB, 0)


def test_without_a_list_of_processes_the_rest_is_others() -> None:
    card = DeviceSample(nvml_index=0, memory_used=10 * GIB)
    found = split_memory(card, OwnMemory(allocated=GIB, reserved=2 * GIB), US)
    assert found is not None
    assert (found.context, found.others, found.unseen) == (None, 8 * GIB, 0)


def test_a_card_that_does_not_say_what_is_used_cannot_be_split() -> None:
    assert split_memory(DeviceSample(nvml_index=0), OwnMemory(allocated=1, reserved=1), US) is None


def test_the_guess_is_what_the_run_added_beside_its_tensors() -> None:
    assert guess_context(10 * GIB, 5 * GIB, 4 * GIB) == GIB
    assert guess_context(10 * GIB, 9 * GIB, 4 * GIB) == 0


# -- any numbers -------------------------------------------------------------------------------------------------------

sizes = st.integers(0, 100 * GIB)
lists = st.none() | st.lists(
    st.builds(process, st.sampled_from([US, ALICE, BOB, 7]), st.none() | sizes, foreign=st.booleans()), max_size=5
).map(tuple)


def card_of(used: int, processes: tuple[ProcessSample, ...] | None) -> DeviceSample:
    return DeviceSample(nvml_index=0, memory_used=used, processes=processes)


def parts(found: MemorySplit) -> tuple[int, ...]:
    return (found.tensors, found.cache, found.context or 0, found.others, found.unseen)


@given(sizes, lists, sizes, sizes, st.none() | sizes)
def test_the_parts_are_never_negative_and_add_up(
    used: int, processes: tuple[ProcessSample, ...] | None, allocated: int, reserved: int, context: int | None
) -> None:
    found = split_memory(card_of(used, processes), OwnMemory(allocated=allocated, reserved=reserved), US, context)
    assert found is not None
    assert min(parts(found)) >= 0
    assert sum(parts(found)) == found.used == used
    assert not (found.estimated and found.context is None)


@given(sizes, sizes, lists, sizes, sizes, st.none() | sizes)
def test_more_use_of_the_card_makes_no_part_smaller(
    used: int, more: int, processes: tuple[ProcessSample, ...] | None, allocated: int, reserved: int, context: int | None
) -> None:
    own = OwnMemory(allocated=allocated, reserved=reserved)
    small, large = (split_memory(card_of(size, processes), own, US, context) for size in (used, used + more))
    assert small is not None
    assert large is not None
    assert all(before <= after for before, after in zip(parts(small), parts(large), strict=True))


@given(sizes, lists, sizes, sizes, sizes)
def test_more_tensors_never_leave_more_to_the_others(
    used: int, processes: tuple[ProcessSample, ...] | None, allocated: int, reserved: int, more: int
) -> None:
    card = card_of(used, processes)
    few = split_memory(card, OwnMemory(allocated=allocated, reserved=reserved), US)
    many = split_memory(card, OwnMemory(allocated=allocated + more, reserved=reserved + more), US)
    assert few is not None
    assert many is not None
    assert many.tensors >= few.tensors
    assert many.others + many.unseen <= few.others + few.unseen

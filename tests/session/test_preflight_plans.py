"""Which trials there are, and what their results mean."""

from __future__ import annotations

import json

import msgspec
import pytest

from tuitrain.config import ConfigError, RunConfig, with_changes
from tuitrain.session.preflight import bench
from tuitrain.session.preflight.plans import Plan, counts, left_out, plans, pool_of, spec_of
from tuitrain.session.preflight.results import Row, best_of, compare
from tuitrain.wire import Measured

CPU, TWICE, PAIR = Plan("single", ("cpu",)), Plan("split", ("cpu", "cpu")), Plan("ddp", ("cpu", "cpu"))
ONE, SPLIT, DP = Plan("single", ("cuda:0",)), Plan("split", ("cuda:0", "cuda:1")), Plan("dp", ("cuda:0", "cuda:1"))
DDP = Plan("ddp", ("cuda:0", "cuda:1"))
GIB = 2**30


def took(plan: Plan, seconds: float, **more: object) -> Measured:
    memory = tuple(GIB if name != "cpu" else None for name in plan.devices)
    answer = Measured(devices=plan.devices, data="synthetic", batch=64, steps=20, step_seconds=seconds, seconds=20 * seconds, memory=memory)
    return msgspec.structs.replace(answer, **more)


# -- plans ---------------------------------------------------------------------------------------------------------------


def test_the_cpu_alone_is_also_tried_as_two_replicas() -> None:
    assert plans(pool_of(("cpu",))) == (CPU, TWICE, PAIR)


def test_gpus_are_tried_alone_then_shared_with_each_strategy_that_fits() -> None:
    assert plans(("cuda:0", "cuda:1")) == (ONE, SPLIT, DP, DDP)


@pytest.mark.parametrize(
    ("devices", "tried"), [(1, ()), (2, (2,)), (3, (2, 3)), (4, (2, 4)), (5, (2, 4, 5)), (8, (2, 4, 8)), (16, (2, 4, 8, 16))]
)
def test_numbers_of_devices_double_up_to_all_of_them(devices: int, tried: tuple[int, ...]) -> None:
    assert counts(devices) == tried


def test_a_gpu_that_is_named_twice_is_no_case_for_dp_and_ddp() -> None:
    pool = ("cuda:0", "cuda:0")
    assert [plan.strategy for plan in plans(pool)] == ["single", "split"]
    assert [one.strategy for one in left_out(pool) if "each GPU once" in one.reason] == ["dp", "ddp"]


def test_what_is_not_measured_has_a_reason() -> None:
    assert {one.strategy for one in left_out(("cpu", "cpu"))} == {"dp"}
    assert {one.strategy for one in left_out(("cuda:0", "cpu"))} == {"dp", "ddp"}
    assert left_out(("cuda:0", "cuda:1")) == ()
    assert all("one device" in one.reason for one in left_out(("cuda:0",)))


@pytest.mark.parametrize(("device", "spec"), [("auto", "auto:all"), ("auto:2", "auto:all"), ("cpu", "cpu"), ("cuda:0,cuda:1",) * 2])
def test_auto_means_all_there_are_and_a_named_list_itself(device: str, spec: str) -> None:
    assert spec_of(device) == spec


def test_a_plan_is_applied_to_what_the_launcher_holds() -> None:
    config = with_changes(RunConfig(), {"device": "cuda:0,cuda:1", "strategy": "dp", "output_device": "cuda:1", "lr": 0.5})
    assert DP.applied(config) == config
    split = SPLIT.applied(config)
    assert (split.strategy, split.output_device, split.lr) == ("split", None, 0.5)
    assert (CPU.applied(config).device, CPU.applied(config).strategy) == ("cpu", "single")
    with pytest.raises(ConfigError, match="compile"):
        DP.applied(with_changes(RunConfig(), {"compile": True}))


# -- results -------------------------------------------------------------------------------------------------------------


def test_speed_is_compared_with_one_device_and_with_the_ideal() -> None:
    one, split, dp = compare((ONE, SPLIT, DP), {ONE: took(ONE, 0.016), SPLIT: took(SPLIT, 0.01)})
    assert (one.speedup, one.efficiency) == (1.0, 1.0)
    assert split.speedup == pytest.approx(1.6)
    assert split.efficiency == pytest.approx(0.8)
    assert split.words() == "1.6× of one device, 80 % of ideal"
    assert (dp.measured, dp.words(), dp.best) == (None, "", False)
    assert [row.best for row in (one, split)] == [False, True]


def test_replicas_that_share_a_device_promise_no_speed() -> None:
    _, twice = compare((CPU, TWICE), {CPU: took(CPU, 0.01), TWICE: took(TWICE, 0.0125)})
    assert twice.words().startswith("0.8× of one replica; they share a device")
    pair = compare((CPU, PAIR), {CPU: took(CPU, 0.01), PAIR: took(PAIR, 0.008)})[1]
    assert pair.words() == "1.2× of one process; they share the CPU's cores"


def test_among_equals_the_fewest_devices_are_the_best() -> None:
    measured = {ONE: took(ONE, 0.0100), SPLIT: took(SPLIT, 0.0098)}
    assert best_of((ONE, SPLIT), measured) == ONE
    assert best_of((ONE, SPLIT), {**measured, SPLIT: took(SPLIT, 0.0090)}) == SPLIT
    assert best_of((ONE, SPLIT), {}) is None
    failed = Measured(error="no room")
    assert best_of((ONE, SPLIT), {ONE: failed, SPLIT: failed}) is None


def test_a_trial_that_failed_is_its_sentence_and_others_have_nothing_to_compare_with() -> None:
    one, split = compare((ONE, SPLIT), {ONE: Measured(error="cuda:0 has no room."), SPLIT: took(SPLIT, 0.01)})
    assert one.words() == "cuda:0 has no room."
    assert (split.speedup, split.efficiency, split.best) == (None, None, True)
    assert "nothing to compare with" in split.words()


@pytest.mark.parametrize(
    ("plan", "found", "words"),
    [
        (ONE, {"largest": 8192, "largest_by": "memory"}, "about 8,192 fit"),
        (ONE, {"largest": 12800, "largest_by": "data"}, "all 12,800 training samples fit"),
        (ONE, {"largest": 512, "largest_by": "time"}, "512 fit, perhaps more"),
        (CPU, {}, "not limited here"),
        (ONE, {"error": "it failed"}, ""),
    ],
)
def test_the_largest_batch_in_words(plan: Plan, found: dict[str, object], words: str) -> None:
    assert Row(plan=plan, measured=took(plan, 0.01, **found)).largest_words() == words


# -- the command's text --------------------------------------------------------------------------------------------------


class Canned:
    """Trials whose results are known."""

    def __init__(self, *pool: str, gpus: int = 0) -> None:
        self.found = Measured(devices=pool, gpus=gpus)
        self.results: dict[Plan, Measured] = {}
        self.asked: list[Plan] = []

    def devices(self, config: RunConfig, stop: object) -> Measured:
        return self.found

    def measure(self, config: RunConfig, plan: Plan, stop: object) -> Measured:
        self.asked.append(plan)
        return self.results.get(plan) or took(plan, 0.02 if "cpu" in plan.devices else 0.01 / len(plan.devices))


def benched(trials: Canned) -> bench.Bench:
    return bench.bench(trials, RunConfig(recipe="seed-cnn"), 20, lambda _: None)


def test_each_plan_is_measured_once_and_the_table_fits_80_columns() -> None:
    trials = Canned("cuda:0", "cuda:1", gpus=2)
    trials.results[SPLIT] = took(SPLIT, 0.00625, largest=8192, largest_by="memory")
    trials.results[DP] = Measured(error="cuda:1 ran out of memory while training; a smaller batch_size needs less (tried 2 GiB).")
    found = benched(trials)
    assert trials.asked == [CPU, ONE, Plan("single", ("cuda:1",)), SPLIT, DP, DDP]
    text = bench.as_text(found)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "cuda:0 does 2.0× the samples of the CPU." in lines
    assert any(line.startswith("split    cuda:0,cuda:1") and line.endswith("80 %") for line in lines)
    assert "about 8,192 fit" in text
    assert "ran out of memory" in " ".join(text.split())
    assert any(line.startswith("ddp      cuda:0,cuda:1") and line.endswith("100 %  best") for line in lines)
    assert not found.failed


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ((69 << 20,) * 2, "0.07/0.07"),
        ((140 << 20, 38 << 20), "0.14/0.04"),
        ((18 * GIB, 9 * GIB), "18.0/9.00"),
        ((120 * GIB, 99 * GIB), "120/99.0"),
    ],
)
def test_a_small_network_takes_hundredths_of_a_gib(memory: tuple[int, int], said: str) -> None:
    trials = Canned("cuda:0", "cuda:1")
    trials.results[SPLIT] = took(SPLIT, 0.0125, memory=memory)
    text = bench.as_text(benched(trials))
    assert max(map(len, text.splitlines())) <= 80
    assert any(line.startswith("split    cuda:0,cuda:1") and line.split()[4] == said for line in text.splitlines())


@pytest.mark.parametrize(
    ("steps", "said"), [(1, "1 step of seed-cnn, batch 64, synthetic data"), (2, "2 steps of seed-cnn, batch 64, synthetic data")]
)
def test_the_table_begins_with_what_was_timed(steps: int, said: str) -> None:
    found = bench.bench(Canned("cpu"), RunConfig(recipe="seed-cnn"), steps, lambda _: None)
    assert bench.as_text(found).splitlines()[0] == said


def test_the_json_has_null_where_nothing_is_known() -> None:
    trials = Canned("cpu")
    trials.results[TWICE] = Measured(error="no")
    told = json.loads(bench.as_json(benched(trials)))
    assert [row["device"] for row in told["comparison"]] == [["cpu"]]
    assert told["comparison"][0]["samples_per_second"] == pytest.approx(3200)
    one, twice, _ = told["strategies"]
    assert (one["memory"], one["largest_batch"], one["best"], one["error"]) == ([None], None, True, None)
    assert (twice["samples_per_second"], twice["efficiency"], twice["memory"], twice["error"]) == (None, None, [None, None], "no")


def test_a_device_that_cannot_be_used_is_wrong_usage() -> None:
    trials = Canned()
    trials.found = Measured(error="device: 'cuda:7' is not there.", refused=True)
    with pytest.raises(ConfigError, match="cuda:7"):
        benched(trials)
    assert trials.asked == []


def test_nothing_measured_is_a_failure() -> None:
    trials = Canned("cpu")
    trials.results = {plan: Measured(error="no") for plan in (CPU, TWICE, PAIR)}
    assert benched(trials).failed

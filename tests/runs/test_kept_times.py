"""Where the time of a run's steps went: kept as one sum, of older runs as nothing; the energy; the run to compare with."""

import sqlite3

import msgspec
import pytest
from small_runs import STARTED, make_run, small_run, write

from tuitrain.config import with_changes
from tuitrain.events import GpuSample, Phases, RunStarted, StepTimes
from tuitrain.recipes import load_recipe
from tuitrain.runs.errors import RunError
from tuitrain.runs.history import DeviceHistory
from tuitrain.runs.one_device import find_one_device
from tuitrain.runs.reader import MetricsReader
from tuitrain.runs.record import RunRecord
from tuitrain.runs.saved import load_record


def times(steps=10, seconds=1.0, devices=("cpu",), strategy="single", replicas=0):
    each = Phases(forward=seconds / 4, backward=seconds / 4)
    phases = Phases(data=seconds / 4, forward=seconds / 4, backward=seconds / 2)
    return StepTimes(strategy=strategy, devices=devices, steps=steps, samples=64 * steps, phases=phases, replicas=(each,) * replicas)


def kept(path):
    with MetricsReader(path) as reader:
        return reader.step_times()


def change(path, query, *values):
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(query, values)
    connection.close()


# -- the store ------------------------------------------------------------------------------------------------------------


def test_the_sum_of_what_was_told(tmp_path):
    path, record = tmp_path / "metrics.sqlite", RunRecord(load_recipe("seed-cnn"))
    write(path, STARTED)
    assert kept(path) is None
    told = [times(10, 1.0, ("cpu", "cpu"), "split", 2), times(5, 4.0, ("cpu", "cpu"), "split", 2)]
    for event in told:
        write(path, event)
        record.apply(event)
    found = kept(path)
    assert found == record.step_times
    assert (found.steps, found.samples, found.devices) == (15, 15 * 64, ("cpu", "cpu"))
    assert found.phases == Phases(data=1.25, forward=1.25, backward=2.5)
    assert found.replicas == (Phases(forward=1.25, backward=1.25),) * 2


def test_time_that_was_spent_on_steps_made_again_counts_and_other_devices_begin_anew(tmp_path):
    path = tmp_path / "metrics.sqlite"
    write(path, STARTED, times(10), msgspec.structs.replace(STARTED, resumed_from=3), times(5))
    assert kept(path).steps == 15
    write(path, times(7, devices=("cpu", "cpu"), strategy="split", replicas=2))
    assert (kept(path).steps, kept(path).strategy) == (7, "split")


def test_a_file_of_an_older_version_says_nothing_and_learns_it(tmp_path):
    path = tmp_path / "metrics.sqlite"
    write(path, STARTED, times())
    change(path, "DROP TABLE step_times")
    with MetricsReader(path) as reader:
        assert reader.step_times() is None
        # The run goes on while somebody looks at it.
        write(path, times(4))
        assert reader.step_times().steps == 4


def test_a_damaged_sum_is_a_sentence_and_is_written_anew(tmp_path):
    path = tmp_path / "metrics.sqlite"
    write(path, STARTED, times())
    change(path, "UPDATE step_times SET event = ?", b"\xff{")
    with pytest.raises(RunError, match=r"metrics\.sqlite cannot be read"):
        kept(path)
    write(path, times(3))
    assert kept(path).steps == 3


def test_a_run_that_is_opened_has_it(tmp_path):
    folder = make_run(tmp_path, batch=[*small_run(), times(10), times(9)])
    assert load_record(folder.path).step_times.steps == 19


# -- energy ---------------------------------------------------------------------------------------------------------------


def sample(moment, power):
    return GpuSample(time=moment, device="cuda:0", memory_used=None, utilization=None, power=power, temperature=None)


def test_the_power_of_each_second_adds_up_and_gaps_do_not():
    history = DeviceHistory()
    assert history.joules is None
    history.add(sample(100.0, None))
    assert history.joules is None
    history.extend([sample(101.0, 200.0), sample(102.0, 300.0), sample(103.0, None), sample(104.0, 100.0)])
    assert (history.joules, history.powered_seconds) == (600.0, 3.0)
    # A run that goes on a day later took nothing in between; a clock that was set back gives nothing.
    history.extend([sample(90_000.0, 500.0), sample(89_000.0, 500.0), sample(90_002.0, 500.0)])
    assert (history.joules, history.powered_seconds) == (1600.0, 5.0)


# -- the run to compare with ----------------------------------------------------------------------------------------------


def a_run(runs_dir, *, steps=100, seconds=10.0, device=("cpu",), strategy="single", gpu=None, host="here", **changes):
    """A run of seed-cnn that measured so many steps."""
    config = with_changes(load_recipe("seed-cnn"), {"device": ",".join(device), "strategy": strategy, **changes})
    told = times(steps, seconds, device, strategy, len(device) if len(device) > 1 else 0)
    folder = make_run(runs_dir, config, [*small_run(), told], host=host, device=device, strategy=strategy)
    if gpu:
        text = (folder.path / "run.toml").read_text()
        assert "threads = 2" in text
        (folder.path / "run.toml").write_text(text.replace("threads = 2", f'threads = 2\ngpu = "{gpu}"'))
    return folder.path


def test_the_same_training_on_one_device_is_found(tmp_path):
    one = a_run(tmp_path, seconds=5.0)
    several = a_run(tmp_path, device=("cpu", "cpu"), strategy="split")
    found = find_one_device(several)
    assert (found.run, found.device, found.samples_per_second) == (one.name, "cpu", 1280.0)


@pytest.mark.parametrize(
    "other",
    [
        {"batch_size": 128},
        {"precision": "bf16"},
        {"host": "elsewhere"},
        {"steps": 5},
        {"device": ("cpu", "cpu"), "strategy": "split"},
        {"device": ("cuda:0",), "gpu": "NVIDIA H100"},
    ],
)
def test_another_training_is_none_to_compare_with(tmp_path, other):
    a_run(tmp_path, **other)
    assert find_one_device(a_run(tmp_path, device=("cpu", "cpu"), strategy="split")) is None


def test_a_gpu_is_compared_with_one_of_the_same_name_on_any_machine(tmp_path):
    a_run(tmp_path, device=("cuda:0",), gpu="NVIDIA A100", host="elsewhere")
    same = a_run(tmp_path, device=("cuda:3",), gpu="NVIDIA H100", host="elsewhere")
    several = a_run(tmp_path, device=("cuda:0", "cuda:1"), strategy="ddp", gpu="NVIDIA H100, NVIDIA H100")
    assert find_one_device(several).run == same.name
    mixed = a_run(tmp_path, device=("cuda:0", "cuda:1"), strategy="ddp", gpu="NVIDIA H100, NVIDIA A100")
    assert find_one_device(mixed) is None


def test_runs_that_cannot_be_read_are_passed_over(tmp_path):
    one = a_run(tmp_path)
    several = a_run(tmp_path, device=("cpu", "cpu"), strategy="split")
    for place in range(3):
        (a_run(tmp_path, name=f"broken {place}") / ("metrics.sqlite", "run.toml", "state.json")[place]).write_bytes(b"\0not it")
    (tmp_path / "no run").mkdir()
    assert find_one_device(several).run == one.name
    assert find_one_device(tmp_path / "no run") is None
    assert find_one_device(tmp_path / "gone" / "far") is None


def test_the_event_is_not_printed():
    from tuitrain.events import PUBLIC

    assert StepTimes not in PUBLIC
    assert RunStarted in PUBLIC

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import engine_small
import pytest
import torch
from engine_small import FakeControl, losses_of, of, run, small_config
from torch import nn

from tuitrain.config import ConfigError, with_changes
from tuitrain.engine import evaluate, prepare
from tuitrain.engine.allocator import HOLES_SECONDS
from tuitrain.engine.batches import Batches
from tuitrain.engine.checkpoint import checkpoints, load
from tuitrain.engine.control import Interrupted
from tuitrain.engine.data import Split
from tuitrain.engine.datasets import home as data_home
from tuitrain.engine.datasets.synthetic import synthetic_images
from tuitrain.engine.models import seed_cnn
from tuitrain.engine.train import train
from tuitrain.events import Checkpoint, EndState, Eval, Losses, Notice, Progress, Replicas, ReplicaStats, RunEnded, RunStarted, State, Step
from tuitrain.paths import CHECKPOINTS
from tuitrain.recipes import load_recipe


def ended(events: list[Any]) -> RunEnded:
    assert isinstance(events[-1], RunEnded)
    return events[-1]


# -- the order of things ----------------------------------------------------------------------------------------------


def test_a_run_tells_its_whole_story_in_order(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    events = run(small_config(), control)
    started = next(event for event in events if not isinstance(event, (Notice, Progress)))
    assert isinstance(started, RunStarted)
    assert (started.device, started.strategy, started.data) == (("cpu",), "single", "custom")
    assert (started.train_samples, started.test_samples, started.steps_per_epoch, started.total_steps) == (50, 22, 7, 14)
    assert started.parameters == 3 * 4 * 9 + 4 + 64 * 4 + 4
    assert events[events.index(started) + 1] == State(state="running")
    assert engine_small.logged_steps(events) == list(range(1, 15))
    assert sorted(losses_of(events)) == list(range(1, 15))
    assert [(event.step, event.epoch) for event in of(Eval, events)] == [(7, 1), (14, 2)]
    assert [event.step for event in of(Checkpoint, events) if event.kind == "epoch"] == [7, 14]
    assert ended(events) == RunEnded(state="finished", step=14)
    told = [event for event in events if isinstance(event, (Step, Eval, Losses))]
    steps = [event.first_step if isinstance(event, Losses) else event.step for event in told]
    assert all(later >= earlier for earlier, later in itertools.pairwise(steps))
    assert all(event.samples_per_second > 0 and event.lr == 0.01 for event in of(Step, events))


def test_the_host_knows_what_was_taken_when_the_run_starts(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    for event in train(small_config(device="auto"), control):
        if isinstance(event, RunStarted):
            break
    assert control.resolved is not None
    assert (control.resolved.device, control.resolved.strategy) == ("cpu", "single") or torch.cuda.is_available()
    assert control.environment["torch"] == torch.__version__
    assert control.environment["threads"] == torch.get_num_threads()
    assert list(tmp_path.iterdir()) == []


def test_steps_are_told_by_their_number_and_never_by_the_clock(tmp_path: Path) -> None:
    events = run(small_config(log_every_steps=5, epochs=20, data="engine_small:make_images_without_test"), FakeControl(tmp_path))
    expected = {step for step in range(1, 141) if step == 1 or step % 5 == 0 or step % 100 == 0 or step % 7 == 0}
    assert engine_small.logged_steps(events) == sorted(expected)
    assert sorted(losses_of(events)) == list(range(1, 141))


def test_max_steps_in_the_middle_of_an_epoch_evaluates_and_saves_once(tmp_path: Path) -> None:
    events = run(small_config(max_steps=10), FakeControl(tmp_path))
    assert ended(events).state == "finished"
    assert [event.step for event in of(Eval, events)] == [7, 10]
    assert [(event.step, event.kind) for event in of(Checkpoint, events) if event.kind != "best"] == [(7, "epoch"), (10, "last")]


def test_max_steps_at_an_epochs_end_saves_once(tmp_path: Path) -> None:
    events = run(small_config(max_steps=7), FakeControl(tmp_path))
    assert [(event.step, event.kind) for event in of(Checkpoint, events) if event.kind != "best"] == [(7, "epoch")]
    assert len(of(Eval, events)) == 1


def test_random_linear_gives_the_table_of_shapes(tmp_path: Path) -> None:
    config = with_changes(load_recipe("random-linear"), {"device": "cpu"})
    events = run(config, FakeControl(tmp_path))
    first, last = of(Replicas, events)
    assert (first.step, first.batch, first.gathered) == (1, (30, 5), None)
    assert (first.replicas[0].device, first.replicas[0].input, first.replicas[0].output) == ("cpu", (30, 5), (30, 2))
    assert (last.step, last.replicas[0].input, last.replicas[0].output) == (4, (10, 5), (10, 2))
    losses = losses_of(events)
    assert (first.replicas[0].loss, last.replicas[0].loss) == (losses[1], losses[4])
    assert of(Eval, events) == []
    assert [event.kind for event in of(Checkpoint, events)] == ["epoch"]


def test_stats_come_at_most_once_a_second(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path))
    stats = of(ReplicaStats, events)
    assert 1 <= len(stats) < 14
    assert stats[0].replicas[0].memory is None
    assert stats[0].replicas[0].step_seconds > 0


# -- the numbers ------------------------------------------------------------------------------------------------------


def plain_losses(config: Any, make: Any, train_part: Any, steps: int, optimizer: Any, dtype: torch.dtype) -> list[float]:
    """What anyone would write: no tuitrain, contiguous memory, torch's own optimizer step."""
    inputs, labels = train_part
    torch.manual_seed(config.seed)
    model = make().to(dtype)
    criterion = nn.CrossEntropyLoss()
    moves = optimizer(model.parameters())
    losses: list[float] = []
    epoch = 0
    while len(losses) < steps:
        epoch += 1
        order = torch.arange(len(labels))
        if config.shuffle:
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(config.seed * 1_000_003 + epoch))
        for start in range(0, len(labels), config.batch_size):
            rows = order[start : start + config.batch_size]
            loss = criterion(model(inputs[rows].contiguous().to(dtype) / 255), labels[rows])
            moves.zero_grad()
            loss.backward()
            moves.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
    return losses


@pytest.mark.parametrize(
    ("changes", "optimizer", "tolerance"),
    [
        ({"precision": "fp64", "momentum": 0.9}, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), "fp64"),
        ({"precision": "fp64", "optimizer": "adam", "shuffle": True}, lambda p: torch.optim.Adam(p, lr=0.05), "fp64"),
        (
            {"precision": "fp64", "optimizer": "adamw", "weight_decay": 0.1},
            lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1),
            "fp64",
        ),
        ({"shuffle": True}, lambda p: torch.optim.SGD(p, lr=0.05), "fp32"),
    ],
    ids=["sgd fp64", "adam fp64", "adamw fp64", "sgd fp32"],
)
def test_losses_equal_those_of_a_plain_script(tmp_path: Path, changes: Any, optimizer: Any, tolerance: str) -> None:
    config = small_config(data="engine_small:make_images_without_test", lr=0.05, epochs=29, max_steps=200, seed=5, **changes)
    ours = losses_of(run(config, FakeControl(tmp_path)))
    dtype = torch.float64 if tolerance == "fp64" else torch.float32
    plain = plain_losses(config, lambda: engine_small.make_net(None), engine_small.make_images(None)[0], 200, optimizer, dtype)
    assert plain[-1] < plain[0]
    for step, expected in enumerate(plain, start=1):
        allowed = 1e-9 * expected if tolerance == "fp64" else 2e-4 * max(expected, 0.1)
        assert abs(ours[step] - expected) <= allowed, f"step {step}"


def test_the_seed_recipe_equals_a_plain_script(tmp_path: Path) -> None:
    config = with_changes(load_recipe("seed-cnn"), {"data": "synthetic", "device": "cpu", "batch_size": 16, "max_steps": 4})
    control = FakeControl(tmp_path)
    ours = {}
    for event in train(config, control):
        if isinstance(event, RunStarted):
            control.folder = tmp_path
            assert (event.parameters, event.train_samples, event.test_samples, event.data) == (145_578, 12_800, 2_000, "synthetic")
        if isinstance(event, Progress) and event.phase == "evaluating":
            control.ending = True  # the test set is not what this is about
            control.plan = {control.boundary + 1: ["stop"]}
        if isinstance(event, Losses):
            ours.update({event.first_step + i: loss for i, loss in enumerate(event.losses)})
    train_inputs, train_labels, _, _ = synthetic_images()
    plain = plain_losses(config, seed_cnn, (train_inputs, train_labels), 4, lambda p: torch.optim.SGD(p, lr=0.01), torch.float32)
    assert len(ours) == 4
    assert all(abs(ours[step] - expected) <= 2e-4 * max(expected, 0.1) for step, expected in enumerate(plain, start=1))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("changes", [{}, {"shuffle": True, "augment": "crop-flip"}, {"model": "engine_small:make_dropout_net"}])
def test_the_same_seed_gives_the_same_losses_bit_for_bit(tmp_path: Path, changes: Any) -> None:
    first = run(small_config(**changes), FakeControl(tmp_path / "a"))
    again = run(small_config(**changes), FakeControl(tmp_path / "b"))
    other = run(small_config(seed=1, **changes), FakeControl(tmp_path / "c"))
    assert losses_of(first) == losses_of(again)
    assert of(Eval, first) == of(Eval, again)
    assert losses_of(first) != losses_of(other)


def test_evaluation_is_what_the_seeds_print(tmp_path: Path) -> None:
    config = small_config(precision="fp64", epochs=1, lr=1e-12)
    told = of(Eval, run(config, FakeControl(tmp_path)))[0]
    inputs, labels = engine_small.make_images(None)[1]
    torch.manual_seed(0)
    model = engine_small.make_net(None).double().eval()
    with torch.no_grad():
        scores = model(inputs.double() / 255)
    each = nn.functional.cross_entropy(scores, labels, reduction="none")
    assert told.loss == pytest.approx(each.mean().item(), rel=1e-9)
    assert told.loss_sum == pytest.approx(sum(part.mean().item() for part in each.split(8)), rel=1e-9)
    assert told.accuracy == (scores.argmax(1) == labels).double().mean().item()


def test_nothing_but_the_model_draws_random_numbers(tmp_path: Path) -> None:
    config = small_config(model="engine_small:make_noisy", data="engine_small:make_images_without_test", precision="fp64", epochs=1)
    ours = losses_of(run(config, FakeControl(tmp_path)))
    data = engine_small.make_images(None)[0]
    plain = plain_losses(config, engine_small.Noisy, data, 7, lambda p: torch.optim.SGD(p, lr=0.01), torch.float64)
    assert [ours[step] for step in range(1, 8)] == pytest.approx(plain, rel=1e-9)


def test_bf16_trains_near_fp32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text("flags\t\t: avx2\n")
    monkeypatch.setattr("tuitrain.engine.optim._CPUINFO", tmp_path / "cpuinfo")
    half = run(small_config(precision="bf16", epochs=3), FakeControl(tmp_path / "a"))
    full = losses_of(run(small_config(epochs=3), FakeControl(tmp_path / "b")))
    assert ended(half).state == "finished"
    assert losses_of(half) != full
    assert all(abs(loss - full[step]) < 0.1 for step, loss in losses_of(half).items())
    assert any("emulated" in notice.text for notice in of(Notice, half))


def test_crop_flip_changes_the_batches(tmp_path: Path) -> None:
    plain, augmented = (run(small_config(augment=kind), FakeControl(tmp_path / kind)) for kind in ("none", "crop-flip"))
    assert losses_of(plain) != losses_of(augmented)


@pytest.mark.parametrize("other", [1, 2, 4096, 2**31])
def test_every_seed_has_an_order_and_an_augmentation_of_its_own(other: int) -> None:
    images = torch.arange(64 * 3 * 32 * 32).remainder(251).to(torch.uint8).reshape(64, 3, 32, 32)
    split = Split(images, torch.arange(64))

    def first(seed: int, **fields: object) -> tuple[torch.Tensor, torch.Tensor]:
        return Batches(split, small_config(seed=seed, batch_size=64, **fields)).get(1, 0, 1)

    assert not torch.equal(first(0, shuffle=True)[1], first(other, shuffle=True)[1])
    assert not torch.equal(first(0, augment="crop-flip")[0], first(other, augment="crop-flip")[0])


@pytest.mark.parametrize(("size", "said"), [(50, 0), (51, 1)])
def test_a_batch_of_more_than_there_is_says_what_it_takes(tmp_path: Path, size: int, said: int) -> None:
    events = run(small_config(batch_size=size, epochs=1), FakeControl(tmp_path))
    sentence = f"batch_size is {size}, and there are 50 training samples: each step takes all of them."
    assert [event.text for event in of(Notice, events)].count(sentence) == said


def test_several_outputs_are_shown_and_the_first_is_trained(tmp_path: Path) -> None:
    events = run(small_config(model="engine_small:make_two_outputs", epochs=1), FakeControl(tmp_path))
    replica = of(Replicas, events)[0].replicas[0]
    assert (replica.output, replica.outputs, replica.inputs) == ((8, 4), ((8, 4), (8, 192)), None)
    assert ended(events).state == "finished"


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_fails_the_run_at_its_step(tmp_path: Path) -> None:
    events = run(small_config(lr=1e38), FakeControl(tmp_path))
    end = ended(events)
    assert end.state == "failed"
    assert end.error is not None
    assert end.error.startswith(f"step {end.step}: the loss is ")
    losses = losses_of(events)
    assert max(losses) == end.step
    assert not math.isfinite(losses[end.step])
    assert all(math.isfinite(losses[step]) for step in range(1, end.step))
    assert of(Checkpoint, events) == []


def test_a_model_that_raises_ends_the_run_and_not_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = run(small_config(model="engine_small:make_raising"), FakeControl(tmp_path))
    end = ended(events)
    assert (end.state, end.step) == ("failed", 3)
    assert end.error is not None
    assert re.fullmatch(r"step 3: ValueError while training: bad \(engine_small\.py, line \d+\)\.", end.error)
    assert sorted(losses_of(events)) == [1, 2]
    told = capsys.readouterr().err
    assert "Traceback" in told, "the person whose model it is wants to see where"
    assert "\x1b" not in told


def test_a_model_that_ends_the_program_ends_the_run_as_failed(tmp_path: Path) -> None:
    end = ended(run(small_config(model="engine_small:make_leaving"), FakeControl(tmp_path)))
    assert (end.state, end.step) == ("failed", 3)
    assert end.error is not None
    assert end.error.startswith("step 3: SystemExit while training: 3")


def test_out_of_memory_says_what_helps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    end = ended(run(small_config(model="engine_small:make_hungry"), FakeControl(tmp_path)))
    assert end.error is not None
    said = "step 3: cpu ran out of memory while training; a smaller batch_size needs less"
    assert end.error.startswith(f"{said}, and so does the strategy split with cpu named several times (CUDA out of memory.")
    end = ended(run(small_config(model="engine_small:make_hungry", device="cpu,cpu"), FakeControl(tmp_path / "in parts")))
    assert end.error is not None
    assert end.error.startswith("step 2: cpu ran out of memory while training; a smaller batch_size needs less (CUDA out of memory.")
    assert capsys.readouterr().err == ""


def test_a_raise_in_evaluation_names_it(tmp_path: Path) -> None:
    events = run(small_config(model="engine_small:make_bad_evaluation"), FakeControl(tmp_path))
    assert ended(events).error.startswith("step 7: ValueError while evaluating: not in evaluation")
    assert sorted(losses_of(events)) == list(range(1, 8))


def test_tf32_on_a_cpu_is_fp32_and_says_so(tmp_path: Path) -> None:
    plain = run(small_config(), FakeControl(tmp_path / "a"))
    asked = run(small_config(precision="tf32"), FakeControl(tmp_path / "b"))
    assert losses_of(asked) == losses_of(plain)
    assert "cpu has no TF32: matrices are multiplied in fp32 there." in [notice.text for notice in of(Notice, asked)]


def test_flags_are_put_back_at_the_end_and_when_a_run_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    control = FakeControl(tmp_path)
    running = train(small_config(deterministic=True), control)
    for event in running:
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        if isinstance(event, Losses):
            assert torch.backends.cudnn.deterministic is True
            break
    running.close()
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == (False, True)


def test_a_model_whose_train_returns_nothing_trains(tmp_path: Path) -> None:
    assert run(small_config(model="engine_small:make_forgetful"), FakeControl(tmp_path))[-1].state == "finished"


def test_a_model_that_changes_its_inputs_in_place_does_not_change_the_data(tmp_path: Path) -> None:
    own = {"model": "engine_small:make_in_place", "data": "engine_small:make_floats", "epochs": 3}
    events = run(small_config(**own), FakeControl(tmp_path))
    torch.manual_seed(0)
    model, ((inputs, labels), test) = engine_small.make_in_place(None), engine_small.make_floats(None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    plain, tested = [], []
    for _ in range(3):
        for start in range(0, len(labels), 8):
            loss = nn.functional.cross_entropy(model(inputs[start : start + 8].clone()), labels[start : start + 8])
            plain.append(loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            tested.append(nn.functional.cross_entropy(model(test[0].clone()), test[1]).item())
    assert list(losses_of(events).values()) == pytest.approx(plain, rel=1e-4)
    assert [told.loss for told in of(Eval, events)] == pytest.approx(tested, rel=1e-4)


def test_what_a_model_keeps_of_its_first_pass_is_of_the_first_batch(tmp_path: Path) -> None:
    run(small_config(model="engine_small:make_first_pass", epochs=1), FakeControl(tmp_path))
    assert load(checkpoints(tmp_path / CHECKPOINTS)[-1]).model["2.first"] == 8


def test_a_model_without_room_for_a_copy_is_tried_itself(tmp_path: Path) -> None:
    events = run(small_config(model="engine_small:make_large", data="engine_small:make_flat", epochs=1), FakeControl(tmp_path))
    assert events[-1] == RunEnded(state="finished", step=7)


def test_a_layer_that_the_first_pass_makes_is_trained(tmp_path: Path) -> None:
    config = small_config(model="engine_small:make_growing", lr=0.5)
    (started,) = of(RunStarted, run(config, FakeControl(tmp_path)))
    assert started.parameters == 192 * 16 + 16 + 16 * 4 + 4
    first, *_, last = (load(path).model["2.layer.weight"] for path in checkpoints(tmp_path / CHECKPOINTS))
    assert not first.equal(last)


def test_rows_of_bytes_are_said_to_be_taken_for_pixels(tmp_path: Path) -> None:
    events = run(small_config(model="engine_small:make_first_pass", data="engine_small:make_flat", epochs=1), FakeControl(tmp_path))
    assert [event.level for event in of(Notice, events) if "as int64 the numbers of tokens stay" in event.text] == ["warning"]


def test_of_a_dict_the_logits_are_trained_wherever_they_are(tmp_path: Path) -> None:
    named, plain = (
        losses_of(run(small_config(model=f"engine_small:{model}", epochs=1), FakeControl(tmp_path / model)))
        for model in ("make_hidden_and_logits", "make_two_outputs")
    )
    assert named == plain


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "linear"}, ["model: 'linear' does not take inputs [2, 3, 8, 8]", "engine_small:make_images"]),
        (
            {"model": "engine_small:make_three_scores"},
            ["gives [2, 3] for inputs [2, 3, 8, 8]", "it must give [2, 4]", "4 classes. A parameter num_classes of the function or class"],
        ),
        (
            {"model": "engine_small:make_net", "data": "engine_small:make_counted_from_one"},
            ["gives [2, 4] for inputs", "it must give [2, 5]", "The training labels begin at 1; class numbers count from 0."],
        ),
        (
            {"model": "engine_small:make_time_first", "data": "engine_small:make_sequences"},
            ["gives [8, 4] for inputs [2, 8, 24]", "it must give [2, 4]", "takes the samples on axis 1 needs batch_dim 1."],
        ),
        (
            {"model": "engine_small:make_hidden_first"},
            [
                "gives [2, 192] and [2, 4] for inputs",
                "of which the first is taken",
                "the [2, 4]: return them first, or in a dict as 'logits'.",
            ],
        ),
        ({"model": "engine_small:make_hidden_and_scores"}, ["gives [2, 192] and [2, 4] for inputs", "return them first"]),
        ({"model": "engine_small:make_class_numbers"}, ["gives scores that are torch.int64; they must be of a floating type"]),
        ({"model": "linear", "data": "random", "augment": "crop-flip"}, ["augment: crop-flip is for images", "[5]"]),
        ({"data": "engine_small:make_thin", "augment": "flip-shift"}, ["augment: flip-shift needs images of 3×3 pixels", "[3, 1, 8]"]),
        ({"data": "engine_small:make_thin", "tta": True}, ["tta: true needs images of 2×2 pixels", "[3, 1, 8]"]),
        ({"data": "engine_small:make_error"}, ["data: ", "KeyError"]),
    ],
)
def test_what_does_not_fit_is_refused_before_the_run(tmp_path: Path, changes: Any, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refusal:
        list(train(small_config(**changes), FakeControl(tmp_path)))
    assert all(word in str(refusal.value) for word in words), refusal.value


def test_no_room_on_the_device_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(dataset: Any, device: Any, *, inputs_too: bool) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(data_home, "to_device", full)
    with pytest.raises(ConfigError, match="has no room for the model and the data"):
        list(train(small_config(), FakeControl(tmp_path)))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("CUDA error: all CUDA-capable devices are busy"),
            "RuntimeError while beginning: CUDA error: all CUDA-capable devices",
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried 2 GiB."), "device: cpu has no room for the model and the data"),
    ],
)
def test_a_device_that_fails_when_the_run_has_its_folder_ends_it_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def failing(*given: Any, **how: Any) -> Any:
        raise error

    monkeypatch.setattr("tuitrain.engine.run.make_optimizer", failing)
    events = run(small_config(), FakeControl(tmp_path))
    assert of(RunStarted, events)
    end = ended(events)
    assert (end.state, end.step) == ("failed", 0)
    assert end.error is not None
    assert end.error.startswith(words)
    assert end.error.count("\n") == 0


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_run_on_the_cpu_asks_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str) -> None:
    def asked(*given: Any) -> Any:
        raise AssertionError("CUDA was started")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda *given, **how: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "current_stream", asked)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", asked)
    monkeypatch.setattr(torch.cuda, "_lazy_init", asked)
    assert ended(run(small_config(optimizer=optimizer), FakeControl(tmp_path))).state == "finished"


# -- requests ---------------------------------------------------------------------------------------------------------


def test_stop_ends_with_a_last_checkpoint_and_no_evaluation(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path, {3: ["stop"]}))
    assert ended(events) == RunEnded(state="stopped", step=3)
    assert [(event.step, event.kind) for event in of(Checkpoint, events)] == [(3, "last")]
    assert of(Eval, events) == []
    assert sorted(losses_of(events)) == [1, 2, 3]


def test_interrupt_says_so(tmp_path: Path) -> None:
    assert ended(run(small_config(), FakeControl(tmp_path, {2: ["interrupt"]}))) == RunEnded(state="interrupted", step=2)


def test_a_paused_run_saves_and_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    calm = run(small_config(), FakeControl(tmp_path / "a"))
    plan = {3: ["pause", "pause", "checkpoint", "resume"], 5: ["resume"]}
    events = run(small_config(), FakeControl(tmp_path / "b", plan))
    assert [event.state for event in of(State, events)] == ["running", "paused", "running"]
    first = events.index(State(state="paused"))
    told = [event for event in events[:first] if isinstance(event, Losses)]
    assert told[-1].first_step + len(told[-1].losses) - 1 == 3, "the curve is complete when the run pauses"
    between = events[first + 1 : events.index(State(state="running"), first)]
    assert [(event.step, event.kind) for event in of(Checkpoint, between)] == [(3, "manual")]
    assert losses_of(events) == losses_of(calm)


def test_a_pause_gives_the_memory_between_steps_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[int] = []
    control = FakeControl(tmp_path, {3: ["pause", "resume"]})

    def note(seconds: float = HOLES_SECONDS) -> None:
        if not seconds:
            given_back.append(control.boundary)

    monkeypatch.setattr("tuitrain.engine.train.give_back_holes", note)
    run(small_config(), control)
    assert given_back == [3]


def test_stop_while_paused(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path, {2: ["pause", "stop"]}))
    assert ended(events) == RunEnded(state="stopped", step=2)
    assert [event.state for event in of(State, events)] == ["running", "paused"]


def test_stop_during_evaluation_gives_it_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "PROGRESS_SECONDS", 0.0)
    control = FakeControl(tmp_path)
    events = []
    for event in train(small_config(), control):
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        if isinstance(event, Progress) and event.phase == "evaluating":
            control.ending = True
            control.plan = {control.boundary + 1: ["stop"]}
        events.append(event)
    assert of(Eval, events) == []
    assert ended(events) == RunEnded(state="stopped", step=7)
    assert [(event.step, event.kind) for event in of(Checkpoint, events)] == [(7, "last")]


def test_a_request_at_the_very_last_step_does_not_undo_the_finish(tmp_path: Path) -> None:
    events = run(small_config(epochs=1), FakeControl(tmp_path, {7: ["stop"]}))
    assert ended(events).state == "finished"


@pytest.mark.parametrize(("request_", "state"), [("stop", "stopped"), ("interrupt", "interrupted")])
def test_asked_to_end_before_the_run_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: str, state: Any) -> None:
    def interrupted(config: Any, ending: Any) -> Any:
        yield Progress(phase="decoding images")
        raise Interrupted

    monkeypatch.setattr(prepare, "load_data", interrupted)
    events = run(small_config(), FakeControl(tmp_path, {1: [request_]}))
    assert of(RunStarted, events) == []
    assert ended(events) == RunEnded(state=state, step=0)


def test_compiling_is_told_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    compiled: list[bool] = []

    def compile_model(module: Any, dynamic: bool) -> Any:
        compiled.append(Progress(phase="compiling") in told)
        return module

    monkeypatch.setattr(torch, "compile", compile_model)
    control = FakeControl(tmp_path)
    for event in train(small_config(compile=True, epochs=1), control):
        if isinstance(event, RunStarted):
            control.folder = tmp_path
        told.append(event)
    assert compiled == [True]
    assert told.index(Progress(phase="compiling")) > told.index(of(RunStarted, told)[0])


@pytest.mark.parametrize(("asked", "state", "step"), [("interrupt", "interrupted", 2), ("stop", "stopped", 2), (None, "failed", 3)])
def test_a_compiler_that_dies_of_the_same_ctrl_c_does_not_make_the_run_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str | None, state: EndState, step: int
) -> None:
    control = FakeControl(tmp_path)

    def compile_model(module: torch.nn.Module, dynamic: bool) -> torch.nn.Module:
        calls = []

        def interrupted(module: torch.nn.Module, inputs: object) -> None:
            calls.append(1)
            if len(calls) == 3:
                if asked is not None:
                    control.queue.append(asked)
                    control.ending = True
                raise RuntimeError("the C++ compiler was interrupted")

        module.register_forward_pre_hook(interrupted)
        return module

    monkeypatch.setattr(torch, "compile", compile_model)
    events = run(small_config(compile=True, epochs=1), control)
    assert (ended(events).state, ended(events).step) == (state, step)
    assert [event.first_step + len(event.losses) - 1 for event in of(Losses, events)][-1] == 2
    said = [event.text for event in of(Notice, events) if "ended without step 3" in event.text]
    assert bool(said) == (asked is not None)


def test_a_loss_that_is_no_number_fails_the_run_also_after_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = FakeControl(tmp_path)

    def compile_model(module: torch.nn.Module, dynamic: bool) -> torch.nn.Module:
        def broken(module: torch.nn.Module, inputs: object, output: torch.Tensor) -> torch.Tensor:
            control.ending = True
            return output * math.nan

        module.register_forward_hook(broken)
        return module

    monkeypatch.setattr(torch, "compile", compile_model)
    events = run(small_config(compile=True, epochs=1), control)
    assert (ended(events).state, ended(events).step) == ("failed", 1)
    assert "the loss is nan" in (ended(events).error or "")


def test_the_host_hears_of_the_device_before_anything_is_made(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    events = train(small_config(), control)
    next(events)
    assert control.devices == ("cpu",)
    events.close()


def test_a_network_is_compiled_for_each_size_of_batch_by_itself_on_as_many_devices_as_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compiled here: what torch would do is asked for."""
    asked: list[bool | None] = []
    monkeypatch.setattr(torch, "compile", lambda module, dynamic=None: (asked.append(dynamic), module)[1])
    limits, name = torch._dynamo.config, prepare._compile_limit()
    monkeypatch.setattr(limits, name, 8)
    run(small_config(compile=True, epochs=1), FakeControl(tmp_path))
    assert asked == [False]
    assert getattr(limits, name) == 8
    prepare._let_compile(8)
    # Two sizes on each, and two more of the evaluation on one.
    assert getattr(limits, name) >= 18

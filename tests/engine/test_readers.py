"""Samples that other processes read while a run trains: which they are, in every strategy, and what becomes of a run where they cannot."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import drawn_sets
import numpy as np
import psutil
import pytest
import torch
from drawn_sets import COUNT
from engine_small import FakeControl, go_on, losses_of, of, run, small_config
from loading import loaded
from test_export_ddp import like_its_run, printed_by
from test_export_script import compare, executed_alone, exported
from torch import nn

from tuitrain.allowance import Allowance
from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.batches import SPREAD
from tuitrain.engine.datasets import torch_dataset
from tuitrain.engine.datasets.readers import Readers
from tuitrain.engine.train import train
from tuitrain.events import Eval, Event, Notice, Predictions, Progress, RunEnded, RunStarted

HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def _one_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many processors there are."""
    monkeypatch.setenv("PYTHONPATH", HERE)
    monkeypatch.setattr(Allowance, "processors", lambda self: 2)


@pytest.fixture(autouse=True)
def _nobody_left() -> Iterator[None]:
    """Whatever happens to a run, the processes that read for it have ended with it."""
    yield
    assert [
        child.cmdline() for child in psutil.Process().children(recursive=True) if "tuitrain.engine.datasets.reading" in child.cmdline()
    ] == []


def drawn_config(data: str, **changes: Any) -> RunConfig:
    small = {"data": f"drawn_sets:{data}", "model": "drawn_sets:no_dropout", "precision": "fp64", "lr": 0.1, "batch_size": 8}
    return small_config(**(small | changes))


def seeded(seed: int, epoch: int) -> Callable[[int], None]:
    """Seeds what draws, for one sample."""

    def seed_all(index: int) -> None:
        number = int.from_bytes(hashlib.blake2b(f"{seed} {epoch} {index}".encode(), digest_size=4).digest(), "big")
        random.seed(number)
        np.random.seed(number)
        torch.manual_seed(number)

    return seed_all


def plain_losses(config: RunConfig, part: Any, net: Callable[[], nn.Module]) -> list[float]:
    """What a plain loop over the samples of `part` gives, each step's."""
    torch.manual_seed(config.seed)
    model = net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
    losses = []
    for epoch in range(1, config.epochs + 1):
        generator = torch.Generator().manual_seed(config.seed * SPREAD + epoch)
        order = torch.randperm(len(part), generator=generator) if config.shuffle else torch.arange(len(part))
        for index in order.split(config.batch_size):
            inputs, labels = drawn_sets.stacked(part, index.tolist(), seeded(config.seed, epoch))
            outputs = model(inputs.double() if inputs.is_floating_point() else inputs.long())
            compare = nn.functional.mse_loss if config.loss == "mse" else nn.functional.cross_entropy
            loss = compare(outputs, labels.double() if config.loss == "mse" else labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def as_plain(events: list[Event], config: RunConfig, net: Callable[[], nn.Module]) -> None:
    assert events[-1].state == "finished"
    part = getattr(drawn_sets, config.data.partition(":")[2])()[0]
    expected = plain_losses(config, part, net)
    assert list(losses_of(events).values()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("data", "net", "changes"),
    [
        ("make_floats", "no_dropout", {"shuffle": True}),
        ("make_floats", "no_dropout", {"seed": 9, "epochs": 3, "device": "cpu,cpu", "strategy": "split"}),
        ("make_targeted", "no_dropout", {}),
        ("make_columns", "no_dropout", {"shuffle": True}),
        ("make_images", "make_image_net", {"shuffle": True}),
        ("make_seldom", "make_image_net", {}),
        ("make_masks", "make_mask_net", {}),
        ("make_windows", "Language", {"shuffle": True}),
        ("make_named_windows", "Language", {}),
        ("make_placed", "make_place_net", {"loss": "mse", "lr": 1e-4}),
        ("make_partly_masked", "make_mask_net", {}),
        ("make_floats", "no_dropout", {"batch_size": 100}),
        ("make_floats", "no_dropout", {"batch_size": 1, "epochs": 1}),
    ],
)
def test_each_epoch_has_its_own_draw_as_in_a_plain_loop(tmp_path: Path, data: str, net: str, changes: dict[str, Any]) -> None:
    config = drawn_config(data, model=f"drawn_sets:{net}", **changes)
    events = run(config, FakeControl(tmp_path))
    as_plain(events, config, getattr(drawn_sets, net))
    told = [notice.text for notice in of(Notice, events)]
    assert any(text.startswith("The train samples are drawn at random: ") and "anew in each epoch" in text for text in told)
    (started,) = of(RunStarted, events)
    assert (started.train_samples, started.readers) == (COUNT, 1)
    # Labels that are known, and what nobody has to know, are not read for.
    phases = {event.phase for event in of(Progress, events)}
    known = ("make_targeted", "make_columns", "make_named_windows", "make_placed")
    assert ("reading the labels of the train samples" in phases) == (data not in known)


def test_what_is_drawn_and_always_the_same_is_read_once(tmp_path: Path) -> None:
    events = run(drawn_config("make_self_seeded", model="drawn_sets:make_image_net"), FakeControl(tmp_path))
    assert of(RunStarted, events)[0].readers == 0
    assert of(Notice, events) == []


def test_what_no_seed_reaches_is_warned_of(tmp_path: Path) -> None:
    events = run(drawn_config("make_of_its_own", max_steps=2), FakeControl(tmp_path))
    first, second = of(Notice, events)
    assert first.level == "warning"
    assert first.text.startswith("The train samples are others each time, and not by a generator that the seed sets (Python's random,")
    assert second.text == "The train samples are drawn at random: 1 process reads them anew in each epoch."


def test_any_number_of_processes_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = drawn_config("make_floats", shuffle=True)
    losses = []
    for processors in (1, 2, 6):
        monkeypatch.setattr(Allowance, "processors", lambda self, processors=processors: processors)
        events = run(config, FakeControl(tmp_path / str(processors)))
        workers = max(1, processors - 1)
        told = f"{workers} process{'es read' if workers > 1 else ' reads'} them anew in each epoch."
        assert [notice.text.endswith(told) for notice in of(Notice, events)] == [True]
        losses.append(losses_of(events))
    assert losses[0] == losses[1] == losses[2]


def test_what_does_not_fit_in_memory_is_read_in_each_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = drawn_config("make_fixed", shuffle=True)
    expected = losses_of(run(config, FakeControl(tmp_path / "read once")))
    # There is room for the nine samples that test, and for labels.
    monkeypatch.setattr(torch_dataset, "free_memory", lambda: 400)
    events = run(config, FakeControl(tmp_path / "read anew"))
    assert losses_of(events) == expected
    (told,) = [notice.text for notice in of(Notice, events)]
    assert told.startswith("The train samples would take 1 KiB of memory, and 1 KiB are free: 1 process reads them anew in each epoch.")


def test_tests_that_do_not_fit_are_read_in_each_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = drawn_config("make_image_tests", model="drawn_sets:make_image_net")
    expected = run(config, FakeControl(tmp_path / "read once"))
    # There is room for labels.
    monkeypatch.setattr(torch_dataset, "free_memory", lambda: 300)
    events = run(config, FakeControl(tmp_path / "read anew"))
    (told,) = [notice.text for notice in of(Notice, events) if notice.text.startswith("The test")]
    assert told.startswith("The test samples would take 5 KiB of memory, and 1 KiB are free: 1 process reads them anew in each evaluation.")
    assert losses_of(events) == losses_of(expected)
    assert of(Eval, events) == of(Eval, expected)
    # With the pictures of the samples that it got wrong.
    assert of(Predictions, events) == of(Predictions, expected)
    assert len({sample.image for sample in of(Predictions, events)[0].samples}) > 10


def test_what_takes_long_is_read_by_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = drawn_config("make_image_tests", model="drawn_sets:make_image_net", max_steps=2)
    expected = losses_of(run(config, FakeControl(tmp_path / "by one")))
    monkeypatch.setattr(torch_dataset, "_LONG_SECONDS", 0.0)
    monkeypatch.setattr(Allowance, "processors", lambda self: 3)
    monkeypatch.setattr(torch_dataset._Reading, "here", None)
    events = run(config, FakeControl(tmp_path / "by several"))
    assert losses_of(events) == expected
    assert of(Notice, events) == []
    assert Progress(phase="reading the test samples", done=22, total=22, unit="samples") in events


@pytest.mark.parametrize("step", [3, 4])
def test_a_run_goes_on_with_the_same_draws(tmp_path: Path, step: int) -> None:
    config = drawn_config("make_floats", shuffle=True, model="drawn_sets:make_point_net", epochs=3)
    whole = losses_of(run(config, FakeControl(tmp_path / "whole")))
    control = FakeControl(tmp_path / "broken", {step: ["stop"]})
    before = losses_of(run(config, control))
    control = FakeControl(tmp_path / "broken")
    assert before | losses_of(go_on(config, control)) == whole
    assert len(before) == step


@pytest.mark.parametrize("data", ["make_windows", "make_named_windows", "make_placed"])
def test_of_labels_of_several_numbers_no_more_than_one_is_kept(data: str) -> None:
    found, _ = loaded(f"drawn_sets:{data}", loss="mse" if data == "make_placed" else "cross_entropy")
    with closing(found) as dataset:
        labels = dataset.train.labels
        assert len(labels) == COUNT
        assert labels.untyped_storage().nbytes() == labels[0].nbytes
        assert dataset.train.to("cpu").labels.untyped_storage().nbytes() == labels[0].nbytes
        assert dataset.classes == {"make_windows": ("0", "1", "2", "3"), "make_named_windows": ("a", "b", "c", "d")}.get(data, ())


def test_masks_that_do_not_fit_in_memory_are_those_that_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = drawn_config("make_fixed_masks", model="drawn_sets:make_mask_net", shuffle=True)
    in_memory = run(config, FakeControl(tmp_path / "in memory"))
    monkeypatch.setattr(torch_dataset, "free_memory", lambda: 400)
    read = run(config, FakeControl(tmp_path / "read"))
    assert losses_of(read) == losses_of(in_memory)
    scores = [[(one.loss, one.loss_sum, one.accuracy) for one in of(Eval, events)] for events in (read, in_memory)]
    assert scores[0] == scores[1]
    assert all(0 < accuracy < 1 for _, _, accuracy in scores[0])


def test_masks_of_which_nothing_counts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the train labels are all -100, which counts for nothing; they must be class numbers"):
        run(drawn_config("make_all_masked", model="drawn_sets:make_mask_net"), FakeControl(tmp_path))


def test_a_script_draws_the_same(tmp_path: Path) -> None:
    """Numbers with dropout beside them, also in dicts, images in a network of one's own, a class for each pixel, and tokens."""
    images = {"make_images": "make_image_net", "make_masks": "make_mask_net"}
    networks = {"make_floats": "make_point_net", "make_columns": "make_point_net", **images, "make_windows": "Language"}
    configs = [drawn_config(data, model=f"drawn_sets:{net}", shuffle=True) for data, net in networks.items()]
    found = [exported(config, tmp_path / str(number)) for number, config in enumerate(configs)]
    outputs = executed_alone([text for text, _, _ in found], tmp_path)
    for output, (_, losses, evals) in zip(outputs, found, strict=True):
        compare(output, losses, evals, 1e-9, 0.0)


def test_ranks_read_their_own_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]) -> None:
    """26 samples in batches of 25 over two ranks: 13 and 12, then one and none. A script of it does the same."""
    config = drawn_config("make_images", model="drawn_sets:make_image_net", batch_size=25, shuffle=True)
    text, losses, evals, relative, floor = like_its_run(tmp_path, config, monkeypatch)
    assert list(losses.values()) == pytest.approx(plain_losses(config, drawn_sets.Images(COUNT), drawn_sets.make_image_net), rel=1e-9)
    (printed,) = printed_by([text], tmp_path, free_port)
    compare(printed, losses, evals, relative, floor)


def test_tests_that_are_drawn_are_read_once(tmp_path: Path) -> None:
    events = run(drawn_config("make_drawn_tests", lr=1e-12), FakeControl(tmp_path))
    assert [notice.text for notice in of(Notice, events)] == [
        "The test samples are not the same each time that they are read. Each is read once, and is the same in every evaluation."
    ]
    first, second = of(Eval, events)
    assert first.loss == pytest.approx(second.loss, rel=1e-6)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("make_failing", "train sample 11 raised FileNotFoundError: eleven.png is not there (drawn_sets.py, line "),
        ("make_killed", "a process that reads samples was ended by SIGKILL."),
        ("make_left", "a process that reads samples ended with the exit code 3."),
        ("make_unlike", "train sample 11 is [7] of torch.float32, and the first one [6] of torch.float32; they must be alike"),
        ("make_unknown", "train sample 11 has the label 4; the data has 4 classes, counted from 0."),
    ],
)
def test_a_sample_that_cannot_be_read_ends_the_run(tmp_path: Path, data: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    ended = run(drawn_config(data), FakeControl(tmp_path))[-1]
    assert ended.state == "failed"
    error: str = ended.error
    assert f": data: 'drawn_sets:{data}': {words}" in error
    assert error.startswith("step ")
    if data == "make_failing":  # the lines of their code, from the process that read
        assert 'raise FileNotFoundError("eleven.png is not there")' in capsys.readouterr().err


class AskedWhereItHangs(FakeControl):
    """Is asked to stop when a sample is waited for that never comes."""

    @property
    def ending(self) -> bool:
        if not self.queue and Path("hangs").exists() and not self.done:
            self.queue, self.done = ["stop"], True
        return bool(self.queue)

    @ending.setter
    def ending(self, asked: bool) -> None:
        self.done = False


@pytest.mark.parametrize("batch_size", [8, 20])
def test_a_sample_that_never_comes_does_not_keep_a_run_from_being_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int
) -> None:
    """In the second step or, where nothing was trained with yet, the first."""
    monkeypatch.chdir(tmp_path)
    config = drawn_config("make_hanging", batch_size=batch_size)
    events = run(config, AskedWhereItHangs(tmp_path / "run"))
    assert events[-1] == RunEnded(state="stopped", step=len(losses_of(events)))
    assert len(losses_of(events)) == (1 if batch_size == 8 else 0)
    Path("answers").touch()
    rest = go_on(config, FakeControl(tmp_path / "run"))
    assert losses_of(events) | losses_of(rest) == losses_of(run(config, FakeControl(tmp_path / "unbroken")))


def test_test_samples_that_never_come_do_not_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # There is no room for the samples that test.
    monkeypatch.setattr(torch_dataset, "free_memory", lambda: 400)
    monkeypatch.setattr(torch_dataset, "_is_same", lambda one, other: False)
    config = drawn_config("make_hanging_tests")
    events = run(config, AskedWhereItHangs(tmp_path / "run"))
    assert events[-1] == RunEnded(state="stopped", step=4)
    assert not of(Eval, events)
    Path("answers").touch()
    rest = go_on(config, FakeControl(tmp_path / "run"))
    assert [event.step for event in of(Eval, rest)] == [4, 8]


def test_data_that_is_another_one_each_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = "gave 27 train samples, and 28 when it was called again, in a process that reads samples; it must give the same each time."
    with pytest.raises(ConfigError, match=f"^data: 'drawn_sets:make_others' {words}$"):
        run(drawn_config("make_others"), FakeControl(tmp_path / "run"))


def test_a_stop_ends_the_reading_of_labels(tmp_path: Path) -> None:
    control = FakeControl(tmp_path)
    phases = []
    for event in train(drawn_config("make_floats", batch_size=2), control):
        phases.append(getattr(event, "phase", ""))
        if phases[-1] == "reading the labels of the train samples":
            control.ending = True
    assert phases.count("reading the labels of the train samples") == 1
    assert event.state == "stopped"


def test_batches_are_begun_before_they_are_asked_for(tmp_path: Path) -> None:
    config = drawn_config("make_floats", batch_size=4)
    first, label = drawn_sets.Floats(COUNT)[0]
    readers = Readers(config, "train", COUNT, first, torch.tensor(label), lambda: False)
    try:
        readers.wait_until_ready()
        batches = torch.arange(COUNT).split(4)
        readers.read(batches[0], 1, ((index, 1) for index in batches[1:]))
        begun = sorted(owner for owner in readers._owners if owner is not None)
        assert [np.frombuffer(key, dtype=np.int64).tolist() for _, key in begun] == [[4, 5, 6, 7], [8, 9, 10, 11]]
        while any(readers._left):
            readers._take_answer()
        # What was begun is there without another word, and what nobody asks for any more gives its place away.
        assert torch.equal(readers.read(batches[1], 1)[0], drawn_sets.stacked(drawn_sets.Floats(COUNT), [4, 5, 6, 7], seeded(0, 1))[0])
        assert readers._owners == [None] * 3
        # More than a batch at once, as a mark of the data asks for.
        everything, labels = readers.read(torch.arange(COUNT), 1)
        assert torch.equal(everything, drawn_sets.stacked(drawn_sets.Floats(COUNT), list(range(COUNT)), seeded(0, 1))[0])
        assert labels.tolist() == [index % 4 for index in range(COUNT)]
    finally:
        readers.close()

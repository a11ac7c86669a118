"""Parameters and predictions in the run folder: in and out again, whole or not at all."""

import tracemalloc

import msgspec
import pytest

from tuitrain.events import Confusion, Parameter, Parameters, Prediction, Predictions
from tuitrain.runs.network import PARAMETERS, PREDICTIONS, read_parameters, read_predictions, write_network
from tuitrain.runs.saved import load_record

ROW = Parameter(name="0.weight", shape=(32, 3, 5, 5), count=2400, device="cpu", trainable=True)
TOLD = Parameters(rows=(ROW,), warnings=("blocks: 3 layers are kept in a plain Python list",))
SAMPLE = Prediction(index=4, truth=0, predicted=1, confidence=0.75, image=bytes(range(256)) * 12)
SAID = Predictions(step=20, epoch=2, classes=("cat", "dog"), confusion=((3, 4), (5, 6)), samples=(SAMPLE,))


LISTED = Confusion(truth=0, predicted=1, count=3, samples=9)


def test_what_is_written_is_read(run_folder):
    for event in (TOLD, SAID):
        write_network(run_folder.path, event)
    assert (read_parameters(run_folder.path), read_predictions(run_folder.path)) == (TOLD, SAID)
    record = load_record(run_folder.path)
    assert (record.parameters, record.predictions) == (TOLD, SAID)


def test_predictions_are_never_held_whole_to_be_written(run_folder):
    """What the record's thread takes in one piece stays with the process."""
    said = msgspec.structs.replace(SAID, samples=(SAMPLE,) * 64, of_cells=(SAMPLE,) * 250, largest=(LISTED,))
    write_network(run_folder.path, said)
    tracemalloc.start()
    try:
        write_network(run_folder.path, said)
        assert tracemalloc.get_traced_memory()[1] < (run_folder.path / PREDICTIONS).stat().st_size / 10
    finally:
        tracemalloc.stop()
    assert read_predictions(run_folder.path) == said


def test_the_newest_predictions_replace_the_ones_before(run_folder):
    write_network(run_folder.path, SAID)
    newer = msgspec.structs.replace(SAID, step=40, samples=(msgspec.structs.replace(SAMPLE, image=None),))
    write_network(run_folder.path, newer)
    assert read_predictions(run_folder.path) == newer
    assert not list(run_folder.path.glob(f".{PREDICTIONS}*"))


def test_samples_of_the_cells_are_kept_and_a_file_of_before_has_none(run_folder):
    cells = (msgspec.structs.replace(SAMPLE, index=9), msgspec.structs.replace(SAMPLE, index=7, predicted=0))
    write_network(run_folder.path, msgspec.structs.replace(SAID, of_cells=cells))
    assert read_predictions(run_folder.path).of_cells == cells
    content = msgspec.msgpack.decode((run_folder.path / PREDICTIONS).read_bytes())
    del content["of_cells"]
    (run_folder.path / PREDICTIONS).write_bytes(msgspec.msgpack.encode(content))
    assert read_predictions(run_folder.path) == SAID


def test_names_of_files_are_kept_clean_and_a_file_of_before_has_none(run_folder):
    named = msgspec.structs.replace(SAMPLE, file="test/dog/0123.jpg")
    hostile = msgspec.structs.replace(SAMPLE, file="test/dog/a\x1b[2J\n.jpg")
    write_network(run_folder.path, msgspec.structs.replace(SAID, samples=(named,), of_cells=(hostile,)))
    found = read_predictions(run_folder.path)
    assert found.samples == (named,)
    assert found.of_cells[0].file == "test/dog/a·[2J·.jpg"
    content = msgspec.msgpack.decode((run_folder.path / PREDICTIONS).read_bytes())
    for sample in (*content["samples"], *content["of_cells"]):
        del sample["file"]
    (run_folder.path / PREDICTIONS).write_bytes(msgspec.msgpack.encode(content))
    found = read_predictions(run_folder.path)
    assert (found.samples, found.of_cells) == ((SAMPLE,), (SAMPLE,))


def test_a_run_without_them_loads(run_folder):
    record = load_record(run_folder.path)
    assert (record.parameters, record.predictions) == (None, None)


def test_a_list_in_place_of_the_matrix_is_read(run_folder):
    said = msgspec.structs.replace(SAID, confusion=(), largest=(LISTED,))
    write_network(run_folder.path, said)
    assert read_predictions(run_folder.path) == said


def torn(path):
    path.write_bytes(path.read_bytes()[:-20])


def other(path):
    path.write_bytes(b"[]")


@pytest.mark.parametrize("damage", [torn, other, lambda path: path.write_bytes(b"\xff" * 99), lambda path: (path.unlink(), path.mkdir())])
def test_damage_is_the_same_as_nothing(run_folder, damage):
    for event, name in ((TOLD, PARAMETERS), (SAID, PREDICTIONS)):
        write_network(run_folder.path, event)
        damage(run_folder.path / name)
    record = load_record(run_folder.path)
    assert (record.parameters, record.predictions) == (None, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"confusion": ((1, 2),)},
        {"confusion": ((1, 2), (3,))},
        {"samples": (msgspec.structs.replace(SAMPLE, truth=2),)},
        {"samples": (msgspec.structs.replace(SAMPLE, predicted=-1),)},
        {"samples": (msgspec.structs.replace(SAMPLE, image=b"short"),)},
        {"of_cells": (msgspec.structs.replace(SAMPLE, truth=2),)},
        *({"largest": (msgspec.structs.replace(LISTED, **one),)} for one in ({"truth": 2}, {"predicted": -1}, {"count": 10}, {"count": 0})),
    ],
)
def test_numbers_that_do_not_fit_each_other_are_damage(run_folder, changes):
    write_network(run_folder.path, msgspec.structs.replace(SAID, **changes))
    assert read_predictions(run_folder.path) is None


def test_texts_of_a_foreign_folder_are_cleaned(run_folder):
    row = msgspec.structs.replace(ROW, name="a\x1b[2J", device="\u202ecpu")
    write_network(run_folder.path, Parameters(rows=(row,), warnings=("x\ny",)))
    write_network(run_folder.path, msgspec.structs.replace(SAID, classes=("\x07", "猫"), confusion=()))
    told, said = read_parameters(run_folder.path), read_predictions(run_folder.path)
    assert (told.rows[0].name, told.rows[0].device, told.warnings) == ("a·[2J", "·cpu", ("x·y",))
    assert said.classes == ("·", "猫")

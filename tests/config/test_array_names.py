"""Which arrays of a file are inputs and labels."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from tuitrain.array_files import Named, is_array_file, named_in, sorted_out
from tuitrain.config import ConfigError
from tuitrain.paths import data_path, expected_data


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ("x_train y_train x_test y_test", Named(("x_train", "y_train"), ("x_test", "y_test"), ())),
        (
            "train_images val_images test_images train_labels val_labels test_labels",
            Named(("train_images", "train_labels"), ("test_images", "test_labels"), ("val_images", "val_labels")),
        ),
        ("Xtrain Ytrain X_valid Y_valid", Named(("Xtrain", "Ytrain"), ("X_valid", "Y_valid"), ())),
        ("inputs.train targets.train inputs.validation targets.validation", Named(*(
            (f"inputs.{part}", f"targets.{part}") for part in ("train", "validation")), ())),
        ("x_train y_train x_test ids", Named(("x_train", "y_train"), None, ("x_test", "ids"))),
        ("X y", Named(("X", "y"), None, ())),
        ("features label weight", Named(("features", "label"), None, ("weight",))),
        ("X y x_test y_test", Named(("X", "y"), ("x_test", "y_test"), ())),
        ("arr_0 arr_1", Named(("arr_0", "arr_1"), None, ())),
        ("arr_0", None),
        ("arr_0 arr_1 arr_2 arr_3", None),
        ("x", None),
        ("x_test y_test", None),
        ("images masks", None),
        ("", None),
    ],
)  # fmt: skip
def test_arrays_are_known_by_the_words_in_their_names(names: str, named: Named | None) -> None:
    assert sorted_out(names.split()) == named


def test_a_file_of_arrays_is_data_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.NPZ").touch()
    (tmp_path / "pets.npz").mkdir()
    assert data_path("points.NPZ") == tmp_path / "points.NPZ"
    assert expected_data("points.NPZ") == (str(tmp_path / "points.NPZ"), "custom")
    assert is_array_file(tmp_path / "points.NPZ")
    assert expected_data("pets.npz") == (str(tmp_path / "pets.npz"), "imagefolder"), "a folder is one whatever it is called"


@pytest.mark.parametrize(
    ("holds", "sentence"),
    [
        (None, "{file} cannot be read: No such file or directory."),
        (b"hello", "{file} is no file of arrays, as numpy.savez writes one, or not all of it."),
        ((), "{file} holds nothing; it must hold x_train and y_train, with x_test and y_test where there is test data, or x and y."),
        (("a.npy", "b\x1b.npy", "x.txt"), "{file} holds a, b·; it must hold x_train and y_train, with x_test and y_test where there is "
         "test data, or x and y."),
    ],
)  # fmt: skip
def test_what_is_no_such_file_is_told(tmp_path: Path, holds: bytes | tuple[str, ...] | None, sentence: str) -> None:
    file = tmp_path / "d.npz"
    if isinstance(holds, bytes):
        file.write_bytes(holds)
    elif holds is not None:
        with ZipFile(file, "w") as archive:
            for name in holds:
                archive.writestr(name, "")
    with pytest.raises(ConfigError) as error:
        named_in(file)
    assert str(error.value) == f"data: {sentence.format(file=file)}"

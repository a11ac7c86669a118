"""A folder of images: order, decoding, the cache, bad files and missing folders."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from loading import loaded, refused
from PIL import Image

from tuitrain.config import RunConfig
from tuitrain.engine.control import Interrupted
from tuitrain.engine.data import Dataset, load_data
from tuitrain.engine.datasets import decode, decoded, folder_contents
from tuitrain.events import Event, Notice, Progress


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuitrain" / "decoded"


def save(path: Path, number: int, mode: str = "RGB", size: tuple[int, int] = (32, 32)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).convert(mode).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, 20 images each to train on, 5 to test with."""
    root = tmp_path / "pets"
    for part, count in (("train", 20), ("test", 5)):
        for label, name in enumerate(("cat", "dog")):
            for number in range(count):
                save(root / part / name / f"{number:02}.png", 1000 * label + 100 * len(part) + number)
    return root


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


# -- what is loaded ---------------------------------------------------------------------------------------------------------


def test_images_labels_and_source(folder: Path) -> None:
    dataset, events = loaded(folder)
    assert (dataset.kind, dataset.source, dataset.classes) == ("imagefolder", str(folder), ("cat", "dog"))
    assert dataset.test is not None
    assert dataset.train.inputs.shape == (40, 3, 32, 32)
    assert dataset.train.inputs.dtype == torch.uint8
    assert dataset.train.inputs.is_contiguous(memory_format=torch.channels_last)
    assert dataset.test.inputs.shape == (10, 3, 32, 32)
    assert notices(events) == []
    names = sorted((f"train/{name}/{number:02}.png" for name in ("cat", "dog") for number in range(20)), key=folder_contents.mixing_key)
    for position, name in enumerate(names):
        assert np.array_equal(dataset.train.inputs[position].permute(1, 2, 0).numpy(), np.asarray(Image.open(folder / name)))
        assert dataset.classes[int(dataset.train.labels[position])] == name.split("/")[1]


def test_the_order_mixes_the_classes_and_does_not_depend_on_the_place(folder: Path, tmp_path: Path) -> None:
    first, _ = loaded(folder)
    changes = int((first.train.labels[1:] != first.train.labels[:-1]).sum())
    assert changes > 10
    moved = tmp_path / "moved"
    folder.rename(moved)
    second, _ = loaded(moved)
    assert torch.equal(first.train.inputs, second.train.inputs)
    assert torch.equal(first.train.labels, second.train.labels)


def test_a_relative_path_becomes_absolute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert loaded("./pets")[0].source == str(folder)


def test_progress_reaches_the_end(folder: Path) -> None:
    _, events = loaded(folder)
    last = [event for event in events if isinstance(event, Progress)][-1]
    assert (last.phase, last.done, last.total) == ("decoding images", 50, 50)


def test_other_files_and_hidden_ones_are_no_images(folder: Path) -> None:
    (folder / "train" / "cat" / "Thumbs.db").write_bytes(b"x")
    (folder / "train" / "cat" / "._00.png").write_bytes(b"x")
    (folder / "train" / ".cache").mkdir()
    os.mkfifo(folder / "train" / "cat" / "pipe.png")
    save(folder / "train" / "cat" / "UPPER.JPG", 1)
    dataset, events = loaded(folder)
    assert len(dataset.train) == 41
    assert notices(events) == []


def test_webp_bmp_and_tiff_are_images_too(folder: Path) -> None:
    for name in ("a.webp", "b.BMP", "c.tif", "d.TIFF"):
        Image.new("RGB", (32, 32), (9, 9, 9)).save(folder / "train" / "cat" / name)
    dataset, events = loaded(folder)
    assert len(dataset.train) == 44
    assert notices(events) == []


def test_numbers_in_the_place_of_colours_are_no_image(folder: Path) -> None:
    Image.fromarray(np.full((32, 32), 0.5, dtype=np.float32)).save(folder / "train" / "cat" / "height.tif")
    assert "more than 1 % of the 51 images cannot be read (train/cat/height.tif)" in refused(folder)


def test_what_becomes_no_sample_is_counted(folder: Path) -> None:
    (folder / "train" / "cat" / "a.heic").write_bytes(b"x")
    (folder / "test" / "dog" / "b.GIF").write_bytes(b"x")
    (folder / "train" / "dog" / "pu\x1bps").mkdir()
    save(folder / "train" / "dog" / "pu\x1bps" / "00.png", 1)
    save(folder / "test" / "lost.png", 1)
    (folder / "train" / "labels.txt").touch()
    dataset, events = loaded(folder)
    assert len(dataset.train) == 40
    said = [
        "Left out: 2 files (test/dog/b.GIF and 1 more); only images that end in .png, .jpg, .jpeg, .webp, .bmp, .tif or .tiff are taken.",
        "Left out: 1 folder (train/dog/pu·ps); images are taken from the folder of their class itself, not from folders in it.",
        "Left out: 1 image (test/lost.png); an image beside the folders of the classes has no class.",
    ]
    assert notices(events) == said
    assert notices(loaded(folder)[1]) == said


def test_sizes_and_modes_are_made_alike_and_counted(folder: Path) -> None:
    for number in range(3):
        save(folder / "train" / "cat" / f"big{number}.jpg", number, size=(100, 60))
    save(folder / "train" / "cat" / "grey.png", 1, mode="L")
    save(folder / "train" / "dog" / "grey.jpg", 2, mode="L")
    for number, mode in enumerate(("P", "RGBA")):
        save(folder / "test" / "dog" / f"other{number}.png", 3, mode=mode)
    save(folder / "test" / "dog" / "cmyk.jpg", 4, mode="CMYK")
    dataset, events = loaded(folder)
    assert dataset.train.inputs.shape == (45, 3, 32, 32)
    assert notices(events) == [
        "3 images resized to 32×32; 2 greyscale images turned into RGB; 3 images with a palette, transparency or CMYK turned into RGB."
    ]


def test_of_large_images_it_is_said_how_more_of_them_is_kept(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name in ("cat", "dog"):
            (tmp_path / part / name).mkdir(parents=True)
            for number, size in enumerate(((70, 65), (65, 90), (200, 64))):
                save(tmp_path / part / name / f"{number}.png", number, size=size)
    assert notices(loaded(tmp_path)[1]) == [
        "12 images resized to 32×32.",
        "Most images are more than twice as high and as wide as 32 pixels: "
        "image_size=224, or another, keeps more of them, for resnet18 and networks of your own.",
    ]


def test_a_resized_image_is_pillows_bilinear(tmp_path: Path) -> None:
    save(tmp_path / "big.png", 1, size=(50, 40))
    pixels, size, mode = decode.decode_image(str(tmp_path / "big.png"), 32)
    with Image.open(tmp_path / "big.png") as image:
        assert np.array_equal(pixels, np.asarray(image.resize((32, 32), Image.Resampling.BILINEAR)))
    assert (size, mode) == ((50, 40), "RGB")


def test_sixteen_bit_greys_are_scaled(tmp_path: Path) -> None:
    values = (np.arange(32 * 32, dtype=np.uint16) * 64).reshape(32, 32)
    Image.fromarray(values).save(tmp_path / "deep.png")
    pixels, _, mode = decode.decode_image(str(tmp_path / "deep.png"), 32)
    assert mode.startswith("I")
    assert np.array_equal(pixels[..., 0], (values >> 8).astype(np.uint8))


# -- the cache ---------------------------------------------------------------------------------------------------------------


def no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(decode, "decode", fail)


def test_the_second_start_decodes_nothing_and_says_the_same(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(folder / "train" / "cat" / "grey.png", 1, mode="L")
    first, first_events = loaded(folder)
    no_decoding(monkeypatch)
    second, second_events = loaded(folder)
    assert first.test is not None
    assert second.test is not None
    assert torch.equal(first.train.inputs, second.train.inputs)
    assert torch.equal(first.test.labels, second.test.labels)
    assert second.train.inputs.is_contiguous(memory_format=torch.channels_last)
    assert notices(first_events) == notices(second_events) == ["1 greyscale image turned into RGB."]
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("change", ["new", "gone", "touched", "renamed"])
def test_a_changed_folder_is_decoded_again_and_the_old_cache_removed(folder: Path, cache: Path, change: str) -> None:
    loaded(folder)
    (before,) = cache.iterdir()
    image = folder / "train" / "cat" / "00.png"
    if change == "new":
        save(folder / "train" / "cat" / "new.png", 7)
    elif change == "gone":
        image.unlink()
    elif change == "touched":
        os.utime(image, ns=(1, 1))
    else:
        image.rename(image.with_name("99.png"))
    dataset, events = loaded(folder)
    assert any(isinstance(event, Progress) and event.phase == "decoding images" for event in events)
    assert len(dataset.train) == {"new": 41, "gone": 39}.get(change, 40)
    (after,) = cache.iterdir()
    assert after != before


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "a flipped bit":
        content[-1000] ^= 1
    elif how == "cut short":
        del content[-1:]
    elif how == "no header":
        content[:] = b"not safetensors"
    else:
        content.clear()
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["a flipped bit", "cut short", "no header", "empty"])
def test_a_damaged_cache_is_silently_made_again(folder: Path, cache: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = loaded(folder)
    (path,) = cache.iterdir()
    damage(path, how)
    second, events = loaded(folder)
    assert torch.equal(first.train.inputs, second.train.inputs)
    assert notices(events) == []
    no_decoding(monkeypatch)
    assert torch.equal(loaded(folder)[0].train.inputs, first.train.inputs)


def test_a_cache_that_cannot_be_written_is_a_warning(folder: Path, cache: Path) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text("a file where the folder should be")
    dataset, events = loaded(folder)
    assert len(dataset.train) == 40
    assert [event.level for event in events if isinstance(event, Notice)] == ["warning"]


@pytest.mark.usefixtures("homeless")
def test_without_a_home_nothing_is_kept_and_a_warning_says_so(folder: Path, cache: Path) -> None:
    dataset, events = loaded(folder)
    assert len(dataset.train) == 40
    assert any(isinstance(event, Notice) and event.level == "warning" and "set HOME" in event.text for event in events)


def test_a_failed_save_leaves_nothing(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(decoded.os, "replace", full)
    _, events = loaded(folder)
    assert "No space left on device" in notices(events)[0]
    assert list(cache.iterdir()) == []


def test_only_old_leftovers_are_removed(folder: Path, cache: Path) -> None:
    cache.mkdir(parents=True)
    old, young = cache / ".a.tmp", cache / ".b.tmp"
    for path in (old, young):
        path.write_bytes(b"")
    os.utime(old, (1, 1))
    loaded(folder)
    assert not old.exists()
    assert young.exists()


# -- the names of the files ---------------------------------------------------------------------------------------------------


def names_of(dataset: Dataset) -> list[str]:
    """What the test samples' files are called."""
    assert dataset.test is not None
    assert dataset.test.files is not None
    return dataset.test.files.at(range(len(dataset.test)))


def assert_names_agree(folder: Path, dataset: Dataset, part: str = "test") -> None:
    """Each test sample has the pixels and the class of the file that it is named after."""
    assert dataset.test is not None
    for pixels, label, name in zip(dataset.test.inputs, dataset.test.labels.tolist(), names_of(dataset), strict=True):
        assert np.array_equal(pixels.permute(1, 2, 0).numpy(), np.asarray(Image.open(folder / name)))
        assert Path(name).parent == Path(part, dataset.classes[label])


@pytest.mark.parametrize("unreadable", [False, True])
def test_names_are_those_of_the_files_with_these_pixels_from_the_cache_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, unreadable: bool
) -> None:
    for number in range(5, 200):
        save(folder / "test" / "dog" / f"{number:02}.png", 5000 + number)
    if unreadable:
        (folder / "test" / "dog" / "07.png").write_bytes(b"no image")
        (folder / "train" / "cat" / "03.png").write_bytes(b"no image")
    decoded_now, _ = loaded(folder)
    assert len(names_of(decoded_now)) == 205 - unreadable
    assert ("test/dog/07.png" in names_of(decoded_now)) != unreadable
    assert_names_agree(folder, decoded_now)
    no_decoding(monkeypatch)
    from_the_cache, _ = loaded(folder)
    assert names_of(from_the_cache) == names_of(decoded_now)
    assert_names_agree(folder, from_the_cache)


def test_names_come_back_as_they_are_on_disk(folder: Path) -> None:
    names = ["new\nline.png", "a\x1b[2J.png", "猫.png", os.fsdecode(b"r\xe9seau.png"), "with space.png"]
    for number, name in enumerate(names):
        save(folder / "test" / "dog" / name, 7000 + number)
    for dataset in (loaded(folder)[0], loaded(folder)[0]):
        assert {f"test/dog/{name}" for name in names} < set(names_of(dataset))
        assert_names_agree(folder, dataset)


def test_a_cache_without_names_is_made_again(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version before this one kept none."""
    with monkeypatch.context() as before:
        before.setattr(folder_contents, "_FORMAT", 2)
        before.setattr(decoded, "_WITH_PIXELS", decoded._WITH_PIXELS[:4])
        before.setattr(decoded, "load", lambda *_, pixels: None)
        loaded(folder)
    (old,) = cache.iterdir()
    dataset, _ = loaded(folder)
    assert_names_agree(folder, dataset)
    (new,) = cache.iterdir()
    assert new != old


def test_other_data_name_no_files() -> None:
    dataset, _ = loaded("synthetic")
    assert dataset.test is not None
    assert dataset.test.files is None


# -- bad images ---------------------------------------------------------------------------------------------------------------


def many(folder: Path, count: int) -> None:
    """Enough good images that one bad one is less than 1 %."""
    source = (folder / "train" / "cat" / "00.png").read_bytes()
    for number in range(count):
        (folder / "train" / "cat" / f"copy{number:04}.png").write_bytes(source)


def test_unreadable_images_are_skipped_and_named_with_clean_names(folder: Path) -> None:
    many(folder, 500)
    whole = (folder / "train" / "dog" / "01.png").read_bytes()
    (folder / "train" / "dog" / "a\x1b[2J.png").write_bytes(b"no image")
    (folder / "train" / "dog" / "b cut.png").write_bytes(whole[:200])
    (folder / "train" / "dog" / "c empty.jpg").write_bytes(b"")
    (folder / "train" / "dog" / "d.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")
    dataset, events = loaded(folder)
    assert len(dataset.train) == 540
    assert set(dataset.train.labels.tolist()) == {0, 1}
    text = "4 images cannot be read and were skipped: train/dog/a·[2J.png, train/dog/b cut.png, train/dog/c empty.jpg and 1 more."
    assert notices(events) == [text]
    assert notices(loaded(folder)[1]) == [text]


def test_a_link_that_leads_nowhere_is_an_unreadable_image(folder: Path) -> None:
    many(folder, 100)
    link = folder / "train" / "dog" / "gone.png"
    link.symlink_to(folder / "nowhere.png")
    dataset, events = loaded(folder)
    assert len(dataset.train) == 140
    assert notices(events) == ["1 image cannot be read and was skipped: train/dog/gone.png."]
    (folder / "nowhere.png").write_bytes((folder / "train" / "dog" / "01.png").read_bytes())
    dataset, events = loaded(folder)
    assert len(dataset.train) == 141
    assert notices(events) == []


def test_labels_stay_with_their_images_when_some_are_skipped(folder: Path) -> None:
    many(folder, 200)
    good, _ = loaded(folder)
    (folder / "train" / "dog" / "bad.png").write_bytes(b"x")
    skipped, _ = loaded(folder)
    assert torch.equal(good.train.inputs, skipped.train.inputs)
    assert torch.equal(good.train.labels, skipped.train.labels)


def test_more_than_one_percent_unreadable_is_refused(folder: Path, cache: Path) -> None:
    (folder / "train" / "dog" / "\x1bbad.png").write_bytes(b"x")
    sentence = refused(folder)
    assert "more than 1 % of the 51 images cannot be read (train/dog/·bad.png)" in sentence
    assert not cache.exists()


def test_an_image_that_looks_like_an_attack_is_unreadable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many(folder, 200)
    save(folder / "train" / "dog" / "bomb.png", 1, size=(60, 60))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 32 * 32)
    assert "train/dog/bomb.png" in notices(loaded(folder)[1])[0]


def test_a_class_without_a_readable_image_is_refused(folder: Path) -> None:
    many(folder, 900)
    for path in (folder / "test" / "dog").iterdir():
        path.write_bytes(b"x")
    assert f"no image of the class 'dog' in {folder / 'test'} can be read" in refused(folder)


# -- missing folders ----------------------------------------------------------------------------------------------------------


def test_what_is_still_packed_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert refused(tmp_path).endswith("or <class>/ alone. Other data comes from a function of your own: my_package.data:make_data.")
    (tmp_path / "cifar-10-python.tar.gz").touch()
    assert refused(tmp_path).endswith("or <class>/ alone. 'cifar-10-python.tar.gz' in it is to be unpacked.")


def test_a_file_of_arrays_in_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "digits.npz").touch()
    assert refused(tmp_path).endswith("or <class>/ alone. The file of arrays 'digits.npz' in it is data by itself.")


@pytest.mark.parametrize("part", ["test", "Testing", "VAL"])
def test_images_to_test_with_alone_are_refused(folder: Path, part: str) -> None:
    (folder / "test").rename(folder / part)
    (folder / "train").rename(folder.parent / "elsewhere")
    assert refused(folder).endswith(
        "holds no folder train; a folder of images holds train/<class>/ and test/<class>/ or val/<class>/, or <class>/ alone."
    )


@pytest.mark.parametrize(("train", "test"), [("Train", "Test"), ("Training", "Testing"), ("TRAIN", "val")])
def test_parts_are_known_by_names_that_others_give_them(folder: Path, train: str, test: str) -> None:
    """The data sets of a machine are often not one's own, and cannot be renamed."""
    (folder / "train").rename(folder / train)
    (folder / "test").rename(folder / test)
    dataset, events = loaded(folder)
    assert notices(events) == [f"The images in {test}/ are the test data: the folder has no test/."]
    assert (len(dataset.train), len(dataset.test or [])) == (40, 10)
    assert_names_agree(folder, dataset, test)
    assert refused(folder / test).endswith(f"is one part of a data set; give its parent, {folder}.")
    (folder / test / "dog").rename(folder / test / "dogs")
    assert f"the class 'dog' of {train}/ is missing in {folder / test}. Did you mean 'dogs'?" in refused(folder)
    save(folder / test / "dog" / "00.png", 1)
    assert f"the class 'dogs' of {test}/ is missing in {folder / train}" in refused(folder)


def test_a_part_with_its_own_name_counts_before_others(folder: Path) -> None:
    for name in ("Train", "training", "TEST", "val"):
        save(folder / name / "emu" / "00.png", 1)
    dataset, events = loaded(folder)
    assert (dataset.classes, len(dataset.test or []), notices(events)) == (("cat", "dog"), 10, [])


@pytest.mark.parametrize("part", ["val", "valid", "validation"])
def test_what_others_call_validation_is_tested_with_where_there_is_no_test(folder: Path, part: str) -> None:
    tested, _ = loaded(folder)
    (folder / "test").rename(folder / part)
    dataset, events = loaded(folder)
    assert notices(events) == [f"The images in {part}/ are the test data: the folder has no test/."]
    assert torch.equal(dataset.train.inputs, tested.train.inputs)
    assert dataset.test is not None
    assert tested.test is not None
    assert sorted(dataset.test.inputs.flatten(1).sum(1).tolist()) == sorted(tested.test.inputs.flatten(1).sum(1).tolist())
    assert dataset.test.files is not None
    assert all(name.startswith(f"{part}/") for name in dataset.test.files.at(range(len(dataset.test))))
    assert notices(loaded(folder)[1]) == notices(events)  # from the cache too


def test_beside_test_what_is_called_validation_is_left_alone(folder: Path) -> None:
    save(folder / "val" / "emu" / "00.png", 1)
    dataset, events = loaded(folder)
    assert (len(dataset.test or []), notices(events)) == (10, [])


def test_of_validation_the_sentences_name_its_folder(folder: Path) -> None:
    (folder / "test").rename(folder / "val")
    for path in (folder / "val" / "dog").iterdir():
        path.write_bytes(b"x")
    many(folder, 900)
    assert f"no image of the class 'dog' in {folder / 'val'} can be read" in refused(folder)
    assert f"give its parent, {folder}" in refused(folder / "val")
    (folder / "val" / "dog").rename(folder / "val" / "dogs")
    assert f"the class 'dog' of train/ is missing in {folder / 'val'}. Did you mean 'dogs'?" in refused(folder)
    save(folder / "val" / "dog" / "00.png", 1)
    assert f"the class 'dogs' of val/ is missing in {folder / 'train'}" in refused(folder)


# -- without a part to test with ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["train", ""], ids=["train alone", "classes alone"])
def test_without_test_images_a_fifth_of_each_class_is_held_out(folder: Path, part: str) -> None:
    (folder / "test").rename(folder.parent / "elsewhere")
    place = folder / part
    if not part:
        for name in ("cat", "dog"):
            (folder / "train" / name).rename(folder / name)
        (folder / "train").rmdir()
    for number in range(5):
        save(place / "cat" / f"more{number}.png", 5000 + number)
    (folder / ".hidden").mkdir()
    save(place / "beside.png", 1)
    dataset, events = loaded(folder)
    said = notices(events)
    assert (
        said[0] == "The folder has no test/: 9 of 45 images, a fifth of each class by a hash of their names, are held out as the test data."
    )
    assert "an image beside the folders of the classes has no class" in said[1]
    assert dataset.classes == ("cat", "dog")
    assert dataset.test is not None
    assert (torch.bincount(dataset.train.labels).tolist(), torch.bincount(dataset.test.labels).tolist()) == ([20, 16], [5, 4])
    tested = names_of(dataset)
    assert_names_agree(folder, dataset, part)
    of_class = {
        name: sorted((place / name).iterdir(), key=lambda path: folder_contents.mixing_key(path.relative_to(folder).as_posix()))
        for name in ("cat", "dog")
    }
    assert set(tested) == {
        path.relative_to(folder).as_posix() for name, count in (("cat", 5), ("dog", 4)) for path in of_class[name][:count]
    }
    again, said_again = loaded(folder)  # from the cache
    assert (names_of(again), notices(said_again)) == (tested, said)


def test_what_is_held_out_depends_on_nothing_but_the_names(folder: Path, tmp_path: Path) -> None:
    (folder / "test").rename(folder.parent / "elsewhere")
    first = names_of(loaded(folder)[0])
    for path in folder.rglob("*.png"):
        os.utime(path, (1, 1))
    folder.rename(tmp_path / "moved")
    assert names_of(loaded(tmp_path / "moved")[0]) == first


def test_of_a_single_image_none_can_be_held_out(folder: Path) -> None:
    (folder / "test").rename(folder.parent / "elsewhere")
    save(folder / "train" / "emu" / "00.png", 1)
    assert refused(folder).endswith(
        f"{folder / 'train' / 'emu'} holds one image; where there is no test/, two are needed, one of them to test with."
    )


@pytest.mark.parametrize("change", ["one class", "a class without images", "no images", "deeper"])
def test_folders_that_are_no_classes_are_none(tmp_path: Path, change: str) -> None:
    root = tmp_path / "things"
    for name in ("cat", "dog"):
        save(root / name / "deep" / "00.png" if change == "deeper" else root / name / "00.png", 1)
    if change == "one class":
        (root / "dog" / "00.png").unlink()
        (root / "dog").rmdir()
    elif change == "a class without images":
        (root / "emu").mkdir()
    elif change == "no images":
        for name in ("cat", "dog"):
            (root / name / "00.png").rename(root / name / "00.txt")
    sentence = refused(root)
    assert "holds no folder train and no cifar-10-batches-py; " in sentence
    assert sentence.endswith(" 'emu' in it holds no image.") is (change == "a class without images")


def test_of_classes_alone_the_sentences_name_their_folder(tmp_path: Path) -> None:
    for number in range(600):
        save(tmp_path / "flat" / "cat" / f"{number}.png", number, size=(2, 2))
    for number in range(2):
        path = tmp_path / "flat" / "dog" / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    assert refused(tmp_path / "flat").endswith(f"no image of the class 'dog' in {tmp_path / 'flat'} can be read.")


# -- other folders ------------------------------------------------------------------------------------------------------------


def test_one_level_too_deep_or_too_high(folder: Path) -> None:
    assert f"give its parent, {folder}" in refused(folder / "train")
    assert f"Did you mean {folder}?" in refused(folder.parent)
    assert refused(folder / "train" / "cat").endswith(" It holds images itself; those of each class must be in a folder of their own.")
    (folder / "test").rename(folder.parent / "tests")
    (folder / "train").rename(folder / "Train")
    assert f"Did you mean {folder}?" in refused(folder.parent)
    (folder / "Train").rename(folder / "classes")
    assert f"Did you mean {folder / 'classes'}?" in refused(folder)


def test_files_of_another_kind_are_named(tmp_path: Path) -> None:
    for name in ("cat", "do\x1bg"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.svg").touch()
    assert refused(tmp_path).endswith(" alone. 'cat/0.svg' in it is no image that is taken (.png, .jpg, .jpeg, .webp, .bmp, .tif, .tiff).")
    (tmp_path / "cat").rename(tmp_path / "zebra")
    assert refused(tmp_path).endswith(" alone. 'do·g/0.svg' in it is no image that is taken (.png, .jpg, .jpeg, .webp, .bmp, .tif, .tiff).")


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    assert "nothing is empty" in refused(tmp_path / "nothing")


def test_no_class_folder(tmp_path: Path) -> None:
    for part in ("train", "test"):
        save(tmp_path / "flat" / part / "00.png", 1)
    assert "flat/train holds no class folder" in refused(tmp_path / "flat")


def test_a_class_missing_in_test_gets_the_nearest_name(folder: Path) -> None:
    (folder / "test" / "dog").rename(folder / "test" / "dogs")
    sentence = refused(folder)
    assert f"the class 'dog' of train/ is missing in {folder / 'test'}" in sentence
    assert "Did you mean 'dogs'?" in sentence


def test_a_class_missing_in_train(folder: Path) -> None:
    save(folder / "test" / "bird" / "00.png", 1)
    assert f"the class 'bird' of test/ is missing in {folder / 'train'}" in refused(folder)


def test_a_class_without_images(folder: Path) -> None:
    (folder / "train" / "emu").mkdir()
    (folder / "test" / "emu").mkdir()
    assert "train/emu holds no image (.png, .jpg, .jpeg, .webp, .bmp, .tif, .tiff)." in refused(folder)
    (folder / "train" / "emu" / "young").mkdir()
    assert refused(folder).endswith(" It holds folders; its images must be in it itself.")


def test_a_folder_that_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def denied(path: Path) -> object:
        if Path(path).name == "dog":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert refused(folder) == f"data: {folder / 'train' / 'dog'} cannot be read: Permission denied."


def test_hostile_class_names_are_cleaned(folder: Path) -> None:
    for part in ("train", "test"):
        (folder / part / "dog").rename(folder / part / "d\x1b]52;c;x\x07og")
    assert loaded(folder)[0].classes == ("cat", "d·]52;c;x·og")
    (folder / "test" / "d\x1b]52;c;x\x07og").rename(folder / "test" / "\x9bdog")
    refused(folder)


# -- ending -------------------------------------------------------------------------------------------------------------------


def test_a_stop_while_decoding_ends_the_threads_and_keeps_nothing(folder: Path, cache: Path) -> None:
    asked: list[str] = []

    def ending() -> bool:
        asked.append("")
        return len(asked) > 4

    with pytest.raises(Interrupted):
        list(load_data(RunConfig(data=str(folder)), ending))
    assert not cache.exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


def test_a_stop_while_listing(folder: Path) -> None:
    with pytest.raises(Interrupted):
        list(load_data(RunConfig(data=str(folder)), lambda: True))

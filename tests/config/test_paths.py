"""Where things are: what a `data` value leads to, before anything of it is read, and the folders of the user."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import platformdirs
import pytest

from tuitrain import paths
from tuitrain.cli.options import runs_folder
from tuitrain.config import ConfigError, allowed


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("value", ["cifar10", "synthetic", "random"])
def test_a_built_in_data_set_is_of_its_own_kind(value: str) -> None:
    assert paths.expected_data(value) == (value, value)


def test_auto_is_cifar10_only_when_all_of_its_batches_are_there() -> None:
    assert paths.expected_data("auto") == ("synthetic", "synthetic")
    folder = put(paths.cifar10_dirs()[0], *paths.CIFAR10_BATCHES[:-1])
    assert paths.expected_data("auto") == ("synthetic", "synthetic")
    (folder / paths.CIFAR10_BATCHES[-1]).touch()
    assert paths.expected_data("auto") == ("cifar10", "cifar10")


def test_an_import_string_is_custom_unless_a_folder_has_its_name(here: Path) -> None:
    assert paths.expected_data("pkg.mod:make") == ("pkg.mod:make", "custom")
    put(here / "pkg.mod:make")
    assert paths.expected_data("pkg.mod:make") == (str(here / "pkg.mod:make"), "imagefolder")


def test_a_name_with_a_dot_may_be_an_import_string(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"import string like my_package.data:make_data. Did you mean 'sets:photos'\?$"):
        paths.expected_data("sets.photos")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("points.npy", "Such a function may read it."), ("sets.py", "What it defines is named like 'sets:NAME'.")],
)
def test_a_file_is_told_what_may_read_it_or_what_it_defines(here: Path, name: str, hint: str) -> None:
    (here / name).touch()
    with pytest.raises(ConfigError) as error:
        paths.expected_data(name)
    assert str(error.value).endswith(f"is a file; it must be {allowed('data')}. {hint}")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("pets.zip", "data: {here}/pets.zip does not exist. Did you mean 'pots.zip'?"),
        ("./d.npz", "data: {here}/d.npz does not exist."),
        ("TABLE.CSV", "data: {here}/TABLE.CSV does not exist."),
        (
            "https://host/pets.zip",
            "data: 'https://host/pets.zip' is an address; fetch what is there, unpack it, and give the folder that comes out.",
        ),
    ],
)
def test_a_file_that_is_not_there_is_no_import_string(here: Path, value: str, sentence: str) -> None:
    (here / "pots.zip").touch()
    with pytest.raises(ConfigError) as error:
        paths.data_path(value)
    assert str(error.value) == sentence.format(here=here)


@pytest.mark.parametrize("there", [("test_batch",), ("data_batch_1",)])
def test_a_folder_with_batches_or_over_one_is_cifar10(here: Path, there: tuple[str, ...]) -> None:
    batches = put(here / "sets" / paths.CIFAR10_FOLDER, *there)
    for given in (batches, batches.parent):
        assert paths.batches_folder(given) == batches
        assert paths.expected_data(str(given)) == (str(given), "cifar10")


def test_any_other_folder_holds_images_and_is_named_by_its_absolute_path(here: Path) -> None:
    put(here / "pictures" / paths.CIFAR10_FOLDER)
    assert paths.batches_folder(here / "pictures") is None
    assert paths.expected_data("pictures") == (str(here / "pictures"), "imagefolder")


@pytest.mark.parametrize(
    ("name", "shown", "what"),
    [
        ("a\u202eb", "a·b", "holds control characters"),
        ("a\x1bb", "a·b", "holds control characters"),
        (os.fsdecode(b"a\xffb"), "a·b", "is not UTF-8"),
    ],
)
def test_a_folder_below_a_name_that_no_file_may_hold_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, shown: str, what: str
) -> None:
    put(here / name / "pictures" / "train")
    monkeypatch.chdir(here / name)
    with pytest.raises(ConfigError) as raised:
        paths.data_path("./pictures")
    assert str(raised.value).startswith(f"data: '{here / shown / 'pictures'}' {what}; it must be ")


# -- folders of the user --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("homeless")
def test_without_a_home_the_folder_of_the_runs_must_be_named(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--runs-dir: nobody knows this user's home folder; set HOME, or name "):
        paths.runs_dir()
    assert paths.runs_dir("runs") == here / "runs"


@pytest.mark.usefixtures("homeless")
def test_without_a_home_cifar10_is_looked_for_beside_and_the_rest_has_no_place(here: Path) -> None:
    assert paths.expected_data("auto") == ("synthetic", "synthetic")
    put(here / "data" / paths.CIFAR10_FOLDER, *paths.CIFAR10_BATCHES)
    assert paths.find_cifar10() == Path("data") / paths.CIFAR10_FOLDER
    for place in (paths.cache_dir, paths.theme, paths.last_launch):
        with pytest.raises(OSError, match="set HOME"):
            place()


@pytest.mark.usefixtures("homeless")
def test_a_version_of_platformdirs_that_leaves_the_home_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda name: Path("~/.cache") / name)
    with pytest.raises(OSError, match="set HOME"):
        paths.cache_dir()


def test_a_home_that_nobody_knows_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^--runs-dir: '~no-such-user/x' begins with a home folder that nobody knows; "):
        paths.runs_dir("~no-such-user/x")
    monkeypatch.setenv("TUITRAIN_RUNS", "~no-such-user/y")
    with pytest.raises(ConfigError, match=r"^TUITRAIN_RUNS: '~no-such-user/y' begins with "):
        paths.runs_dir()


def test_a_folder_of_the_runs_without_a_name_is_not_the_one_without_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    after, option = click.Context(click.Command("runs"), obj="/there"), click.Option(["--runs-dir"])
    with pytest.raises(ConfigError, match=r"^--runs-dir: '' is not allowed; it must be the path of a folder\.$"):
        paths.runs_dir("")
    with pytest.raises(ConfigError, match=r"^--runs-dir: '' is not allowed"):
        runs_folder(after, option, "")
    assert runs_folder(after, option, None) == Path("/there")
    monkeypatch.setenv("TUITRAIN_RUNS", "")
    assert paths.runs_dir().name == "runs"


def test_a_relative_folder_below_one_that_has_gone_is_a_sentence(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(put(here / "gone"))
    (here / "gone").rmdir()
    monkeypatch.setenv("TUITRAIN_RUNS", "runs")
    with pytest.raises(ConfigError, match=r"^TUITRAIN_RUNS: 'runs' is below the working directory, which has gone; "):
        paths.runs_dir()


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, where `data` and `sets` may not be entered."""
    # pytest's own folders are closed to other users.
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.chdir(folder)
    put(folder / "data" / paths.CIFAR10_FOLDER, *paths.CIFAR10_BATCHES)
    put(folder / "sets" / "mine" / "train")
    (folder / "data").chmod(0)
    (folder / "sets").chmod(0)
    yield folder
    (folder / "data").chmod(0o700)
    (folder / "sets").chmod(0o700)
    shutil.rmtree(folder)


def test_a_folder_that_may_not_be_entered_is_no_cifar10_and_said_to_be_unreadable(
    closed: Path, as_another_user: Callable[[Callable[[], object]], None]
) -> None:
    def look() -> None:
        assert paths.expected_data("auto") == ("synthetic", "synthetic")
        assert paths.expected_data("sets") == (str(closed / "sets"), "imagefolder")
        with pytest.raises(ConfigError) as raised:
            paths.expected_data("sets/mine")
        assert str(raised.value) == f"data: {closed / 'sets' / 'mine'} cannot be read: Permission denied."

    as_another_user(look)


def test_nothing_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigError, match=r"^data: the folder /my\.sets:photos does not exist\. Did you mean 'my\.sets:photos'\?$"):
        paths.expected_data("/my.sets:photos")
    with pytest.raises(ConfigError, match=r"^data: the folder /no/such does not exist\.$"):
        paths.expected_data("/no/such")


def test_checkpoints_are_in_the_order_of_their_steps_however_many_there_were(tmp_path: Path) -> None:
    names = ["step-00000009", "step-99999996", "step-99999999", "step-100000000", "step-100000010"]
    for name in reversed(names):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert [folder.name for folder in paths.saved_folders(tmp_path / "checkpoints")] == names

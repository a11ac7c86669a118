"""Every path: the runs folder, the cache, control sockets, and what the app remembers."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import platformdirs

from tuitrain.array_files import is_array_file
from tuitrain.config import DATA, ConfigError, allowed, check_field
from tuitrain.events import DataKind
from tuitrain.image_folders import is_archive
from tuitrain.import_strings import import_string_meant, is_import_string
from tuitrain.text import clean, nearest

CIFAR10_FOLDER = "cifar-10-batches-py"
CIFAR10_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
"""The files that CIFAR-10 consists of, the test images last."""

CONFIG = "run.toml"
STATE = "state.json"
METRICS = "metrics.sqlite"
LOG = "log.txt"
TENSORBOARD = "tensorboard"
CHECKPOINTS = "checkpoints"
"""What a run's folder holds, the last two being folders."""
MANIFEST = "manifest.json"
"""In the folder of a checkpoint that is whole."""
MODEL_TENSORS = "model.safetensors"
"""There: the model's weights, with which another run may begin."""
BEST = "best"
"""Beside the checkpoints: the name of the best one."""
WEIGHTS = (".pt", ".pth", ".safetensors")
"""How the names of files of weights end, of most."""
_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".npz", ".npy", ".h5", ".hdf5", ".pkl", ".txt", *WEIGHTS)
"""How the names of files of data end that are no archives, of most."""

ANOTHER_RUNS_DIR = "--runs-dir or TUITRAIN_RUNS names another"
"""For a sentence about the folder of the runs, whichever of the two has named it, or none."""

_BUILT_IN: dict[str, DataKind] = {"cifar10": "cifar10", "synthetic": "synthetic", "random": "random"}
LONGEST_SOCKET_PATH = 107
"""In bytes."""


class NoSuchFolder(ConfigError):
    """A folder that a configuration names does not exist."""


def saved_folders(parent: Path) -> list[Path]:
    """The folders in `parent` that have a checkpoint's name, oldest first; whether they are whole is not looked at."""
    return sorted(parent.glob("step-*"), key=lambda folder: by_step(folder.name)) if os.path.isdir(parent) else []


def by_step(name: str) -> tuple[int, str]:
    """By what the names of checkpoints sort; as text, step-100000000 would come before step-99999999."""
    return len(name), name


def best_name(parent: Path) -> str | None:
    """The name of the best checkpoint in `parent`, where it is noted there; whether there still is one of that name is not looked at."""
    try:
        return (parent / BEST).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


def runs_dir(option: str | None = None) -> Path:
    """The folder that holds the runs: `--runs-dir`, else TUITRAIN_RUNS, else the user's data folder.

    Raises:
        ConfigError: nobody can tell which folder that is.
    """
    if option is not None:
        return _runs_dir("--runs-dir", option)
    if chosen := os.environ.get("TUITRAIN_RUNS"):
        return _runs_dir("TUITRAIN_RUNS", chosen)
    try:
        return _folder_of_user(platformdirs.user_data_path) / "runs"
    except OSError as error:
        raise ConfigError(f"--runs-dir: {error.strerror}, or name the folder for the runs.") from None


def check_working_directory() -> None:
    """Check that torch can compute in this process: from a folder that is gone its libraries do not find theirs, and end the process.

    Raises:
        ConfigError: the working directory has been deleted.
    """
    if working_directory_is_gone():
        text = "the working directory has been deleted, and torch cannot train in such a one; change to another and start tuitrain there."
        raise ConfigError(text)


def working_directory_is_gone() -> bool:
    """Whether the folder that this process is in has been deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _runs_dir(given_as: str, value: str) -> Path:
    if not value:
        raise ConfigError(f"{given_as}: '' is not allowed; it must be the path of a folder.")
    try:
        return Path(value).expanduser().absolute()
    except RuntimeError:
        reason = "begins with a home folder that nobody knows; it must be the path of a folder"
    except OSError:
        reason = "is below the working directory, which has gone; it must be an absolute path"
    raise ConfigError(f"{given_as}: {clean(value)!r} {reason}.")


def _folder_of_user(find: Callable[[str], Path]) -> Path:
    """Where the user keeps what `find` of platformdirs is about.

    Raises:
        OSError: nobody knows the user's home.
    """
    try:
        folder = find("tuitrain")
    except RuntimeError:
        folder = Path("~")
    # Some versions of platformdirs leave a home that nobody knows in the path.
    if not folder.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "nobody knows this user's home folder; set HOME")
    return folder


def cache_dir() -> Path:
    """The folder for what can be made again: downloaded and decoded data.

    Raises:
        OSError: nobody knows the user's home.
    """
    return _folder_of_user(platformdirs.user_cache_path)


def cached_cifar10() -> Path:
    """Where a download of CIFAR-10 goes.

    Raises:
        OSError: nobody knows the user's home.
    """
    return cache_dir() / "cifar10" / CIFAR10_FOLDER


def cached_datasets() -> Path:
    """Where data sets are kept that other libraries fetch, such as torchvision's.

    Raises:
        OSError: nobody knows the user's home.
    """
    return cache_dir() / "datasets"


def cifar10_dirs() -> tuple[Path, ...]:
    """Where CIFAR-10 is looked for, in this order: our cache, then `./data`, torchvision's custom."""
    beside = Path("data") / CIFAR10_FOLDER
    try:
        return (cached_cifar10(), beside)
    except OSError:
        return (beside,)


def find_cifar10() -> Path | None:
    """The `cifar-10-batches-py` folder in one of these places that holds all of its batches, or `None`."""
    return next((folder for folder in cifar10_dirs() if all(os.path.isfile(folder / batch) for batch in CIFAR10_BATCHES)), None)


def batches_folder(folder: Path) -> Path | None:
    """`folder` where it is a `cifar-10-batches-py`, or the one in it, or `None`; some of the batches may be missing."""
    ends = (CIFAR10_BATCHES[0], CIFAR10_BATCHES[-1])
    return next((found for found in (folder, folder / CIFAR10_FOLDER) if any(os.path.exists(found / name) for name in ends)), None)


def expected_data(value: str) -> tuple[str, DataKind]:
    """What a start would find as a `data` value, unread: the value that names it, a path as an absolute one, and its kind.

    Raises:
        ConfigError: there is nothing.
    """
    if value == "auto":
        value = "synthetic" if find_cifar10() is None else "cifar10"
    path = data_path(value)
    if path is None:
        return value, _BUILT_IN.get(value, "custom")
    if is_array_file(path):
        return str(path), "custom"
    return str(path), "imagefolder" if batches_folder(path) is None else "cifar10"


def data_path(value: str) -> Path | None:
    """The folder or the file of arrays that a `data` value names; `None` where it is a built-in data set or an import string.

    Raises:
        NoSuchFolder: it is the path of one that is not there.
        ConfigError: it is none of these, or nobody can tell.
    """
    if value in DATA:
        return None
    path, mode = _looked_at("data", value)
    shown = clean(str(path))
    if mode is not None:
        if stat.S_ISDIR(mode) or is_array_file(path):
            return path
        hint = " Unpack it, and give the folder that comes out." if is_archive(path.name) else _for_file(value)
        raise ConfigError(f"data: {shown} is a file; it must be {allowed('data')}.{hint}")
    if is_import_string(value):
        return None
    if "://" in value:
        raise ConfigError(f"data: {clean(value)!r} is an address; fetch what is there, unpack it, and give the folder that comes out.")
    if is_archive(value) or value.lower().endswith(_TABLES):
        raise NoSuchFolder(f"data: {shown} does not exist.{_neighbour(path)}")
    if os.sep in value or value.startswith(("~", ".")):
        # A "/" begins to type a path in the launcher, and may be left before what is none.
        hint = import_string_meant("data", value) or _neighbour(path)
        raise NoSuchFolder(f"data: the folder {shown} does not exist.{hint}")
    kinds = f"neither one of {', '.join(DATA)}, nor a folder, nor a .npz file, nor an import string like my_package.data:make_data"
    raise ConfigError(f"data: {clean(value)!r} is {kinds}.{import_string_meant('data', value) or nearest(value, DATA)}")


def _for_file(value: str) -> str:
    """What is to be said of a file as data."""
    return import_string_meant("data", value) if value.endswith(".py") else " Such a function may read it."


def weights_file(value: str) -> Path:
    """The absolute path of the file that a `weights` value names.

    Raises:
        ConfigError: there is none, or it cannot be looked at.
    """
    path, mode = _looked_at("weights", value)
    shown = clean(str(path))
    if mode is None:
        raise ConfigError(f"weights: the file {shown} does not exist.{_neighbour(path, WEIGHTS)}")
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no file"
        raise ConfigError(f"weights: {shown} is {what}; it must be {allowed('weights')}.")
    return path


def _looked_at(field: str, value: str) -> tuple[Path, int | None]:
    """The absolute path that a value of `field` names, and the kind of what is there; `None` where nothing is.

    Raises:
        ConfigError: it may not be looked at; or there is something, and no run.toml could name it: of a relative path the rest comes from
            the working directory.
    """
    path = Path(os.path.abspath(os.path.expanduser(value)))
    try:
        mode = path.stat().st_mode
    except PermissionError as error:
        raise ConfigError(f"{field}: {clean(str(path))} cannot be read: {error.strerror}.") from None
    except (OSError, ValueError):
        return path, None
    return Path(check_field(field, str(path))), mode


def _neighbour(path: Path, ends: tuple[str, ...] = ("",)) -> str:
    try:
        names = [name for name in os.listdir(path.parent) if name.endswith(ends)]
    except OSError:
        return ""
    return clean(nearest(path.name, names))


def control_sockets(run_folder: Path) -> tuple[Path, ...]:
    """Where the control socket of a run may be, the best place first.

    They are several because a process may have another environment than the one that looks for it, and the folder of a login goes when
    the user has logged out everywhere. The names are short: a socket's path has 107 bytes at most.
    """
    import hashlib

    name = hashlib.sha256(os.fsencode(os.path.realpath(run_folder))).hexdigest()[:20]
    user = os.getuid()
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    folders = [Path(given, "tuitrain")] if os.path.isabs(given) else []
    folders += [Path(f"/run/user/{user}/tuitrain"), Path(f"/tmp/tuitrain-{user}")]
    return tuple(dict.fromkeys(folder / name for folder in folders if len(os.fsencode(folder / name)) <= LONGEST_SOCKET_PATH))


def last_launch() -> Path:
    """The file that holds the configuration last started from the app.

    Raises:
        OSError: nobody knows the user's home.
    """
    return _folder_of_user(platformdirs.user_state_path) / "last-launch.toml"


def theme() -> Path:
    """The file that holds the name of the theme last chosen.

    Raises:
        OSError: nobody knows the user's home.
    """
    return _folder_of_user(platformdirs.user_state_path) / "theme"

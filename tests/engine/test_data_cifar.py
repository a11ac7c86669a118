"""`cifar-10-batches-py`: reading it without trusting it, and downloading it."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import io
import os
import pickle
import struct
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from loading import loaded, refused

from tuitrain.engine import vision
from tuitrain.engine.control import Interrupted
from tuitrain.engine.data import fetch_cifar10
from tuitrain.engine.datasets import cifar, download
from tuitrain.events import Notice, Progress
from tuitrain.paths import CIFAR10_FOLDER

NAMES = (*cifar.TRAIN_FILES, cifar.TEST_FILE)
CACHED = Path("cache") / "tuitrain" / "cifar10"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def table(number: int, count: int = 4) -> dict[str, Any]:
    generator = np.random.default_rng(number)
    return {"data": generator.integers(0, 256, (count, 3072), dtype=np.uint8), "labels": generator.integers(0, 10, count).tolist()}


def write_batches(folder: Path, protocol: int = 2) -> Path:
    folder.mkdir(parents=True)
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(pickle.dumps(table(number), protocol=protocol))
    names = [f"class {number}" for number in range(10)]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": names}, protocol=protocol))
    return folder


# -- reading ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("given", ["the folder itself", "the one that holds it"])
def test_batches_of_a_folder(tmp_path: Path, given: str, protocol: int) -> None:
    folder = write_batches(tmp_path / "sets" / CIFAR10_FOLDER, protocol)
    path = folder if given == "the folder itself" else folder.parent
    dataset, _ = loaded(str(path))
    assert (dataset.kind, dataset.source) == ("cifar10", str(path))
    assert dataset.test is not None
    assert dataset.train.inputs.shape == (20, 3, 32, 32)
    assert dataset.train.inputs.is_contiguous(memory_format=torch.channels_last)
    expected = np.concatenate([table(number)["data"] for number in range(5)]).reshape(-1, 3, 32, 32)
    assert np.array_equal(dataset.train.inputs.numpy(), expected)
    assert dataset.test.labels.tolist() == table(5)["labels"]
    assert dataset.classes[3] == "class 3"


def test_without_meta_the_classes_have_their_known_names(tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "batches")
    (folder / "batches.meta").unlink()
    assert loaded(str(folder))[0].classes == cifar.CLASSES


def python_2_pickle(data: np.ndarray[Any, Any], labels: list[int]) -> bytes:
    """As Python 2 wrote the real files: every string is a byte string, and numpy's functions have their old names."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    dtype = (
        b"cnumpy\ndtype\n(" + text(b"u1") + number(0) + number(1) + b"tR(" + number(3) + text(b"|") + b"NNN" + number(-1) * 2 + number(0)
    )
    empty = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(" + number(0) + b"t" + text(b"b") + b"tR"
    state = b"(" + number(1) + b"(" + b"".join(map(number, data.shape)) + b"t" + dtype + b"tb\x89T" + struct.pack("<i", data.nbytes)
    array = empty + state + data.tobytes() + b"tb"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + b"](" + b"".join(map(number, labels)) + b"eu."


def test_a_pickle_of_python_2(tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "batches")
    (folder / "data_batch_1").write_bytes(python_2_pickle(**table(0)))
    dataset, _ = loaded(str(folder))
    assert np.array_equal(dataset.train.inputs[:4].numpy().reshape(4, 3072), table(0)["data"])
    assert dataset.train.labels[:4].tolist() == table(0)["labels"]


@pytest.mark.parametrize("where", [Path("cache/tuitrain/cifar10"), Path("data")])
@pytest.mark.parametrize("data", ["auto", "cifar10"])
def test_what_is_on_disk_is_taken_without_a_download(tmp_path: Path, where: Path, data: str) -> None:
    write_batches(tmp_path / where / CIFAR10_FOLDER)
    dataset, events = loaded(data)
    assert (dataset.kind, dataset.source, len(dataset.train)) == ("cifar10", "cifar10", 20)
    assert ["CIFAR-10" in event.text for event in events if isinstance(event, Notice)] == ([True] if data == "auto" else [])


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "batches")
    (folder / "data_batch_4").unlink()
    assert "has no data_batch_4" in refused(str(folder))


class Payload:
    """Unpickled by `pickle.load`, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_malicious_pickle_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "batches")
    (folder / "data_batch_2").write_bytes(pickle.dumps({"data": Payload(tmp_path / "pwned"), "labels": []}))
    sentence = refused(str(folder))
    assert "data_batch_2 is not a CIFAR-10 batch" in sentence
    assert "mkdir" in sentence
    assert not (tmp_path / "pwned").exists()


def test_a_malicious_meta_is_refused(tmp_path: Path) -> None:
    folder = write_batches(tmp_path / "batches")
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": Payload(tmp_path / "pwned")}))
    assert "batches.meta" in refused(str(folder))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "EOFError"),
        (b"garbage", "is not a CIFAR-10 batch"),
        (pickle.dumps(table(0))[:-500], "is not a CIFAR-10 batch"),
        (pickle.dumps([1]), "it holds a list"),
        (pickle.dumps({"labels": [1]}), "its images are not an array"),
        (pickle.dumps({"data": np.zeros((2, 3072)), "labels": [0, 1]}), "its images are not an array"),
        (pickle.dumps({"data": np.zeros((2, 3000), np.uint8), "labels": [0, 1]}), "its images are not an array"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}), "its labels are not 2 numbers"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [0, 10]}), "its labels are not 2 numbers"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": "ab"}), "its labels are not 2 numbers"),
    ],
)
def test_damaged_batches_are_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    folder = write_batches(tmp_path / "batches")
    (folder / "data_batch_3").write_bytes(content)
    sentence = refused(str(folder))
    assert str(folder / "data_batch_3") in sentence
    assert words in sentence


# -- downloading --------------------------------------------------------------------------------------------------------------


def archive(folder: Path) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.add(folder, arcname=CIFAR10_FOLDER)
    return file.getvalue()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


class Server:
    """Serves one archive; with `endless` it sends 64 KB pieces until the client has gone, with `silent` nothing after the first,
    with `cut` it closes the connection after one."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.mode = "whole"
        self.requests = 0
        self.closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._head()

            def do_GET(self) -> None:
                outer.requests += 1
                self._head()
                try:
                    if outer.mode == "whole":
                        self.wfile.write(outer.content)
                    while outer.mode == "endless" and not outer.closing.wait(0.005):
                        self.wfile.write(bytes(65536))
                    if outer.mode == "cut":
                        self.wfile.write(bytes(1_000_000))
                        self.close_connection = True
                    if outer.mode == "silent":
                        self.wfile.write(bytes(65536))
                        outer.closing.wait(30)
                except OSError:
                    self.close_connection = True

            def _head(self) -> None:
                self.send_response(404 if outer.mode == "missing" else 200)
                self.send_header("Content-Length", str(len(outer.content) if outer.mode == "whole" else 10**9))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/cifar-10-python.tar.gz"

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """torchvision's CIFAR10 class, pointed at a small archive on a local server."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    folder = write_batches(tmp_path / "origin")
    content = archive(folder)
    cifar10 = vision.import_torchvision("the test").datasets.CIFAR10
    server = Server(content)
    monkeypatch.setattr(cifar10, "url", server.url)
    monkeypatch.setattr(cifar10, "tgz_md5", md5(content))
    monkeypatch.setattr(cifar10, "train_list", [[name, md5((folder / name).read_bytes())] for name in cifar.TRAIN_FILES])
    monkeypatch.setattr(cifar10, "test_list", [[cifar.TEST_FILE, md5((folder / cifar.TEST_FILE).read_bytes())]])
    monkeypatch.setattr(cifar10, "meta", {**cifar10.meta, "md5": md5((folder / "batches.meta").read_bytes())})
    monkeypatch.setattr(download, "JOIN_SECONDS", 0.2)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield server
    server.close()


def test_a_download_is_published_whole_and_says_how_far_it_is(tmp_path: Path, server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    dataset, events = loaded("cifar10")
    assert (dataset.kind, dataset.source, len(dataset.train)) == ("cifar10", "cifar10", 20)
    first = events[0]
    assert isinstance(first, Progress)
    assert (first.phase, first.total, first.unit) == ("downloading CIFAR-10", 170_498_071, "B")
    assert [path.name for path in (tmp_path / CACHED).iterdir()] == [CIFAR10_FOLDER]
    assert capfd.readouterr() == ("", "")
    requests = server.requests
    loaded("cifar10")
    assert server.requests == requests > 0


def test_what_another_process_has_fetched_meanwhile_is_taken_and_not_replaced(tmp_path: Path, server: Server) -> None:
    fetching = fetch_cifar10(lambda: False)
    next(fetching)
    # That process reads it already.
    folder = write_batches(tmp_path / CACHED / CIFAR10_FOLDER)
    before = {path: path.stat().st_ino for path in folder.iterdir()}
    list(fetching)
    assert {path: path.stat().st_ino for path in folder.iterdir()} == before
    assert list(folder.parent.iterdir()) == [folder]


def test_progress_grows_and_a_stop_ends_the_download(tmp_path: Path, server: Server) -> None:
    server.mode = "endless"
    sizes: list[int] = []
    fetching = fetch_cifar10(lambda: len(sizes) > 3)
    with pytest.raises(Interrupted):
        sizes.extend(event.done for event in fetching)
    assert sizes == sorted(sizes)
    assert sizes[-1] > 0
    assert list((tmp_path / CACHED).iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "cifar10-download"]


def test_a_damaged_download_is_refused_and_removed(tmp_path: Path, server: Server) -> None:
    server.content = server.content[:-1] + b"x"
    sentence = refused("cifar10")
    assert "what came is damaged" in sentence
    assert list((tmp_path / CACHED).iterdir()) == []


def test_a_connection_that_ends_too_early_is_not_called_damaged_data(tmp_path: Path, server: Server) -> None:
    server.mode = "cut"
    assert "could not be downloaded: the connection ended after 1 of 1000 MB; try again with a network" in refused("cifar10")
    assert list((tmp_path / CACHED).iterdir()) == []


def test_a_full_disk_is_named_and_not_taken_for_the_network(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    utils = vision.import_torchvision("the test").datasets.utils

    def over_tls(url: str, filename: str, retrieve: Callable[[str, str], None] = utils._urlretrieve) -> None:
        tried.append(url)
        retrieve(server.url, filename)

    class Full(io.BytesIO):
        def write(self, _content: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    tried: list[str] = []
    monkeypatch.setattr(utils, "_get_redirect_url", lambda url, max_hops: "https://127.0.0.1/")
    monkeypatch.setattr(utils, "_urlretrieve", over_tls)
    monkeypatch.setattr(utils, "open", lambda *_: Full(), raising=False)
    place = tmp_path / CACHED
    assert refused("cifar10") == (
        f"data: CIFAR-10 could not be downloaded: no space is left in {place}; make room for 360 MB and try again, "
        "set data to synthetic, or to a folder of images."
    )
    assert tried == ["https://127.0.0.1/"]
    assert list(place.iterdir()) == []


def test_no_network_says_the_way_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    cifar10 = vision.import_torchvision("the test").datasets.CIFAR10
    monkeypatch.setattr(cifar10, "url", "http://127.0.0.1:9/cifar-10-python.tar.gz")
    assert refused("cifar10") == (
        "data: CIFAR-10 could not be downloaded: Connection refused; try again with a network, "
        "set data to synthetic, or to a folder of images."
    )


def test_a_server_without_the_file(server: Server) -> None:
    server.mode = "missing"
    assert "the server answered 404 Not Found" in refused("cifar10")


def test_a_stalled_download_ends(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.mode = "silent"
    monkeypatch.setattr(download, "STALLED_SECONDS", 0.2)
    assert "stalled: no byte came" in refused("cifar10")


def test_a_cache_that_cannot_be_written(tmp_path: Path, server: Server) -> None:
    (tmp_path / "cache").write_text("a file")
    assert "cannot be written" in refused("cifar10")


@pytest.mark.usefixtures("homeless")
def test_without_a_home_a_download_has_no_place() -> None:
    no_home = "data: there is no place for CIFAR-10: nobody knows this user's home folder"
    assert refused("cifar10").startswith(f"{no_home}; set HOME, or set data to synthetic")


def test_without_torchvision_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision.importlib.util, "find_spec", lambda _name: None)
    assert refused("cifar10") == "data: the CIFAR-10 download needs torchvision, which is not installed: pip install 'tuitrain[vision]'."


def test_a_torchvision_that_does_not_fit_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str) -> None:
        raise ImportError("libtorch.so: undefined symbol")

    monkeypatch.setattr(vision.importlib, "import_module", broken)
    monkeypatch.setattr(vision.importlib.util, "find_spec", lambda _name: object())
    assert "does not fit torch" in refused("cifar10")


def test_a_library_that_imports_torchvision_may_say_in_its_own_words_that_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    declared: list[bool] = []

    def of_transformers(name: str) -> ModuleType:
        if not declared:
            raise ModuleNotFoundError("Could not import module 'Bert'") from RuntimeError("operator torchvision::nms does not exist")
        return ModuleType(name)

    monkeypatch.setattr(vision.importlib, "import_module", of_transformers)
    monkeypatch.setattr(vision, "_declare_operators", lambda: declared.append(True))
    assert vision.imported("nets").__name__ == "nets"
    assert declared == [True]

"""The processes that read samples: one that has the data, and its children, each of which takes the next task that there is.

They end when the run closes its socket, or ends itself.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import torch
from torch import Tensor

from tuitrain.config import ConfigError
from tuitrain.engine.datasets.file_names import FileNames
from tuitrain.engine.datasets.own_parts import own_parts
from tuitrain.engine.datasets.readers.wire import LONGEST, Answer, Ask, Done, Failed, Ready, Task, encoded, ended, task
from tuitrain.engine.datasets.torch_samples import Samples
from tuitrain.engine.places import one_line
from tuitrain.engine.seeding import seed_everything, seed_sample
from tuitrain.files import to_nowhere

if TYPE_CHECKING:
    from tuitrain.engine.datasets.folder_samples import FolderSamples


def main() -> None:
    """Read the `Ask` on stdin, and what it asks for; `sys.argv` has the numbers of the socket, of the memory and of that of names."""
    link, memory, *names = socket.socket(fileno=int(sys.argv[1])), *map(int, sys.argv[2:])
    ask = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Ask)
    torch.set_num_threads(1)
    try:
        samples = _own_samples(ask) if ask.folder is None else _images(ask.folder, names[0], ask.config.image_size)
        reader = _Reader(link, samples, ask.layout.views(mmap.mmap(memory, ask.layout.size)), ask.config.seed)
    except ConfigError as error:
        with suppress(ConnectionError):  # the run has ended meanwhile
            link.send(encoded(Failed(str(error))))
        return
    with suppress(ConnectionError):
        link.send(encoded(Ready()))
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        reader.work()  # no child could use CUDA any more
    else:
        _let_children_work(reader, link, ask)


def _own_samples(ask: Ask) -> Samples:
    """Raises: ConfigError: the person's function does not make the data that it made in the process of the run."""
    where, here = f"data: {ask.config.data!r}", "in a process that reads samples"
    seed_everything(ask.config.seed)
    try:
        with _quiet():  # the process of the run has said all of it
            dataset = getattr(own_parts(ask.config), ask.part)
        count = len(dataset)
    except ConfigError as error:
        raise ConfigError(f"{str(error).removesuffix('.')}, {here}.") from error
    except BaseException as error:
        raise ConfigError(f"{where} raised {one_line(error)}, {here}.") from error
    if count != ask.count:
        both = f"{ask.count:,} {ask.part} samples, and {count:,} when it was called again"
        raise ConfigError(f"{where} gave {both}, {here}; it must give the same each time.")
    return Samples(f"{where}: {ask.part} sample", dataset, ask.packing, ask.side)


def _images(folder: str, names: int, side: int) -> FolderSamples:
    from tuitrain.engine.datasets.folder_samples import FolderSamples  # with it comes Pillow

    packed = torch.frombuffer(mmap.mmap(names, 0), dtype=torch.uint8)
    return FolderSamples(folder, FileNames(packed), side)


class _Reader:
    """Takes tasks and reads samples into the places that they are for."""

    def __init__(self, link: socket.socket, samples: Samples | FolderSamples, places: Sequence[tuple[Tensor, Tensor]], seed: int) -> None:
        self._link, self._samples, self._places, self._seed = link, samples, places, seed

    def work(self) -> None:
        """Until the run closes its socket."""
        with suppress(ConnectionError):
            while message := self._link.recv(LONGEST):
                self._link.send(encoded(self._done(task(message))))

    def _done(self, todo: Task) -> Answer:
        inputs, labels = self._places[todo.place]
        first, label = inputs[0], labels[0]
        try:
            for row, index in enumerate(todo.samples, todo.row):
                seed_sample(self._seed, todo.draw, index)
                inputs[row], labels[row] = self._samples.alike(index, first, label)
        except ConfigError as error:
            cause = error.__cause__
            return Failed(str(error), "".join(traceback.format_exception(cause)) if cause is not None else "")
        return Done(todo.place, len(todo.samples))


def _let_children_work(reader: _Reader, link: socket.socket, ask: Ask) -> None:
    children = {_child(reader) for _ in range(ask.workers)}
    while children:
        pid, status = os.wait()
        children.discard(pid)
        if code := os.waitstatus_to_exitcode(status):
            with suppress(ConnectionError):
                link.send(encoded(Failed(f"data: {ask.config.data!r}: a process that reads samples {ended(code)}.")))


def _child(reader: _Reader) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        reader.work()
        code = 0
    except BaseException:  # nobody above may go on in this process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing that is printed inside is seen."""
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    for stream in (1, 2):
        to_nowhere(stream)
    try:
        yield
    finally:
        sys.stdout.flush()
        for saved, stream in zip(kept, (1, 2), strict=True):
            os.dup2(saved, stream)
            os.close(saved)

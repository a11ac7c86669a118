"""Samples that are read while the run trains, by processes of their own and ahead of the steps that need them.

Of data that is drawn at random each time it is read, or that does not fit in memory. What is drawn of a sample depends on the run's seed,
the epoch and the sample's number alone, so that a run may go on anywhere, with any number of processes.

The batches lie in memory without a name (memfd_create(2)): what a container gives to /dev/shm, mostly 64 MB, does not limit them.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, NoReturn

import msgspec
import torch
from torch import Tensor

from tuitrain import words
from tuitrain.allowance import Allowance
from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.control import Interrupted
from tuitrain.engine.datasets.file_names import FileNames
from tuitrain.engine.datasets.packing import Packing
from tuitrain.engine.datasets.readers.wire import LONGEST, Answer, Ask, Done, Failed, Layout, PartName, Task, answer, encoded, ended
from tuitrain.engine.datasets.sample import IGNORED
from tuitrain.python import module_arguments

BEFORE_TRAINING = 0
"""The draw of what is looked at before the first epoch, whose number is 1."""
_PROCESS = "tuitrain.engine.datasets.reading"
_MOST_WORKERS = 16
_SAMPLES_AHEAD = 8
"""So many samples for each process, and two batches at least, are begun before they are needed: some take longer than others."""
_TASKS, _MOST_SAMPLES = 2, 4096
"""A batch is cut into so many tasks for each process, and none has more samples than this: a message can tell of them."""
_END_SECONDS = 2.0
_ASK_MILLISECONDS = 200


def workers_for(config: RunConfig) -> int:
    """How many processes read for this one: as many as may run beside it, and the other ranks have as many."""
    ranks = len(config.device.split(",")) if config.strategy == "ddp" else 1
    return max(1, min(Allowance().processors() // ranks - 1, _MOST_WORKERS))


class _ThereItWas(Exception):
    """What was raised in another process, as Python told it there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Readers:
    """The processes that read a part of the data that a configuration names.

    Args:
        config: its `data` is an import string.
        part: what the samples are for; a torch `Dataset`.
        count: how many samples there are.
        first, label: input and label of one of them; the others are of their shapes and types.
        ending: see the attribute.
        images: of a folder of images its path and their names; else the data is a function.
        labels: of all samples [N], where they do not come with the samples.
        packing: how several inputs of a sample are in `first`.
        side: to how many pixels images of the function's are brought, if they are.

    Attributes:
        workers: how many processes read.
        ahead: how many batches are begun before they are needed, at most.
        ending: asked now and then while samples are waited for; `True` ends the waiting. A disk of the network may never answer.

    Raises:
        ConfigError: there is no memory for the batches, or no process can be started.
    """

    def __init__(
        self,
        config: RunConfig,
        part: PartName,
        count: int,
        first: Tensor,
        label: Tensor,
        ending: Callable[[], bool],
        *,
        images: tuple[Path, FileNames] | None = None,
        labels: Tensor | None = None,
        packing: Packing | None = None,
        side: int | None = None,
    ) -> None:
        self.workers, self.ending = workers_for(config), ending
        self.ahead = max(2, -(-_SAMPLES_AHEAD * self.workers // config.batch_size))
        self._labels = labels
        self._labels_are: tuple[torch.dtype, int | None] = label.dtype, None
        self._where, self._part = f"data: {config.data!r}", part
        layout = Layout.of(first, label, places=self.ahead + 1, rows=min(config.batch_size, count))
        self._rows = layout.rows
        self._left = [0] * layout.places
        # What each place is for; None where nobody asks for that any more.
        self._owners: list[tuple[int, bytes] | None] = [None] * layout.places
        ask = Ask(config, part, count, layout, self.workers, None if images is None else str(images[0]), packing, side)
        try:
            self._link, self._process, memory = _started(ask, None if images is None else images[1])
        except OSError as error:
            what = f"{layout.places} batches of {words.size(layout.size // layout.places)} cannot be read by other processes"
            raise ConfigError(f"{self._where}: {what}: {error.strerror or error}.") from error
        self._arrives = select.poll()
        self._arrives.register(self._link, select.POLLIN)
        self._views = layout.views(memory)
        self._ready = False
        self._failed: ConfigError | None = None

    def wait_until_ready(self) -> None:
        """Return when the processes have the data.

        Raises:
            ConfigError: they cannot have it.
            Interrupted: `ending` said so.
        """
        while not self._ready:
            self._take_answer()

    def read(self, index: Tensor, draw: int, ahead: Iterable[tuple[Tensor, int]] = ()) -> tuple[Tensor, Tensor]:
        """Inputs [B, ...] and labels [B, ...] of samples, as they are in a draw; the inputs are others after the next call.

        Args:
            index: int64 numbers [B] of samples, on the CPU.
            draw: an epoch, or `BEFORE_TRAINING`.
            ahead: index and draw of what will be asked for next, of which the first `self.ahead` are begun now; each is a batch at most.

        Raises:
            ConfigError: a sample cannot be read, or is not like the others, or the processes are gone.
            Interrupted: `ending` said so; the samples go on being read, and may be asked for again.
        """
        if self._failed is not None:
            raise self._failed
        if len(index) > self._rows:
            pieces = [[part.clone() for part in self.read(piece, draw)] for piece in torch.split(index, self._rows)]
            return torch.cat([piece[0] for piece in pieces]), torch.cat([piece[1] for piece in pieces])
        wanted = _key(index, draw)
        following = {_key(index, draw): (index, draw) for index, draw in islice(ahead, self.ahead)}
        self._owners = [owner if owner == wanted or owner in following else None for owner in self._owners]
        place = self._begin(index, draw, wanted)
        for key, (samples, of_draw) in following.items():
            if key in self._owners or self._free() is not None:
                self._begin(samples, of_draw, key)
        while self._left[place]:
            self._take_answer()
        self._owners[place] = None  # until the next call, which may have it filled anew
        inputs, labels = (view[: len(index)] for view in self._views[place])
        return inputs, self._checked(labels, index)

    def labels_are(self, dtype: torch.dtype, classes: int | None) -> None:
        """What labels become; with `classes` each of them must be a class number below it, or `IGNORED`."""
        self._labels_are = dtype, classes

    def close(self) -> None:
        """End the processes."""
        self._link.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _begin(self, index: Tensor, draw: int, key: tuple[int, bytes]) -> int:
        """The place into which these samples are read, from now on or already."""
        if key in self._owners:
            return self._owners.index(key)
        while (place := self._free()) is None:
            self._take_answer()
        self._owners[place], self._left[place] = key, len(index)
        samples, each = index.tolist(), min(-(-len(index) // (_TASKS * self.workers)), _MOST_SAMPLES)
        for row in range(0, len(samples), each):
            self._send(Task(place, row, draw, samples[row : row + each]))
        return place

    def _free(self) -> int | None:
        """A place that is nobody's, and into which nobody reads."""
        return next((place for place, owner in enumerate(self._owners) if owner is None and not self._left[place]), None)

    def _send(self, task: Task) -> None:
        try:
            self._link.send(encoded(task))
        except OSError:
            self._find_out()

    def _take_answer(self) -> None:
        while not self._arrives.poll(_ASK_MILLISECONDS):
            if self.ending():
                raise Interrupted
        try:
            message = self._link.recv(LONGEST)
        except OSError:
            message = b""
        if message:
            self._take(answer(message))
        else:
            self._find_out()

    def _take(self, found: Answer) -> None:
        """Raises: ConfigError: it is that something cannot be read."""
        if isinstance(found, Failed):
            self._failed = ConfigError(found.text)
            raise self._failed from (_ThereItWas(found.traceback) if found.traceback else None)
        self._ready = True
        if isinstance(found, Done):
            self._left[found.place] -= found.rows

    def _find_out(self) -> NoReturn:
        """Raises: ConfigError: why nobody is there any more."""
        for _ in range(2):  # a socket of which not all was read says so first, and what had been sent through it comes after that
            with suppress(OSError):
                while message := self._link.recv(LONGEST):
                    self._take(answer(message))
        try:
            how = ended(self._process.wait(_END_SECONDS))
        except subprocess.TimeoutExpired:
            how = "does not answer"
        raise ConfigError(f"{self._where}: the process that reads the samples {how}.")

    def _checked(self, labels: Tensor, index: Tensor) -> Tensor:
        """Raises: ConfigError: a label is no class of the data. A GPU would answer nothing any more after such a one."""
        if self._labels is not None:
            return self._labels[index]
        dtype, classes = self._labels_are
        labels = labels.to(dtype, copy=True)
        wrong = ((labels < 0) & (labels != IGNORED)) | (labels >= classes) if classes is not None else None
        if wrong is not None and bool(wrong.any()):
            row = int(wrong.reshape(len(labels), -1).any(1).int().argmax())
            told = f"{self._where}: {self._part} sample {int(index[row]):,} has the label {int(labels[row][wrong[row]].flatten()[0])}"
            raise ConfigError(f"{told}; the data has {classes} classes, counted from 0.")
        return labels


def _key(index: Tensor, draw: int) -> tuple[int, bytes]:
    return draw, index.numpy().tobytes()


def _started(ask: Ask, names: FileNames | None) -> tuple[socket.socket, subprocess.Popen[bytes], mmap.mmap]:
    """The processes, the socket through which they are asked, and the memory that they write into.

    Raises:
        OSError: there is no memory, or no process can be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, _nameless() as file, _nameless() as listed:
        os.posix_fallocate(file.fileno(), 0, ask.layout.size)
        memory = mmap.mmap(file.fileno(), ask.layout.size)
        if names is not None:
            listed.write(names.packed.numpy().data)
            listed.flush()
        shared = theirs.fileno(), file.fileno(), listed.fileno()
        process = subprocess.Popen(
            [sys.executable, *module_arguments(_PROCESS, *map(str, shared))],
            stdin=subprocess.PIPE,
            stdout=2,  # whatever is printed there is nothing that a script reads
            env=os.environ | {"OMP_NUM_THREADS": "1"},  # threads that were made before a fork are missing after it
            pass_fds=shared,
            start_new_session=True,  # Ctrl+C is for the run, which ends them when it has taken its last step
        )
    assert process.stdin is not None
    with process.stdin, suppress(BrokenPipeError):
        process.stdin.write(msgspec.msgpack.encode(ask))
    return ours, process, memory


def _nameless() -> IO[bytes]:
    """A file in memory that has no name."""
    return os.fdopen(os.memfd_create("tuitrain"), "r+b")

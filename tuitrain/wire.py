"""What processes of ours say to each other.

A group's host and its ranks do so over a socket, each message with its length before it; a trial and a process in the background are
asked on their stdin and answer on their stdout, in JSON.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import msgspec

from tuitrain import events
from tuitrain.config import RunConfig
from tuitrain.events import Event, Request

ADDRESS = "TUITRAIN_GROUP"
"""The environment variable with the path of the host's socket."""

MEETING = "TUITRAIN_MEETING"
"""The environment variable with a word that the ranks started together share with no others."""

LOST_PEER = 75
"""The exit code of a rank that ended because another one had gone."""

AGENT_MODULE, RANK_MODULE = "tuitrain.engine.ranks.agent", "tuitrain.engine.ranks.rank"
"""What the launcher of a group and each of its ranks run."""

_LENGTH = struct.Struct("!I")


class Hello(Event, frozen=True, kw_only=True, tag="hello"):
    """A rank is there and waits for `Begin`."""

    rank: int
    pid: int


class Alive(Event, frozen=True, kw_only=True, tag="alive"):
    """A rank's process still runs: once a second, also while it waits for others."""


class Resolved(Event, frozen=True, kw_only=True, tag="resolved"):
    """What the engine found before `RunStarted`."""

    config: RunConfig
    environment: dict[str, Any]


class Refused(Event, frozen=True, kw_only=True, tag="refused"):
    """The configuration cannot be trained with."""

    text: str


class RankFailed(Event, frozen=True, kw_only=True, tag="rank_failed"):
    """A rank's own mistake, such as too little memory: starting again would not help."""

    rank: int
    step: int
    text: str


class Died(Event, frozen=True, kw_only=True, tag="died"):
    """The launcher says which rank died first. `restart`: the number of the restart that follows, 0 where none does."""

    rank: int
    exitcode: int
    restart: int


class Met(Event, frozen=True, kw_only=True, tag="met"):
    """The launcher has started ranks; those of other machines have their own launcher.

    Attributes:
        pids: process by rank, of this machine's ranks.
    """

    pids: dict[int, int]


class Regroup(Event, frozen=True, kw_only=True, tag="regroup"):
    """The launcher ends its ranks because other machines come or go; `Met` follows when all that are left have met."""

    gone: bool


class Joined(Event, frozen=True, kw_only=True, tag="joined"):
    """The run that this rank is part of is hosted by another process. `folder` is spelled as on the machine `host`."""

    folder: str
    host: str


class Begin(Event, frozen=True, kw_only=True, tag="begin"):
    """What to train. `folder`: the run's, where it began before and goes on now."""

    config: RunConfig
    folder: str | None


class Folder(Event, frozen=True, kw_only=True, tag="folder"):
    """The run folder is made."""

    path: str


class Ask(Event, frozen=True, kw_only=True, tag="ask"):
    """What the run is asked to do."""

    request: Request


class Saving(Event, frozen=True, kw_only=True, tag="saving"):
    """Rank 0 is about to write a checkpoint, its `number`-th, and waits for `Recorded`."""

    number: int


class Recorded(Event, frozen=True, kw_only=True, tag="recorded"):
    """What the host was told before the `number`-th `Saving` is on disk, or cannot be for now."""

    number: int


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a process in the background is to train.

    Attributes:
        runs_dir: as the system spells it.
        resume: the folder of the run that goes on, spelled so too; `None` for a new one.
        heir_of: the pid that hands that run over; it is answered as soon as the run is taken, before torch is loaded.
        paused: the run that is handed over was paused, and stays so.
        queue: the run, which has not begun, is to wait for its turn; it is answered as soon as the run waits.
    """

    config: RunConfig
    runs_dir: bytes
    resume: bytes | None = None
    heir_of: int | None = None
    paused: bool = False
    queue: bool = False


class Checked(Event, frozen=True, kw_only=True, tag="checked"):
    """Nothing speaks against the configuration, as far as that can be told before the run's turn has come."""


class Hosting(Event, frozen=True, kw_only=True, tag="hosting"):
    """A process in the background has made the run its own, and goes on without whoever started it."""

    run: str


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trial measures, or with 0 steps only which devices `config.device` means.

    Attributes:
        steps: how many are counted, after `warmup` that are not.
        seconds: when to stop with fewer, from the first counted step on.
        free: CUDA ordinals, most free memory first.
        folder: for what a run writes at the end of an epoch; the one that asks deletes it.
    """

    config: RunConfig
    folder: str
    steps: int
    warmup: int
    seconds: float
    free: tuple[int, ...] = ()


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a trial. `error` is one sentence, and `refused` says that the configuration is at fault.

    Attributes:
        devices: one for each replica.
        gpus: how many torch can use.
        step_seconds: the median of the counted steps that had a whole batch.
        seconds: all counted steps together.
        memory: the peak of torch's tensors on each replica's device, in bytes; `None` on the CPU.
        largest: the largest batch that fits; `None` where nobody looked.
        largest_by: "memory" where a larger one does not fit, "data" where there are no more samples, "time" where the search ended early.
    """

    devices: tuple[str, ...] = ()
    gpus: int = 0
    data: str = ""
    batch: int = 0
    steps: int = 0
    step_seconds: float | None = None
    seconds: float | None = None
    memory: tuple[int | None, ...] = ()
    largest: int | None = None
    largest_by: str | None = None
    error: str | None = None
    refused: bool = False

    @property
    def samples_per_second(self) -> float | None:
        """With the median step."""
        return self.batch / self.step_seconds if self.step_seconds else None


@cache
def _decoder() -> msgspec.msgpack.Decoder[Event]:
    kinds: tuple[type[Event], ...] = (
        *(events.RunStarted, events.Replicas, events.ReplicaStats, events.Step, events.Losses, events.Eval, events.Checkpoint),
        *(events.Notice, events.State, events.RunEnded, events.Progress, events.Parameters, events.Predictions, events.TensorMemory),
        *(events.StepTimes, events.Clock, events.Stays),
        *(Hello, Alive, Resolved, Refused, RankFailed, Died, Met, Regroup, Joined, Begin, Folder, Ask, Saving, Recorded),
    )
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union |= kind
    return msgspec.msgpack.Decoder(union)


def pack(message: Event) -> bytes:
    """The bytes of one message."""
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


class Unpacker:
    """Puts messages together from bytes that come in pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, piece: bytes) -> list[Event]:
        """The messages that are complete now.

        Raises:
            msgspec.DecodeError: these are no messages.
        """
        self._bytes += piece
        found = []
        while len(self._bytes) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._bytes)[0]
            if len(self._bytes) < end:
                break
            found.append(_decoder().decode(bytes(self._bytes[_LENGTH.size : end])))
            del self._bytes[:end]
        return found

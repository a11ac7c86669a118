"""One rank's part in a run, whoever started the ranks: the same events for the host of rank 0, and for the others how it went."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Literal

import msgspec
import torch
import torch.distributed as dist

from tuitrain.config import FIELDS, ConfigError, RunConfig
from tuitrain.engine.control import Control
from tuitrain.engine.failures import nccl_error, reaching
from tuitrain.engine.group import Group, is_lost_peer
from tuitrain.engine.ranks.rendezvous import PATIENCE, find_store, wait_for_all
from tuitrain.engine.train import train
from tuitrain.events import EndState, Event, RunEnded, RunStarted
from tuitrain.text import clean
from tuitrain.wire import Joined

_LAST_WORDS = "last words"
_WORDS_COME_WITHIN = timedelta(seconds=2)
"""NCCL ends the connections of a rank in which it fails before that rank hears of it."""
_OF_EACH_MACHINE = {"device", "data", "name", "note", "on_end", "rdzv_endpoint", "max_restarts"}
"""Fields in which the ranks may differ; what `data` led to is compared when it is loaded."""


class LastWords(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rank leaves before the others, for those that find it gone."""

    state: EndState | Literal["refused"]
    text: str | None = None


class World:
    """This process as one of the ranks. Made when all of them are there.

    Args:
        config: its `device` names those of this machine, one for each of its ranks.
        control: the host's side; on other ranks than 0 only its requests count.
        device: this rank's own.

    Raises:
        ConfigError: this rank's GPU or network interface cannot be used, some ranks have GPUs and some have not, or there is no place to
            meet.
        Interrupted: this rank or another one was asked to end before all were there.
    """

    def __init__(self, config: RunConfig, control: Control, device: torch.device) -> None:
        self._config, self._control = config, control
        _check_interfaces()
        if device.type == "cuda":
            with reaching([device]):
                torch.cuda.set_device(device)
        self._store, rank, size = find_store(self._ending)
        _check_kinds(wait_for_all(self._store, rank, size, device.type, self._ending))
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=self._store, rank=rank, world_size=size, timeout=PATIENCE)
        self.group = Group(device, partial(control.take, wait=False))

    def events(self) -> Iterator[Event]:
        """What `train` says, on rank 0; on the others `Joined`, and at the end how the run ended.

        Raises:
            ConfigError: the run cannot begin, as this rank or another one found out.
            RuntimeError: another rank has gone without a word; see `is_lost_peer`.
        """
        try:
            self.group.must_agree({field: str(getattr(self._config, field)) for field in FIELDS if field not in _OF_EACH_MACHINE})
            for event in train(self._config, self._control, group=self.group):
                yield from self._told(event)
        except ConfigError as error:
            self._leave(LastWords(state="refused", text=str(error)))
            raise
        except Exception as error:
            words = self._found(early=nccl_error(error) is not None) if is_lost_peer(error) else None
            if words is None:
                raise
            if words.state == "refused":
                raise ConfigError(words.text) from None
            yield RunEnded(state=words.state, step=0, error=words.text)

    def _told(self, event: Event) -> Iterator[Event]:
        leads = self.group.leads
        if isinstance(event, RunEnded) and event.state != "finished":
            if event.error is not None and not leads:
                event = msgspec.structs.replace(event, error=f"{self.name}: {event.error}")
            self._leave(LastWords(state=event.state, text=event.error))
        if leads or isinstance(event, RunEnded):
            yield event
        if isinstance(event, RunStarted):
            folder, host = self.group.share((str(self._control.folder), self.group.hosts[0]))
            if not leads:
                yield Joined(folder=folder, host=host)

    @property
    def name(self) -> str:
        """What a person calls this rank."""
        return f"rank {self.group.rank} ({self.group.devices[self.group.rank]})"

    def _ending(self) -> bool:
        return self._control.ending

    def _leave(self, words: LastWords) -> None:
        """Once: the first reason is the one that counts."""
        with suppress(RuntimeError):  # the store's keeper has gone, and with it those that could read
            self._store.compare_set(_LAST_WORDS, "", msgspec.json.encode(words).decode())

    def _found(self, *, early: bool) -> LastWords | None:
        """Why another rank has gone; `early`: it may be about to say so."""
        with suppress(RuntimeError):
            if early:
                self._store.wait([_LAST_WORDS], _WORDS_COME_WITHIN)
            if self._store.check([_LAST_WORDS]):
                return msgspec.json.decode(self._store.get(_LAST_WORDS), type=LastWords)
        return None


def _check_interfaces() -> None:
    """Raises: ConfigError: gloo is to talk over an interface that this machine has not, as where a profile sets it for another one."""
    with suppress(OSError):  # nobody may list them
        here = [name for _, name in socket.if_nameindex()]
        for name in filter(None, os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")):
            if name not in here:
                told = f"GLOO_SOCKET_IFNAME: {clean(name)!r} is no network interface of this machine"
                raise ConfigError(f"{told}; it must be one of {', '.join(here)}, or not be set.")


def _check_kinds(kinds: Sequence[str]) -> None:
    """Ranks on GPUs and ranks on the CPU would wait for each other in different process groups."""
    if len(set(kinds)) > 1:
        other = next(other for other, kind in enumerate(kinds) if kind != kinds[0])
        where = f"rank 0 is on {kinds[0]} and rank {other} on {kinds[other]}"
        raise ConfigError(f"device: {where}; ddp takes either GPUs or the CPU on all machines.")

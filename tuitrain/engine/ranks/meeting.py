"""Where the launchers of one run meet: torch's dynamic rendezvous, over a store that the launcher of the run's host keeps.

One machine is a meeting of one. Of several, the one that the endpoint names keeps the store and has rank 0, however they come and go.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import cast

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.rendezvous import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from torch.distributed.elastic.rendezvous.api import RendezvousConnectionError, RendezvousTimeoutError
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout

from tuitrain.engine.ranks.interfaces import is_here, own_address_towards
from tuitrain.wire import MEETING

JOIN_SECONDS = 600
LAST_CALL_SECONDS = 10
"""How long a meeting that has enough machines waits for more."""
_ANSWER = timedelta(seconds=30)
_NAME = "tuitrain"


class Meeting(RendezvousHandler):
    """Torch's rendezvous, with the host of the run first, and machines that are gone noticed.

    Args:
        host, port: the endpoint; with port 0 any free one.
        least, most: how many machines.
        regroup: told, before it begins, that the meeting is called again: whether because a machine is gone.

    Attributes:
        keeps_store: this launcher's machine hosts the run.
        machines: how many have met.

    Raises:
        OSError: the host's name stands for no address.
        RendezvousTimeoutError: nobody keeps a store there.
    """

    def __init__(self, host: str, port: int, least: int, most: int, regroup: Callable[[bool], None]) -> None:
        self._host, self._port = host, port
        self._least, self._most = least, most
        self._regroup = regroup
        self.machines = 0
        # Torch's own way to share a store would name it by the word that sorts the machines, and keep it when its machine is gone.
        os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        self._open(may_keep=is_here(host))

    def _open(self, *, may_keep: bool) -> None:
        self._store, self.keeps_store = _store_at(self._host, self._port, may_keep)
        # The smallest name gets rank 0.
        name = f"{0 if self.keeps_store else 1} {own_address_towards(self._host)}"
        timeout = RendezvousTimeout(join=timedelta(seconds=JOIN_SECONDS), last_call=timedelta(seconds=LAST_CALL_SECONDS))
        self._torchs = DynamicRendezvousHandler.from_backend(
            _NAME, self._store, C10dRendezvousBackend(self._store, _NAME), self._least, self._most, local_addr=name, timeout=timeout
        )

    def next_rendezvous(self) -> RendezvousInfo:
        """Meet; `MEETING` in the environment is then a word that only the ranks of this meeting share."""
        try:
            met = self._torchs.next_rendezvous()
        except RendezvousConnectionError:
            if self.keeps_store:
                raise
            # The host of the run may come back.
            self._open(may_keep=False)
            met = self._torchs.next_rendezvous()
        self.machines = met.world_size
        if met.rank == 0:
            met.store.set("meeting", uuid.uuid4().hex)
        os.environ[MEETING] = met.store.get("meeting").decode()
        return RendezvousInfo(met.store, met.rank, met.world_size, RendezvousStoreInfo(self._host, self._store.port))

    def num_nodes_waiting(self) -> int:
        """How many machines make a new meeting necessary, those that are gone included."""
        if self._most == 1:
            # After a while of standing still, as a suspended job does, torch takes even its own machine for gone.
            return 0
        waiting = cast(int, self._torchs.num_nodes_waiting())
        # Torch takes out of its state whom it has not heard of for 15 s, and tells nobody.
        gone = max(self.machines - len(self._torchs._state_holder.state.participants), 0)
        if waiting or gone:
            self._regroup(gone > 0)
        return waiting + gone

    @property
    def use_agent_store(self) -> bool:
        """Ranks meet at the same store."""
        return True

    def get_backend(self) -> str:
        """As torch says."""
        return cast(str, self._torchs.get_backend())

    def get_run_id(self) -> str:
        """As torch says."""
        return cast(str, self._torchs.get_run_id())

    def is_closed(self) -> bool:
        """As torch says."""
        return cast(bool, self._torchs.is_closed())

    def set_closed(self) -> None:
        """As torch says."""
        self._torchs.set_closed()

    def shutdown(self) -> bool:
        """As torch says."""
        return cast(bool, self._torchs.shutdown())


def _store_at(host: str, port: int, may_keep: bool) -> tuple[TCPStore, bool]:
    """The store at an endpoint, and whether it is kept here."""
    if may_keep:
        try:
            return TCPStore(host, port, is_master=True, timeout=_ANSWER), True
        except RuntimeError:
            pass  # another launcher on this machine keeps it
    end = time.monotonic() + JOIN_SECONDS
    while True:
        try:
            return TCPStore(host, port, is_master=False, timeout=_ANSWER), False
        except RuntimeError as error:  # torch's network and time-out errors are such
            if time.monotonic() > end:
                raise RendezvousTimeoutError from error

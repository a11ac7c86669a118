"""Where the ranks of a run find each other. Both waits end when a rank is asked to: the others may come late, or never."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import timedelta

from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore

from tuitrain.config import ConfigError
from tuitrain.engine.control import Interrupted
from tuitrain.engine.failures import first_line
from tuitrain.wire import MEETING

# Longer than any evaluation or save of rank 0, for which the others wait. Whoever hangs is seen by the host.
PATIENCE = timedelta(days=1)
_LOOK_SECONDS = 0.1
_OUTCOME, _ALL_HERE, _CALLED_OFF = "outcome", "all here", "called off"


def find_store(ending: Callable[[], bool]) -> tuple[Store, int, int]:
    """What the ranks share from the first, with this one's number and how many there are.

    Raises:
        ConfigError: this rank is to keep it, and cannot.
        Interrupted: `ending` said so before it was found.
    """
    store: Future[Store] = Future()

    def connect() -> None:
        try:
            store.set_result(_connected())
        except Exception as error:
            store.set_exception(error)

    # Torch does not come back before it has reached somebody.
    threading.Thread(target=connect, name="tuitrain-rendezvous", daemon=True).start()
    while not wait((store,), _LOOK_SECONDS).done:
        if ending():
            raise Interrupted
    return store.result(), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def wait_for_all(store: Store, rank: int, size: int, word: str, ending: Callable[[], bool]) -> list[str]:
    """Each rank's `word`, when all of them are there.

    Raises:
        Interrupted: `ending` said so before they were, here or on another rank; none of them goes on then.
    """
    store.set(f"word {rank}", word)
    words = [f"word {other}" for other in range(size)]
    while not store.check([_OUTCOME]):
        outcome = _ALL_HERE if store.check(words) else _CALLED_OFF if ending() else None
        if outcome is not None:
            # The first one decides: one rank must not go on to wait for another that leaves.
            store.compare_set(_OUTCOME, "", outcome)
        else:
            time.sleep(_LOOK_SECONDS)
    if store.get(_OUTCOME).decode() == _CALLED_OFF:
        raise Interrupted
    return [found.decode() for found in store.multi_get(words)]


def _connected() -> Store:
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if MEETING in os.environ:
        return PrefixStore(os.environ[MEETING], TCPStore(host, port, is_master=False, timeout=PATIENCE))
    keeps = os.environ["RANK"] == "0" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
    try:
        store = TCPStore(host, port, is_master=keeps, timeout=PATIENCE, wait_for_workers=False)
    # In torch 2.6 a plain one; DistNetworkError, in later ones, is a kind of it.
    except RuntimeError as error:
        if not keeps:
            raise
        reason = "is in use on this machine" if "EADDRINUSE" in str(error) else f"cannot be listened on: {first_line(error)}"
        raise ConfigError(f"MASTER_PORT: {port} {reason}; it must be a free port of rank 0's machine, the same for all ranks.") from None
    # The launcher's store outlives the ranks: each start has keys of its own, or it would find the addresses of ranks that have died.
    return PrefixStore(f"start {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)

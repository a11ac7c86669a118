"""The memory split of the cards that the app's own run uses: torch's numbers from the run's events beside the driver's from the sampler."""

from __future__ import annotations

import os
import time

from tuitrain.devices.samples import DeviceSample, DeviceSnapshot
from tuitrain.devices.split import MemorySplit, OwnMemory, guess_context, split_memory
from tuitrain.events import TensorMemory
from tuitrain.tui.run_view import RunLike

_IMPORTING = "importing torch"


class OwnCards:
    """Splits a card's memory while the run trains.

    Where the driver does not list this process, the CUDA context is estimated once for each card and kept: this process has it until it
    ends, and what other processes take later is not mistaken for it.
    """

    def __init__(self, run: RunLike) -> None:
        self._run = run
        self._before: dict[str, int] = {}
        """Bytes used on each card before anything of ours was on it."""
        self._context: dict[str, int] = {}
        self._touched = False

    @property
    def training(self) -> bool:
        """Whether a run of this process is at work."""
        return self._run.alive

    def note(self, snapshot: DeviceSnapshot) -> None:
        """Take in a new sample, about once a second."""
        record = self._run.record
        preparing = record is None or (record.started is None and (record.phase is None or record.phase.phase == _IMPORTING))
        self._touched |= not preparing
        for card in snapshot.devices:
            if card.memory_used is None:
                continue
            if not self._touched:
                self._before[card.key] = card.memory_used
            elif card.key not in self._context:
                self._guess(card, card.memory_used, snapshot)

    def of(self, card: DeviceSample) -> MemorySplit | None:
        """How its memory is split now; `None` where no run of this process trains on it, or nobody knows."""
        held = self._held(card)
        if held is None:
            return None
        own = OwnMemory(allocated=held.allocated, reserved=held.reserved)
        return split_memory(card, own, os.getpid(), self._context.get(card.key))

    def _held(self, card: DeviceSample) -> TensorMemory | None:
        record = self._run.record
        if record is None or not self._run.alive:
            return None
        return next((event for event in record.tensor_memory.values() if _is_on(event, card)), None)

    def _guess(self, card: DeviceSample, used: int, snapshot: DeviceSnapshot) -> None:
        held, before = self._held(card), self._before.get(card.key)
        if held is None or before is None or snapshot.taken is None:
            return
        # A sample from before the run's tensors came would make the context nothing.
        if time.time() - (time.monotonic() - snapshot.taken) > held.time:
            self._context[card.key] = guess_context(used, before, held.reserved)


def _is_on(event: TensorMemory, card: DeviceSample) -> bool:
    """Whether torch's device is this card; torch writes a MIG instance's UUID as it writes a card's."""
    if event.uuid is not None and card.uuid is not None:
        return event.uuid.partition("-")[2] == card.uuid.partition("-")[2]
    return card.cuda_index is not None and event.device == f"cuda:{card.cuda_index}"

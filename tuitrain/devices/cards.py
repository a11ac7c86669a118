"""All cards, once a round: keeps the connection to NVML alive, remembers which card is which, and says what is wrong with whom."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from tuitrain.devices import nvml
from tuitrain.devices.card import Handle, card_reason, card_status, open_card, read_card
from tuitrain.devices.nvml import Nvml, NvmlFault
from tuitrain.devices.processes import ProcessNames
from tuitrain.devices.samples import CardsSample, DeviceSample, Status
from tuitrain.devices.visible import with_cuda_indexes

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0

# A card that says one of these may come back, but only to a newly initialised NVML.
_NEEDS_NEW_START: tuple[Status, ...] = ("lost", "reset required", "unknown error")


class CardReader:
    """Reads all cards; belongs to the one thread that calls NVML.

    Args:
        connection: the connection to use, not connected yet.
        environ: where CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER are looked up, each round.
    """

    def __init__(self, connection: Nvml, environ: Mapping[str, str] = os.environ) -> None:
        self._nvml = connection
        self._environ = environ
        self._names = ProcessNames()
        self._connected = False
        self._driver: str | None = None
        self._handles: dict[int, Handle] = {}
        self._known: tuple[DeviceSample, ...] = ()
        self._error: str | None = None
        self._retry_at = 0.0
        self._retry_after = FIRST_RETRY_SECONDS

    def sample(self) -> CardsSample:
        """One round. What a driver does is never raised; NVML is started anew, with growing pauses, where it or a card does not answer."""
        try:
            self._start()
            if self._connected:
                self._known, self._error = self._read_all()
        except NvmlFault as fault:
            self._lose(fault)
        return CardsSample(devices=self._known, driver_version=self._driver, error=self._error)

    def close(self) -> None:
        """Give the connection back."""
        if self._connected:
            self._nvml.disconnect()
            self._connected = False

    def _start(self) -> None:
        """Connect where that is due."""
        wanted = not self._connected or any(card.status in _NEEDS_NEW_START for card in self._known)
        if not wanted:
            self._retry_after = FIRST_RETRY_SECONDS
            return
        now = time.monotonic()
        if now < self._retry_at:
            return
        self._retry_at = now + self._retry_after
        self._retry_after = min(2 * self._retry_after, LAST_RETRY_SECONDS)
        self.close()
        self._handles.clear()
        self._nvml.connect()
        self._connected = True
        try:
            self._driver = nvml.text(self._nvml.ask("nvmlSystemGetDriverVersion"))
        except NvmlFault:
            self._driver = None

    def _read_all(self) -> tuple[tuple[DeviceSample, ...], str | None]:
        count = self._nvml.ask("nvmlDeviceGetCount")
        cards = [self._read(index) for index in range(count)]
        self._names.forget_others({process.pid for card in cards for process in card.processes or ()})
        error = None
        if not cards:
            error = "the NVIDIA driver is loaded and finds no GPU"
        elif all(card.status == "unknown error" for card in cards):
            error = nvml.sentence(nvml.UNKNOWN)
        return with_cuda_indexes(cards, self._environ), error

    def _read(self, index: int) -> DeviceSample:
        handle = self._handles.get(index)
        if handle is None:
            try:
                handle = self._handles[index] = open_card(self._nvml, index)
            except NvmlFault as fault:
                return self._without_values(index, card_status(fault.code))
        card = read_card(self._nvml, handle, self._names)
        return card if card.status == "ok" else self._without_values(index, card.status)

    def _without_values(self, index: int, status: Status) -> DeviceSample:
        """The card as it was last known, for a round in which it says nothing."""
        reason = card_reason(status, index)
        if handle := self._handles.get(index):
            return handle.card(status, reason)
        known = next((card for card in self._known if card.nvml_index == index), DeviceSample(nvml_index=index))
        return _emptied(known, status, reason)

    def _lose(self, fault: NvmlFault) -> None:
        """NVML as a whole failed: the connection is given up, and the cards stay listed by name."""
        if self._connected:
            self.close()
            self._retry_at = time.monotonic() + self._retry_after
        self._handles.clear()
        self._driver = None
        self._error = nvml.sentence(fault.code)
        status = card_status(fault.code)
        self._known = tuple(_emptied(card, status, self._error) for card in self._known)


def _emptied(card: DeviceSample, status: Status, reason: str) -> DeviceSample:
    return DeviceSample(
        nvml_index=card.nvml_index,
        cuda_index=card.cuda_index,
        uuid=card.uuid,
        pci_bus_id=card.pci_bus_id,
        name=card.name,
        status=status,
        reason=reason,
    )

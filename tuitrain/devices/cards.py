"""All cards, once a round: keeps the connection to NVML alive, remembers which card is which, and says what is wrong with whom."""

from __future__ import annotations

import os
import time

from tuitrain.devices import nvml
from tuitrain.devices.card import Card, open_card
from tuitrain.devices.nvml import Nvml, NvmlFault
from tuitrain.devices.processes import ProcessTable
from tuitrain.devices.questions import card_reason, card_status
from tuitrain.devices.samples import CardsSample, DeviceSample, Status
from tuitrain.devices.traffic import GLANCE_SECONDS
from tuitrain.devices.visible import with_cuda_indexes
from tuitrain.text import clean

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0

# A card that says one of these may come back, but only to a newly initialised NVML.
_NEEDS_NEW_START: tuple[Status, ...] = ("lost", "reset required", "not responding", "unknown error")


class CardReader:
    """Reads all cards; belongs to the one thread that calls NVML.

    Args:
        connection: the connection to use, not connected yet.
        proc: where the kernel's process files are.
    """

    def __init__(self, connection: Nvml, proc: str = "/proc") -> None:
        self._nvml = connection
        self._table = ProcessTable(proc)
        self._connected = False
        self._driver: str | None = None
        self._cuda: str | None = None
        self._cards: dict[int, Card] = {}
        self._known: tuple[DeviceSample, ...] = ()
        self._error: str | None = None
        self._retry_at = 0.0
        self._retry_after = FIRST_RETRY_SECONDS

    def glance(self) -> float:
        """Look at what counts so fast that two rounds alone do not tell its rate; in how many seconds the next round is to follow."""
        try:
            looked = [card.glance() for card in self._cards.values()]
        except Exception:  # whatever it is, the round that follows at once says it
            return 0.0
        return GLANCE_SECONDS if any(looked) else 0.0

    def sample(self) -> CardsSample:
        """One round. What a driver does is never raised; NVML is started anew, with growing pauses, where it or a card does not answer."""
        try:
            self._start()
            if self._connected:
                self._known, self._error = self._read_all()
        except NvmlFault as fault:
            self._lose(fault)
        except Exception as error:
            # A driver or a binding that answers in an unforeseen way must not end the monitor, nor be hidden by it until the next try.
            self._error = f"reading the GPUs failed ({type(error).__name__}: {clean(str(error))})"
        return CardsSample(devices=self._known, driver_version=self._driver, cuda_version=self._cuda, error=self._error)

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
        self._cards.clear()
        self._nvml.connect()
        self._connected = True
        self._driver, self._cuda = self._nvml.driver_version, self._newest_cuda()

    def _newest_cuda(self) -> str | None:
        """The newest one that the driver speaks."""
        for function in ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"):
            try:
                number = self._nvml.ask(function)
            except NvmlFault:
                continue
            return f"{number // 1000}.{number % 1000 // 10}" if number > 0 else None
        return None

    def _read_all(self) -> tuple[tuple[DeviceSample, ...], str | None]:
        for card in self._cards.values():
            card.count()
        count = self._nvml.ask("nvmlDeviceGetCount")
        rows = [row for index in range(count) for row in self._read(index)]
        self._table.end_round()
        error = None
        if not rows:
            error = "the NVIDIA driver is loaded and finds no GPU"
        elif all(row.status == "unknown error" for row in rows):
            error = nvml.sentence(nvml.UNKNOWN)
        return with_cuda_indexes(rows, os.environ), error

    def _read(self, index: int) -> tuple[DeviceSample, ...]:
        """The card's row and those of its MIG instances."""
        card = self._cards.get(index)
        if card is None:
            try:
                card = self._cards[index] = Card(self._nvml, open_card(self._nvml, index))
            except NvmlFault as fault:
                return self._silent(DeviceSample(nvml_index=index, status=card_status(fault.code)))
        rows = card.read(self._table)
        return rows if rows[0].status == "ok" else self._silent(rows[0])

    def _silent(self, row: DeviceSample) -> tuple[DeviceSample, ...]:
        """A card in a round in which it says nothing: as it was last known, with its instances, and without values."""
        known = [card for card in self._known if card.nvml_index == row.nvml_index]
        if row.uuid is not None or not known:
            known = [row, *(card for card in known if card.instance is not None)]
        reason = card_reason(row.status, row.nvml_index)
        return tuple(_emptied(card, row.status, reason) for card in known)

    def _lose(self, fault: NvmlFault) -> None:
        """NVML as a whole failed: the connection is given up, and the cards stay listed by name."""
        if self._connected:
            self.close()
            self._retry_at = time.monotonic() + self._retry_after
        self._cards.clear()
        self._driver = self._cuda = None
        self._error = nvml.sentence(fault.code)
        status = card_status(fault.code)
        if status == "unknown error" and fault.code != nvml.UNKNOWN:
            # The driver is not loaded, or of another version than its library: no card said anything.
            status = "not responding"
        self._known = tuple(_emptied(card, status, self._error) for card in self._known)


def _emptied(card: DeviceSample, status: Status, reason: str) -> DeviceSample:
    return DeviceSample(
        nvml_index=card.nvml_index,
        cuda_index=card.cuda_index,
        uuid=card.uuid,
        parent=card.parent,
        instance=card.instance,
        pci_bus_id=card.pci_bus_id,
        name=card.name,
        status=status,
        reason=reason,
    )

"""The sampler: one thread that asks NVML once a second and one that looks at CPU and RAM, and what they saw for whoever asks.

NVML calls can hang for ever, so all of them happen on one daemon thread that nobody waits for; everything here answers at once, also
while that thread hangs, and says for how long it has been hanging.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from tuitrain.devices.host import HostReader
from tuitrain.devices.inventory import CPU
from tuitrain.devices.nvml import Nvml
from tuitrain.devices.samples import CardsSample, DeviceSample, DeviceSnapshot, HistoryPoint

if TYPE_CHECKING:
    from tuitrain.devices.cards import CardReader

HISTORY_SECONDS = 3600
STALL_SECONDS = 3.0
"""From here on a call in progress is said to hang: soon enough to show within 5 s, and longer than a driver takes to wake its cards."""
WAKE_SECONDS = 40.0
"""How long the first answer may take where no call hangs: without persistence mode each card that nobody uses takes 1 to 3 s to wake."""
JOIN_SECONDS = 0.2

Listener = Callable[[DeviceSnapshot], None]

_log = logging.getLogger(__name__)


class Sampler:
    """What the devices do, once a second. Every method may be called from any thread and none of them waits for NVML.

    Args:
        interval: seconds between two samples; the beat is fixed, and beats that a slow driver misses are left out.
    """

    def __init__(self, *, interval: float = 1.0) -> None:
        self._interval = interval
        self._nvml = Nvml()
        self._host_reader = HostReader()
        # Guards what follows; held for moments only, never across a call that can block.
        self._lock = threading.Lock()
        self._cards = CardsSample(devices=(), driver_version=None, error=None)
        self._taken: float | None = None
        self._host = self._host_reader.at_once()
        self._history: dict[str, deque[HistoryPoint]] = {}
        self._listeners: list[Listener] = []
        self._answered = threading.Event()
        self._host_answered = threading.Event()
        self._stop = threading.Event()
        self._threads = (
            threading.Thread(target=self._run_cards, name="nvml-sampler", daemon=True),
            threading.Thread(target=self._run_host, name="host-sampler", daemon=True),
        )

    def start(self) -> None:
        """Start both threads. The first answers come a few hundredths of a second later, and `latest` tells what is known until then."""
        for thread in self._threads:
            thread.start()

    def latest(self) -> DeviceSnapshot:
        """What is known now. While an NVML call hangs, the cards are the last known ones with status "not responding"."""
        stalled = self._nvml.waiting_seconds()
        with self._lock:
            cards, taken, host = self._cards, self._taken, self._host
        snapshot = DeviceSnapshot(
            time=time.time(),
            taken=taken,
            devices=cards.devices,
            host=host,
            driver_version=cards.driver_version,
            cuda_version=cards.cuda_version,
            error=cards.error,
            stalled_seconds=0.0,
        )
        if stalled < STALL_SECONDS:
            return snapshot
        sentence = f"NVML not responding for {stalled:.0f} s"
        devices = tuple(msgspec.structs.replace(card, status="not responding", reason=sentence) for card in cards.devices)
        return msgspec.structs.replace(snapshot, devices=devices, error=sentence, stalled_seconds=stalled)

    def wait(self, timeout: float) -> DeviceSnapshot:
        """`latest`, after the first answer about the cards (which may be that there are none) and the host.

        Without an answer it comes when one call has taken `timeout` seconds, and all of them together `WAKE_SECONDS`.
        """
        began = time.monotonic()
        while not self._answered.is_set():
            left = min(timeout - self._nvml.waiting_seconds(), began + WAKE_SECONDS - time.monotonic())
            if left <= 0:
                break
            self._answered.wait(left)
        self._host_answered.wait(max(0.0, began + timeout - time.monotonic()))
        return self.latest()

    def history(self, key: str, seconds: float = HISTORY_SECONDS) -> tuple[HistoryPoint, ...]:
        """The last `seconds` (at most an hour) of the card with that `DeviceSample.key`, or of "cpu", oldest first."""
        count = int(seconds / self._interval)
        with self._lock:
            newest = tuple(islice(reversed(self._history.get(key, ())), count))
        return newest[::-1]

    def subscribe(self, listener: Listener) -> None:
        """Have `listener` called with each new sample of the cards, on the sampler's thread. It must not block.

        None comes while a call hangs: a screen looks at `latest` on its own beat.
        """
        with self._lock:
            self._listeners.append(listener)

    def stop(self) -> None:
        """End the threads, waiting at most 0.2 s in all; a thread inside a hanging driver call is left behind and ends with the process."""
        self._stop.set()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))

    def _run_cards(self) -> None:
        # Read here, beside the first frame and not before it.
        from tuitrain.devices.cards import CardReader

        reader = CardReader(self._nvml)
        self._every_beat(lambda: self._sample_cards(reader))
        reader.close()

    def _run_host(self) -> None:
        self._every_beat(self._sample_host)

    def _every_beat(self, sample: Callable[[], None]) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            sample()
            late = time.monotonic() - due
            due += self._interval * (1 + late // self._interval)
            self._stop.wait(due - time.monotonic())

    def _sample_cards(self, reader: CardReader) -> None:
        self._stop.wait(reader.glance())
        cards = reader.sample()
        now = time.time()
        with self._lock:
            self._cards, self._taken = cards, time.monotonic()
            for card in cards.devices:
                self._remember(card.key, _card_point(card, now))
            listeners = tuple(self._listeners)
        self._answered.set()
        if not listeners:
            return
        snapshot = self.latest()
        for listener in listeners:
            try:
                listener(snapshot)
            except Exception:
                _log.exception("a listener of the device sampler failed")

    def _sample_host(self) -> None:
        host = self._host_reader.read()
        point = HistoryPoint(time=time.time(), utilization=host.cpu_percent, memory_used=host.ram_used, power=None, temperature=None)
        with self._lock:
            self._host = host
            self._remember(CPU, point)
        self._host_answered.set()

    def _remember(self, key: str, point: HistoryPoint) -> None:
        self._history.setdefault(key, deque(maxlen=HISTORY_SECONDS)).append(point)


def _card_point(card: DeviceSample, now: float) -> HistoryPoint:
    return HistoryPoint(
        time=now, utilization=card.utilization, memory_used=card.memory_used, power=card.power, temperature=card.temperature
    )

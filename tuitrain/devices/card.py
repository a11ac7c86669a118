"""One card and its MIG instances: which they are, and what they say in one round."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from tuitrain.devices import fields, nvml
from tuitrain.devices.nvml import Nvml, NvmlFault
from tuitrain.devices.processes import ProcessTable, listed
from tuitrain.devices.questions import Questions, card_reason
from tuitrain.devices.samples import UNNAMED, DeviceSample, Link, ProcessSample, Status
from tuitrain.devices.traffic import Traffic, TrafficReader

STEADY_SECONDS = 5.0
"""How long an answer holds that hardly ever changes."""

_MOST_INSTANCES = 64
"""Cards have 7; a driver that says some other number for "not available" is not asked that often."""


class Handle(msgspec.Struct, frozen=True, kw_only=True):
    """NVML's handle of a card or an instance, and what never changes about it."""

    handle: Any
    index: int
    name: str
    uuid: str | None
    pci_bus_id: str | None
    parent: str | None = None
    instance: int | None = None

    def sample(self, status: Status, **values: Any) -> DeviceSample:
        """The card with these values."""
        return DeviceSample(
            nvml_index=self.index,
            uuid=self.uuid,
            parent=self.parent,
            instance=self.instance,
            pci_bus_id=self.pci_bus_id,
            name=self.name,
            status=status,
            **values,
        )


def open_card(connection: Nvml, index: int) -> Handle:
    """Find the card with NVML's number `index`.

    Raises:
        NvmlFault: this process may not, or the card is gone.
    """
    handle = connection.ask("nvmlDeviceGetHandleByIndex", index)
    ask = Questions(connection, handle)
    (name, uuid), pci = _name_and_uuid(ask, UNNAMED), ask("nvmlDeviceGetPciInfo")
    return Handle(
        handle=handle,
        index=index,
        name=name,
        uuid=uuid,
        pci_bus_id=nvml.text(pci.busId) if pci and pci.busId else None,
    )


def _open_instances(connection: Nvml, ask: Questions, card: Handle) -> tuple[Handle, ...]:
    """The MIG instances of a card. NVML numbers places for them, of which some may be empty."""
    found = []
    for place in range(min(ask("nvmlDeviceGetMaxMigDeviceCount") or 0, _MOST_INSTANCES)):
        try:
            handle = connection.ask("nvmlDeviceGetMigDeviceHandleByIndex", card.handle, place)
        except NvmlFault:
            continue
        name, uuid = _name_and_uuid(Questions(connection, handle), f"{card.name} MIG")
        instance = Handle(
            handle=handle,
            index=card.index,
            name=name,
            uuid=uuid,
            pci_bus_id=card.pci_bus_id,
            parent=card.uuid,
            instance=place,
        )
        found.append(instance)
    return tuple(found)


def _name_and_uuid(ask: Questions, unnamed: str) -> tuple[str, str | None]:
    name, uuid = ask("nvmlDeviceGetName"), ask("nvmlDeviceGetUUID")
    return nvml.text(name) if name else unnamed, nvml.text(uuid) if uuid else None


class Card:
    """An open card. What hardly ever changes is asked again every `STEADY_SECONDS`, all else in each round."""

    def __init__(self, connection: Nvml, handle: Handle) -> None:
        self.handle = handle
        self._nvml = connection
        self._steady = fields.Steady()
        self._instances: tuple[Handle, ...] = ()
        self._steady_until: float | None = None
        self._traffic = TrafficReader()
        self._counted: Traffic | None = None

    def glance(self) -> bool:
        """Look at what counts fast, shortly before the next round; whether there is anything that does."""
        return self._traffic.glance(Questions(self._nvml, self.handle.handle))

    def count(self) -> None:
        """Read the counters for this round, before all else: all cards' stand in it as soon after the glance."""
        self._counted = self._traffic.read(Questions(self._nvml, self.handle.handle))

    def read(self, table: ProcessTable) -> tuple[DeviceSample, ...]:
        """The card and its instances. A card whose `status` is not "ok" stands alone, without values."""
        ask = Questions(self._nvml, self.handle.handle)
        self._ask_steady(ask)
        card = self._sample(ask, table)
        if card.status != "ok":
            self._steady_until = None
            return (self.handle.sample(card.status),)
        return (card, *(self._instance(instance, table) for instance in self._instances))

    def _ask_steady(self, ask: Questions) -> None:
        now = time.monotonic()
        if self._steady_until is not None and now < self._steady_until:
            return
        # Cards that were opened together are asked again in different rounds, so that no round is long.
        sooner = self.handle.index % 5 / 5 if self._steady_until is None else 0.0
        self._steady_until = now + STEADY_SECONDS * (1 - sooner)
        self._steady = fields.steady(ask)
        self._instances = _open_instances(self._nvml, ask, self.handle) if self._steady.mig else ()

    def _sample(self, ask: Questions, table: ProcessTable) -> DeviceSample:
        memory = fields.memory(ask)
        rates = ask("nvmlDeviceGetUtilizationRates")
        traffic, known = self._counted or self._traffic.read(ask), self._steady
        self._counted = None
        pcie, nvlink = self._links(traffic)
        return self.handle.sample(
            memory_total=memory.total,
            memory_used=memory.used,
            memory_free=memory.free,
            memory_reserved=memory.reserved,
            unified=memory.unified,
            utilization=fields.percent(rates.gpu) if rates else None,
            memory_utilization=fields.percent(rates.memory) if rates else None,
            temperature=fields.temperature(ask),
            power=fields.watts(ask("nvmlDeviceGetPowerUsage")),
            power_cap=known.power_cap,
            energy=traffic.energy,
            fan=fields.fan(ask),
            performance_state=fields.performance_state(ask),
            persistence=known.persistence,
            display=known.display,
            compute_mode=known.compute_mode,
            ecc=known.ecc,
            ecc_errors=known.ecc_errors,
            mig=known.mig,
            clocks=fields.clocks(ask, known),
            throttle=fields.throttle(ask),
            pcie=pcie,
            nvlink=nvlink,
            processes=None if self._instances else _processes(ask, table, memory.total),
            # Asked for last: the answers above decide it.
            status=ask.status(),
        )

    def _links(self, traffic: Traffic) -> tuple[Link, Link]:
        known = self._steady
        pcie = Link(
            sent=traffic.pcie_sent,
            received=traffic.pcie_received,
            generation=known.generation,
            generation_max=known.generation_max,
            width=known.width,
            width_max=known.width_max,
        )
        return pcie, Link(sent=traffic.nvlink_sent, received=traffic.nvlink_received, lanes=known.lanes)

    def _instance(self, handle: Handle, table: ProcessTable) -> DeviceSample:
        """Memory and processes: NVML has nothing else of an instance alone."""
        ask = Questions(self._nvml, handle.handle)
        memory = fields.instance_memory(ask)
        processes = _processes(ask, table, memory.total)
        if not ask.answered:
            # It may have been taken away, and its handle says so to every question.
            self._steady_until = None
        status = ask.status()
        return handle.sample(
            memory_total=memory.total,
            memory_used=memory.used,
            memory_free=memory.free,
            memory_reserved=memory.reserved,
            mig=True,
            processes=processes,
            status=status,
            reason=None if status == "ok" else card_reason(status, handle.index),
        )


def _processes(ask: Questions, table: ProcessTable, total: int | None) -> tuple[ProcessSample, ...] | None:
    found = listed(ask, total)
    return None if found is None else tuple(table.sample(pid, process) for pid, process in sorted(found.items()))

"""The address and the interface by which other machines reach this one, also where its own name leads nowhere."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from tuitrain.engine.ranks import interfaces
from tuitrain.engine.ranks.interfaces import interface_of, is_here, own_address_towards

LINKS = {"lo": "127.0.0.1", "eth0": "192.168.1.7", "ib0": "10.0.0.7"}
NAMES = {"me": "127.0.1.1", "other": "10.0.0.9", "localhost": "127.0.0.1"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose own name stands for 127.0.1.1, as Debian sets it up; eth0 has the default route, ib0 leads to 10.0.0.0."""

    def find(host: str, *_: Any) -> list[tuple[Any, ...]]:
        if host not in NAMES and not host[0].isdigit():
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", (NAMES.get(host, host), 0))]

    def source(address: str) -> str:
        return LINKS["lo"] if address.startswith("127.") else LINKS["ib0"] if address.startswith("10.0.0.") else LINKS["eth0"]

    monkeypatch.setattr(socket, "getaddrinfo", find)
    monkeypatch.setattr(interfaces, "_source_towards", source)
    links = {name: [SimpleNamespace(address=address)] for name, address in LINKS.items()}
    monkeypatch.setattr(interfaces.psutil, "net_if_addrs", lambda: links)


@pytest.mark.parametrize(
    ("host", "interface"),
    [("other", "ib0"), ("10.0.0.9", "ib0"), ("203.0.113.5", "eth0"), ("me", "eth0"), ("localhost", "lo"), ("127.0.0.1", "lo")],
)
def test_the_interface_is_the_one_that_leads_to_the_others(host: str, interface: str) -> None:
    assert interface_of(own_address_towards(host)) == interface


def test_a_machine_knows_its_own_names() -> None:
    assert [is_here(host) for host in ("me", "localhost", "192.168.1.7", "other", "10.0.0.9")] == [True, True, True, False, False]


def test_a_name_that_stands_for_nothing_is_an_error() -> None:
    with pytest.raises(OSError, match="not known"):
        is_here("nobody")


def test_the_real_loopback_address_has_an_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert interface_of(own_address_towards("127.0.0.1")) in ("lo", "lo0")

"""Which of this machine's network addresses and interfaces leads to another machine."""

from __future__ import annotations

import ipaddress
import socket

import psutil

# From a block that documentation uses: its route is the default one. Nothing is sent.
_ELSEWHERE = "192.0.2.1"


def addresses_of(host: str) -> list[str]:
    """The IPv4 addresses that a name stands for.

    Raises:
        OSError: it stands for none.
    """
    return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)))


def is_here(host: str) -> bool:
    """Whether a name stands for this machine.

    Raises:
        OSError: it stands for no address.
    """
    mine = {address.address for each in psutil.net_if_addrs().values() for address in each}
    return any(address in mine or _is_loopback(address) for address in addresses_of(host))


def own_address_towards(host: str) -> str:
    """The address of this machine at which one that `host` names, or that reaches `host`, finds it.

    A machine's own name often stands for a loopback address on itself; other machines then come by the default route.

    Raises:
        OSError: nothing leads there.
    """
    target = addresses_of(host)[0]
    meant = host == "localhost" or _is_loopback(host)
    own = _source_towards(target)
    return own if meant or not _is_loopback(own) else _source_towards(_ELSEWHERE)


def interface_of(address: str) -> str | None:
    """The interface that has an address."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == address for each in addresses):
            return str(name)
    return None


def _source_towards(address: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect((address, 9))
        return str(line.getsockname()[0])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Finds the address by which ranks on other hosts reach this one, and the network on which all of them are.

A host often has several networks, of which only some reach its peers: a container bridge has the same address on every
host. MPI tries them all, and hangs or takes minutes. Source: horovod issues 110 and 415, open-mpi/ompi issue 4963.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Any: connecting a datagram socket sends nothing, it only chooses the route.
_PORT = 9


def address_towards(host: str) -> str:
    """Return this host's own address on the route to another host; IPv4 where both have it.

    Raises:
        InvalidInput: the name of the host is not known here, or no route leads to it.
    """
    for family, kind, protocol, _, target in sorted(_found(host), key=lambda one: one[0] != socket.AF_INET):
        with socket.socket(family, kind, protocol) as route:
            try:
                route.connect(target)
            except OSError:
                continue
            return str(route.getsockname()[0])
    raise InvalidInput("A host must be reachable.", f"no route to {host!r}", "Look at `ip route` here.")


def address_of(host: str) -> str:
    """Return the address of another host, as this one knows it; IPv4 where it has one.

    Raises:
        InvalidInput: its name is not known here.
    """
    return sorted(_addresses_of(host), key=lambda address: ":" in address)[0]


def is_this_host(host: str) -> bool:
    """Return whether a name or an address is this host's own."""
    try:
        return host == socket.gethostname() or address_towards(host) in _addresses_of(host)
    except InvalidInput:
        return False


def network_of(own: str, others: Iterable[str]) -> str | None:
    """Return the network, e.g. "10.77.0.0/24", of one of this host's addresses, if all other addresses are in it.

    None where one is not: behind a router no network of this host's says how hosts reach each other.

    Args:
        own: an address of this host.
        others: the addresses of the other hosts, by which this one reached them.
    """
    masks = [entry.netmask for entries in psutil.net_if_addrs().values() for entry in entries if entry.address == own]
    if not masks or masks[0] is None:
        return None
    network = ipaddress.ip_network(f"{own}/{masks[0]}", strict=False)
    inside = all(ipaddress.ip_address(other) in network for other in others)
    return str(network) if inside else None


def _addresses_of(host: str) -> set[str]:
    return {str(target[0]) for _, _, _, _, target in _found(host)}


def _found(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, _PORT, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise InvalidInput(
            "A host's name must be known here.", f"{host!r} ({error.strerror})", "Correct it."
        ) from error

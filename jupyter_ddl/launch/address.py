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


def own_address(interface: str) -> str:
    """Return the address of one of this host's interfaces, IPv4 where it has both.

    Args:
        interface: its name, or one of its addresses.

    Raises:
        InvalidInput: this host has none of that name or address.
    """
    found = {name: _own_addresses(name) for name in psutil.net_if_addrs()}
    for name, addresses in found.items():
        if interface in addresses or (interface == name and addresses):
            return interface if interface in addresses else addresses[0]
    listed = "; ".join(f"{name} ({', '.join(addresses)})" for name, addresses in found.items() if addresses)
    raise InvalidInput(
        "--interface must name a network interface of this host, or its address.",
        repr(interface),
        f"There are: {listed}.",
    )


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
    network = own_network(own)
    inside = network is not None and all(ipaddress.ip_address(other) in network for other in others)
    return str(network) if inside else None


def ipv4_beside(own: str) -> str:
    """Return an IPv4 address of the interface that has an address of this host's: ipyparallel listens on no other kind.

    Raises:
        InvalidInput: it has none.

    Source: ipyparallel 9.2, util.py, validate_url
    """
    if ":" not in own:
        return own
    for name in psutil.net_if_addrs():
        addresses = _own_addresses(name)
        if own in addresses and ":" not in addresses[0]:
            return addresses[0]
    raise InvalidInput(
        "Ranks on other hosts reach this one over IPv4.",
        f"a route to them from {own}, whose interface has no IPv4 address",
        "Give the hosts by names that lead there over IPv4.",
    )


def own_network(own: str) -> ipaddress.IPv4Network | None:
    """Return the network of an address of this host's; None for IPv6, of which Open MPI takes no networks."""
    masks = [entry.netmask for entries in psutil.net_if_addrs().values() for entry in entries if entry.address == own]
    if not masks or masks[0] is None or ":" in own:
        return None
    return ipaddress.IPv4Network(f"{own}/{masks[0]}", strict=False)


def _own_addresses(name: str) -> list[str]:
    """Return the addresses of an interface, IPv4 first; not those that are valid on one link only."""
    kinds = {socket.AF_INET: 0, socket.AF_INET6: 1}
    entries = [entry for entry in psutil.net_if_addrs()[name] if entry.family in kinds and "%" not in entry.address]
    return [entry.address for entry in sorted(entries, key=lambda entry: kinds[entry.family])]


def _addresses_of(host: str) -> set[str]:
    return {str(target[0]) for _, _, _, _, target in _found(host)}


def _found(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, _PORT, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise InvalidInput(
            "A host's name must be known here.", f"{host!r} ({error.strerror})", "Correct it."
        ) from error

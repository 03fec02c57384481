"""Finds by which interfaces and connections bytes went, from Linux's counters.

Runs on: every rank of `program`.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from pathlib import Path

import psutil

from jupyter_ddl.host.interfaces import speed_of
from jupyter_ddl.protocol.network_figures import Nic

# A part of the bytes below which an interface merely had other traffic.
_LEAST_PART = 0.1
_MAPPED = "::ffff:"


def sent_by() -> dict[str, int]:
    """Return the bytes that each interface has sent so far; loopback included."""
    return {name: counters.bytes_sent for name, counters in psutil.net_io_counters(pernic=True).items()}


def parts_of(before: dict[str, int], after: dict[str, int], sent_bytes: int) -> dict[str, float]:
    """Return interface -> the part of some bytes that it sent meanwhile, where that is no mere other traffic."""
    parts = {name: (now - before.get(name, now)) / sent_bytes for name, now in after.items()}
    return {name: round(part, 3) for name, part in parts.items() if part > _LEAST_PART}


def nics(root: Path = Path("/")) -> tuple[Nic, ...]:
    """Return this host's interfaces that are up and have an address, without loopback.

    Args:
        root: stands for / in tests.
    """
    found = []
    up = psutil.net_if_stats()
    for name, entries in sorted(psutil.net_if_addrs().items()):
        networks = [
            ipaddress.ip_network(f"{entry.address}/{entry.netmask}", strict=False)
            for entry in sorted(entries, key=lambda entry: entry.family != socket.AF_INET)
            if entry.family == socket.AF_INET and entry.netmask is not None
        ]
        if networks and not networks[0].is_loopback and name in up and up[name].isup:
            found.append(Nic(name, str(networks[0]), None if _is_virtual(name, root) else speed_of(name, root)))
    return tuple(found)


def _is_virtual(name: str, root: Path) -> bool:
    """Return whether an interface is one end of a virtual cable, or a bridge: such a one's speed says nothing.

    Source: Documentation/ABI/testing/sysfs-class-net of Linux: `device` leads to the hardware; a bond has `bonding`,
    and a VLAN the speed of its parent, `lower_*`.
    """
    folder = root / "sys/class/net" / name
    has_hardware = (folder / "device").exists() or (folder / "bonding").exists() or any(folder.glob("lower_*"))
    return not has_hardware


def fabrics(root: Path = Path("/")) -> tuple[str, ...]:
    """Return this host's InfiniBand or similar devices."""
    folder = root / "sys/class/infiniband"
    return tuple(sorted(device.name for device in folder.iterdir())) if folder.is_dir() else ()


def own_addresses() -> list[str]:
    """Return the addresses of this host, loopback left out."""
    entries = (entry for each in psutil.net_if_addrs().values() for entry in each)
    found = (entry.address for entry in entries if entry.family in (socket.AF_INET, socket.AF_INET6))
    return [address.partition("%")[0] for address in found if not _is_loopback(address)]


def families() -> dict[str, bool]:
    """Return peer's address -> whether it is IPv6, of this process's connections that are not to this host."""
    found = {}
    with suppress(psutil.Error):
        for one in psutil.Process().net_connections(kind="tcp"):
            if one.status == psutil.CONN_ESTABLISHED and one.raddr and not _is_loopback(one.raddr.ip):
                address = one.raddr.ip.partition("%")[0]
                found[address.removeprefix(_MAPPED)] = one.family == socket.AF_INET6 and not _is_mapped(address)
    return found


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _is_mapped(address: str) -> bool:
    """Return whether an IPv6 address stands for an IPv4 one, with which the connection is."""
    return address.startswith(_MAPPED)

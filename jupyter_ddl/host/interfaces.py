"""Finds this host's network interfaces: name, address, the speed that its driver says, and whether it is InfiniBand.

Source: Documentation/ABI/testing/sysfs-class-net of Linux: `speed` is in Mbit/s, -1 or unreadable where there is none;
`type` is a number of include/uapi/linux/if_arp.h.
"""

from __future__ import annotations

import socket
from pathlib import Path

import psutil

from jupyter_ddl.protocol.host_topology import Interface

_ARPHRD_INFINIBAND = 32


def interfaces(root: Path = Path("/")) -> tuple[Interface, ...]:
    """Return this host's interfaces that are up and have an address, without loopback, by name.

    Args:
        root: stands for / in tests.
    """
    found = []
    up = psutil.net_if_stats()
    for name, entries in sorted(psutil.net_if_addrs().items()):
        addresses = [entry for entry in entries if entry.family in (socket.AF_INET, socket.AF_INET6)]
        is_loopback = any(entry.address in ("127.0.0.1", "::1") for entry in addresses)
        if addresses and not is_loopback and name in up and up[name].isup:
            first = min(addresses, key=lambda entry: entry.family != socket.AF_INET)
            found.append(Interface(name, first.address, speed_of(name, root), is_infiniband(name, root)))
    return tuple(found)


def speed_of(name: str, root: Path = Path("/")) -> int | None:
    """Return an interface's speed in Mbit/s; None where its driver says none."""
    speed = _number(name, "speed", root)
    return speed if speed is not None and speed > 0 else None


def is_infiniband(name: str, root: Path = Path("/")) -> bool:
    """Return whether an interface's link is InfiniBand."""
    return _number(name, "type", root) == _ARPHRD_INFINIBAND


def _number(name: str, attribute: str, root: Path) -> int | None:
    """Return a number that Linux has of an interface; None where it has none."""
    try:
        return int((root / "sys/class/net" / name / attribute).read_text())
    except (OSError, ValueError):
        return None

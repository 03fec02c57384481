"""Finds this host's network interfaces: name, address, and the speed that its driver says.

Source: Documentation/ABI/testing/sysfs-class-net of Linux: `speed` is in Mbit/s, -1 or unreadable where there is none.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Interface:
    """A network interface that is up.

    Attributes:
        name: e.g. "ib0".
        address: its IPv4 address, else its IPv6 address.
        mbit_per_s: None where its driver says none, as a virtual one's.
    """

    name: str
    address: str
    mbit_per_s: int | None


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
            found.append(Interface(name, first.address, speed_of(name, root)))
    return tuple(found)


def speed_of(name: str, root: Path = Path("/")) -> int | None:
    """Return an interface's speed in Mbit/s; None where its driver says none."""
    try:
        speed = int((root / "sys/class/net" / name / "speed").read_text())
    except (OSError, ValueError):
        return None
    return speed if speed > 0 else None

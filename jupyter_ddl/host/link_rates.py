"""Reads how many bytes a second this host's network interfaces, and its InfiniBand ports, carry.

An interface counts where it is a device, and not a bridge, a tunnel or a bond of others, whose bytes would count twice;
where none is one, as in a container, all but loopback do. What IP sends over InfiniBand counts in both.

Source: proc(5), /proc/net/dev; Documentation/ABI/stable/sysfs-class-infiniband of Linux: port_rcv_data and
port_xmit_data count octets divided by 4.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RECEIVED, _SENT = 0, 8  # columns of /proc/net/dev
_OCTETS = 4
_PORTS = "sys/class/infiniband/*/ports/*/counters"


class Rates:
    """Makes rates of counters that only grow.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}

    def take(self, counters: Mapping[str, int]) -> dict[str, float]:
        """Return each counter's growth a second since it was taken last; none the first time, and where it shrank."""
        now_s = self._clock()
        rates = {}
        for name, count in counters.items():
            at_s, before = self._last.get(name, (now_s, count))
            if now_s > at_s and count >= before:
                rates[name] = (count - before) / (now_s - at_s)
            self._last[name] = now_s, count
        return rates


class HostLinks:
    """The network interfaces and InfiniBand ports of this host.

    Args:
        root: stands for / in tests.
        clock: returns seconds.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._rates = Rates(clock)
        self._ports = sorted(root.glob(_PORTS))

    def read(self) -> dict[str, float]:
        """Return the rates that are known, by the names of a HostReading's fields."""
        counters: dict[str, int] = {}
        interfaces = self._interfaces()
        if interfaces:
            counters["network_received_bytes_per_s"] = sum(received for received, _ in interfaces.values())
            counters["network_sent_bytes_per_s"] = sum(sent for _, sent in interfaces.values())
        for field, name in (("fabric_received", "port_rcv_data"), ("fabric_sent", "port_xmit_data")):
            found = [count for port in self._ports if (count := _number(port / name)) is not None]
            if found:
                counters[f"{field}_bytes_per_s"] = _OCTETS * sum(found)
        return self._rates.take(counters)

    def _interfaces(self) -> dict[str, tuple[int, int]]:
        """Return the bytes that each interface has received and sent."""
        try:
            lines = (self._root / "proc/net/dev").read_text().splitlines()[2:]
        except OSError:
            return {}
        found = {}
        for line in lines:
            name, _, columns = line.partition(":")
            numbers = columns.split()
            if name.strip() != "lo" and len(numbers) > _SENT:
                found[name.strip()] = int(numbers[_RECEIVED]), int(numbers[_SENT])
        devices = {name for name in found if (self._root / "sys/class/net" / name / "device").exists()}
        return {name: bytes_ for name, bytes_ in found.items() if not devices or name in devices}


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None

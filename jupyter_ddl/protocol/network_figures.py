"""Defines what `jupyter ddl doctor --network` measures of the ranks' exchange.

Units: seconds and bytes; a bandwidth is in bytes per second, in one direction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from jupyter_ddl.protocol.codec import Int64  # noqa: TC001  get_type_hints reads it

Level = Literal["within a host", "between hosts", "all"]
LEVELS: tuple[Level, ...] = get_args(Level)
SMALL_BYTES = 8
LARGE_BYTES = 8 << 20


@dataclass(frozen=True)
class Nic:
    """A network interface of a host.

    Attributes:
        name: e.g. "ib0".
        network: of its address, e.g. "10.1.0.0/16".
        mbit_per_s: its nominal speed; None where its driver says none, or it is virtual.
    """

    name: str
    network: str
    mbit_per_s: Int64 | None = None


@dataclass(frozen=True)
class Host:
    """One host of the ranks.

    Attributes:
        name: its own.
        ranks: those on it.
        cores: that these may use.
        work_s: that a fixed piece of work took one rank, while no other rank worked.
        nics: its interfaces, without loopback.
        fabrics: its InfiniBand or similar devices, which MPI may use without an interface.
    """

    name: str
    ranks: tuple[Int64, ...]
    cores: Int64
    work_s: float
    nics: tuple[Nic, ...] = ()
    fabrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Way:
    """One direction between two ranks.

    Attributes:
        level: within a host, or between hosts.
        source, target: ranks.
        latency_s: of 8 bytes: half of a round trip, the lower quartile.
        bytes_per_s: the bandwidth for large messages.
        nics: interface of the source's host -> the part of these bytes that it sent, where that is more than a tenth;
            loopback included. Empty where no interface saw them: shared memory, or a fabric.
        is_ipv6: MPI's connections between both are IPv6; None where there are none.
    """

    level: Level
    source: Int64
    target: Int64
    latency_s: float
    bytes_per_s: float
    nics: dict[str, float] = field(default_factory=dict)
    is_ipv6: bool | None = None


@dataclass(frozen=True)
class Allreduce:
    """How long an allreduce took on the ranks of a level.

    Attributes:
        where: the host, for the level of a host; else "".
        ranks: how many took part.
        small_s: of 8 bytes.
        large_s: of 8 MiB.
    """

    level: Level
    where: str
    ranks: Int64
    small_s: float
    large_s: float


@dataclass(frozen=True)
class Figures:
    """All that was measured.

    Attributes:
        mpi: what the MPI library says of itself.
        hosts: in the order of their first ranks.
    """

    mpi: str
    hosts: tuple[Host, ...]
    ways: tuple[Way, ...]
    allreduces: tuple[Allreduce, ...]

    def host_of(self, rank: int) -> Host:
        """Return the host of a rank."""
        return next(host for host in self.hosts if rank in host.ranks)

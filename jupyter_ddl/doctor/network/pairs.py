"""Measures latency and bandwidth between two ranks. Every other rank waits, and leaves its core to these.

Runs on: every rank of `program`.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from jupyter_ddl.doctor.network import counters
from jupyter_ddl.protocol.network_figures import SMALL_BYTES, Way

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

    from jupyter_ddl.protocol.network_figures import Level

_PINGS = 60
_BLOCK_BYTES = 4 << 20
# Long against what a switch or a shaper lets through at once, short enough for many pairs.
_BANDWIDTH_S = 0.4
_MOST_BLOCKS = 512
_NAP_S = 0.0005


def wait_for_all(world: Comm) -> None:
    """Wait until every rank is here, without taking a core from those that measure.

    Collective: every rank must call this.
    """
    request = world.Ibarrier()
    while not request.Test():
        time.sleep(_NAP_S)


def measured_ways(world: Comm, first: int, second: int, level: Level) -> list[Way]:
    """Return both directions between two ranks, on rank 0; an empty list on others.

    Collective: every rank must call this, with the same arguments.
    """
    found: list[Way] = []
    for source, target in ((first, second), (second, first)):
        wait_for_all(world)
        way: Way | None = None
        if world.rank == source:
            way = _as_source(world, target, level)
        elif world.rank == target:
            _as_target(world, source)
        # Rank 0 keeps what all have measured.
        if source != 0 and world.rank == source:
            world.send(way, 0)
        elif world.rank == 0:
            found.append(way if source == 0 else world.recv(source=source))  # type: ignore[arg-type]
    return found


def _as_source(world: Comm, target: int, level: Level) -> Way:
    small, block = bytearray(SMALL_BYTES), bytearray(_BLOCK_BYTES)
    _send_blocks(world, target, block, 1)
    times = []
    for _ in range(_PINGS):
        began_s = time.perf_counter()
        world.Send(small, target)
        world.Recv(small, target)
        times.append((time.perf_counter() - began_s) / 2)
    probe_s = _send_blocks(world, target, block, 2)
    count = max(2, min(_MOST_BLOCKS, round(_BANDWIDTH_S / probe_s * 2)))
    world.send(count, target)
    before = counters.sent_by()
    took_s = _send_blocks(world, target, block, count)
    sent_bytes = count * _BLOCK_BYTES
    parts = counters.parts_of(before, counters.sent_by(), sent_bytes)
    peer_addresses = world.recv(source=target)
    kinds = {is_ipv6 for address, is_ipv6 in counters.families().items() if address in peer_addresses}
    # The lower quartile: on a shared core some pings wait for it.
    latency_s = statistics.quantiles(times, n=4)[0]
    return Way(level, world.rank, target, latency_s, sent_bytes / took_s, parts, any(kinds) if kinds else None)


def _as_target(world: Comm, source: int) -> None:
    small, block = bytearray(SMALL_BYTES), bytearray(_BLOCK_BYTES)
    _take_blocks(world, source, block, 1)
    for _ in range(_PINGS):
        world.Recv(small, source)
        world.Send(small, source)
    _take_blocks(world, source, block, 2)
    _take_blocks(world, source, block, world.recv(source=source))
    world.send(counters.own_addresses(), source)


def _send_blocks(world: Comm, target: int, block: bytearray, count: int) -> float:
    """Send blocks, and return the seconds until the target has all."""
    small = bytearray(SMALL_BYTES)
    began_s = time.perf_counter()
    for _ in range(count):
        world.Send(block, target)
    world.Recv(small, target)
    return time.perf_counter() - began_s


def _take_blocks(world: Comm, source: int, block: bytearray, count: int) -> None:
    for _ in range(count):
        world.Recv(block, source)
    world.Send(bytearray(SMALL_BYTES), source)

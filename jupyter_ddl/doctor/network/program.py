"""Measures the exchange between ranks: what `jupyter ddl doctor --network` starts on each. MPI alone, no TensorFlow.

    run_module.py jupyter_ddl.doctor.network.program

Rank 0 prints what was measured as one line of JSON.

Runs on: every rank of its own world.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import socket
import statistics
import time
from array import array
from dataclasses import asdict
from typing import TYPE_CHECKING

from jupyter_ddl.doctor.network import counters, pairs
from jupyter_ddl.host.cores import usable_cores
from jupyter_ddl.protocol.network_figures import LARGE_BYTES, SMALL_BYTES, Allreduce, Figures, Host, Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mpi4py.MPI import Comm

# Up to here every host is measured with every other; of more, each with the next: their pairs would take minutes.
_ALL_PAIRS_UP_TO = 6
_WORK_BYTES = 16 << 20
_SMALL_TIMES, _LARGE_TIMES = 40, 3


def measure(world: Comm) -> Figures | None:
    """Measure everything; return it on rank 0.

    Collective: every rank must call this.
    """
    from mpi4py import MPI

    node = world.Split_type(MPI.COMM_TYPE_SHARED, key=world.rank)
    hosts = _hosts(world, node)
    ways = [way for level, pair in _pairs(hosts) for way in pairs.measured_ways(world, *pair, level)]
    allreduces = _allreduces(world, node, hosts)
    library = MPI.Get_library_version().splitlines()[0].split(",")[0].strip("\0")
    return Figures(library, tuple(hosts), tuple(ways), allreduces) if world.rank == 0 else None


def _hosts(world: Comm, node: Comm) -> list[Host]:
    """Return the hosts, on every rank. One rank of each host works; the others sleep meanwhile."""
    ranks = tuple(node.allgather(world.rank))
    pairs.wait_for_all(world)
    work_s = _work_s() if node.rank == 0 else 0.0
    pairs.wait_for_all(world)
    own = None
    if node.rank == 0:
        own = Host(socket.gethostname(), ranks, usable_cores(), work_s, counters.nics(), counters.fabrics())
    return [host for host in world.allgather(own) if host is not None]


def _work_s() -> float:
    """Return how long a piece of work takes this rank: the best of three, since other work may be on the core."""
    content, times = bytes(_WORK_BYTES), []
    for _ in range(3):
        began_s = time.perf_counter()
        hashlib.sha256(content).digest()
        times.append(time.perf_counter() - began_s)
    return min(times)


def _pairs(hosts: Sequence[Host]) -> Iterator[tuple[Level, tuple[int, int]]]:
    """Yield the pairs of ranks that are measured: two of each host, and the first ones of hosts."""
    for host in hosts:
        if len(host.ranks) > 1:
            yield "within a host", (host.ranks[0], host.ranks[1])
    firsts = [host.ranks[0] for host in hosts]
    if len(hosts) <= _ALL_PAIRS_UP_TO:
        between: Iterable[tuple[int, int]] = itertools.combinations(firsts, 2)
    else:
        between = zip(firsts, [*firsts[1:], firsts[0]], strict=True)
    for pair in between:
        yield "between hosts", pair


def _allreduces(world: Comm, node: Comm, hosts: Sequence[Host]) -> tuple[Allreduce, ...]:
    """Return the allreduces of all levels, on rank 0. All hosts' own run at once, on their own cores."""
    from mpi4py import MPI

    here = socket.gethostname()
    pairs.wait_for_all(world)
    own = [Allreduce("within a host", here, node.size, *_allreduce_s(node))] if node.size > 1 else []
    found = [one for each in world.allgather(own if node.rank == 0 else []) for one in each]
    if len(hosts) > 1:
        between = world.Split(0 if node.rank == 0 else MPI.UNDEFINED, world.rank)
        if between != MPI.COMM_NULL:
            found.append(Allreduce("between hosts", "", between.size, *_allreduce_s(between)))
        pairs.wait_for_all(world)
        found.append(Allreduce("all", "", world.size, *_allreduce_s(world)))
    return tuple(found)


def _allreduce_s(comm: Comm) -> tuple[float, float]:
    """Return how long an allreduce of 8 bytes and of 8 MiB takes: the median, of the slowest rank."""
    from mpi4py import MPI

    medians = []
    for count, times in ((SMALL_BYTES // 4, _SMALL_TIMES), (LARGE_BYTES // 4, _LARGE_TIMES)):
        sent, received = array("f", bytes(4 * count)), array("f", bytes(4 * count))
        comm.Allreduce([sent, MPI.FLOAT], [received, MPI.FLOAT])
        took_s = []
        for _ in range(times):
            began_s = time.perf_counter()
            comm.Allreduce([sent, MPI.FLOAT], [received, MPI.FLOAT])
            took_s.append(time.perf_counter() - began_s)
        medians.append(comm.allreduce(statistics.median(took_s), MPI.MAX))
    return medians[0], medians[1]


def main() -> None:
    """Measure, and print what was measured on rank 0."""
    from mpi4py import MPI

    figures = measure(MPI.COMM_WORLD)
    if figures is not None:
        print(json.dumps(asdict(figures)), flush=True)


if __name__ == "__main__":
    main()

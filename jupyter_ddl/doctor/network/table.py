"""Shows what was measured between ranks as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.doctor.network.judgement import speed_text, time_text
from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.number_texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.protocol.network_figures import Figures

_BY_NO_INTERFACE = {"within a host": "shared memory", "between hosts": "no interface"}


def as_table(figures: Figures) -> str:
    """Return the figures as text: the links, then the allreduces, each with its level."""
    ranks = sum(len(host.ranks) for host in figures.hosts)
    hosts = f"{counted(len(figures.hosts), 'host')} ({', '.join(host.name for host in figures.hosts)})"
    links = [("level", "from", "to", "latency", "bandwidth", "by"), *_links(figures)]
    sums = [("level", "ranks", "allreduce of 8 B", "8 MiB"), *_sums(figures)]
    return "\n".join((f"{counted(ranks, 'rank')} on {hosts}, {figures.mpi}", "", *aligned(links), "", *aligned(sums)))


def _links(figures: Figures) -> Iterator[tuple[str, ...]]:
    for way in figures.ways:
        ends = (f"rank {rank} ({figures.host_of(rank).name})" for rank in (way.source, way.target))
        by = ", ".join(way.nics) or _BY_NO_INTERFACE[way.level]
        yield way.level, *ends, time_text(way.latency_s), speed_text(way.bytes_per_s), by


def _sums(figures: Figures) -> Iterator[tuple[str, ...]]:
    for one in figures.allreduces:
        level = f"within {one.where}" if one.where else one.level
        yield level, str(one.ranks), time_text(one.small_s), time_text(one.large_s)

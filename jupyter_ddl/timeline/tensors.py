"""Sums up each tensor's collectives, and how fast the bytes went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_ddl.timeline.collectives import Collective

# What a rank sends, as a part of the bytes of the result, by the collective; so figures of different ones, and of
# different numbers of ranks, compare with the speed of the wire.
# Source: NCCL tests, doc/PERFORMANCE.md, "Bus bandwidth".
_ALL = ("ALLGATHER", "REDUCESCATTER", "ALLTOALL")


def bus_factor(kind: str, ranks: int) -> float:
    """Return the bytes that cross the busiest link, for each byte of a collective's result.

    Example:
        >>> bus_factor("ALLREDUCE", 4)
        1.5
    """
    if kind in {"ALLREDUCE", "ADASUM"}:
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if kind in _ALL else 1.0


@dataclass(slots=True)
class Tensor:
    """What the collectives of one tensor came to; times in microseconds.

    Attributes:
        name: of the tensor.
        kind: "ALLREDUCE" and so on.
        count: how many there were.
        bytes: of one.
        wait_us: in all, from the first rank that handed it over to the last.
        exchange_us: in all, in which ranks exchanged its bytes, with those of the tensors fused with it.
        longest_us: the longest of these.
        fused: in how many of them other tensors were in the same buffer.
        buffer_bytes: of all buffers that it was in.
    """

    name: str
    kind: str
    count: int = 0
    bytes: int | None = None
    wait_us: float = 0.0
    exchange_us: float = 0.0
    longest_us: float = 0.0
    fused: int = 0
    buffer_bytes: int = 0

    def bus_bytes_per_s(self, ranks: int | None) -> float | None:
        """Return the bus bandwidth of the buffers that it was in; None where it cannot be known."""
        if ranks is None or ranks < 2 or not self.exchange_us or not self.buffer_bytes:
            return None
        return self.buffer_bytes * bus_factor(self.kind, ranks) / (self.exchange_us / 1e6)


class Tensors:
    """All tensors of a timeline, and the buffers in which they were exchanged.

    Horovod exchanges one buffer after the other: tensors whose exchange overlaps are in one.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}
        self._buffer: list[Collective] = []
        self._buffer_end_us = 0.0

    def add(self, collective: Collective) -> None:
        """Count one collective; they come in the order in which they ended."""
        tensor = self.by_name.setdefault(collective.tensor, Tensor(collective.tensor, collective.kind))
        tensor.count += 1
        tensor.bytes = collective.bytes if collective.bytes is not None else tensor.bytes
        tensor.wait_us += collective.ready_us - collective.begin_us
        if not collective.exchanges:
            return
        if self._buffer and collective.exchanges[0][0] >= self._buffer_end_us:
            self.end()
        self._buffer.append(collective)
        self._buffer_end_us = max(self._buffer_end_us, collective.exchanges[-1][1])

    def end(self) -> None:
        """Count the last buffer."""
        size = sum(one.bytes or 0 for one in self._buffer)
        for one in self._buffer:
            tensor = self.by_name[one.tensor]
            took_us = sum(end - begin for begin, end in one.exchanges)
            tensor.exchange_us += took_us
            tensor.longest_us = max(tensor.longest_us, took_us)
            tensor.buffer_bytes += size
            tensor.fused += len(self._buffer) > 1
        self._buffer, self._buffer_end_us = [], 0.0

    def longest(self, most: int) -> list[Tensor]:
        """Return the tensors whose exchange took longest on average, the longest first."""
        return sorted(self.by_name.values(), key=lambda one: one.exchange_us / one.count, reverse=True)[:most]

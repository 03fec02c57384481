"""Defines what a site lets each rank hold, of its host's memory and of its GPU's, and makes the watch of it.

Runs on: lease, witness, a script's terminal and the relays beside its ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.memory_watch import GpuLimit, MemoryWatch
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.faults import MemoryExcess
from jupyter_ddl.protocol.gpu_allotment import GpuAllotment
from jupyter_ddl.protocol.memory_limit import MemoryLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_ddl.host.memory_watch import Excess


@dataclass(frozen=True)
class RankLimits:
    """What each rank of a world may hold; at least one of both.

    Attributes:
        memory: of its host; None for no limit.
        share: of a GPU, as its site gives them out; None for no limit.
    """

    memory: MemoryLimit | None
    share: GpuAllotment | None

    @classmethod
    def of(cls, memory: MemoryLimit | None, allotment: GpuAllotment | None) -> RankLimits | None:
        """Return the limits that these say; None where they say none."""
        share = allotment if allotment is not None and allotment.share_bytes is not None else None
        return None if memory is None and share is None else cls(memory, share)

    @classmethod
    def in_record(cls, record: Mapping[str, Any]) -> RankLimits | None:
        """Return those that ranks have in their settings, or in the request of a script; None where there are none."""
        memory, allotment = record.get("memory"), record.get("allotment")
        return cls.of(
            None if memory is None else record_of(MemoryLimit, memory),
            None if allotment is None else record_of(GpuAllotment, allotment),
        )

    def watch(self, ranks: Callable[[], Mapping[int, tuple[int, int]]], mark: str) -> MemoryWatch:
        """Return the watch of a world's ranks; `MemoryWatch` says what the arguments are."""
        most_bytes = None if self.memory is None else self.memory.most_bytes
        return MemoryWatch(most_bytes, ranks, mark, on_gpu=self._gpu_limit())

    def record(self, excess: Excess) -> MemoryExcess:
        """Return what a rank held, as a fault has it."""
        most_bytes, by = (0, "") if self.memory is None else (self.memory.most_bytes, self.memory.by)
        if excess.on_gpu and self.share is not None:
            most_bytes, by = self.share.share_bytes or 0, self.share.by
        return MemoryExcess(excess.held_bytes, len(excess.processes), most_bytes, by, excess.on_gpu)

    def _gpu_limit(self) -> GpuLimit | None:
        if self.share is None or self.share.share_bytes is None:
            return None
        from jupyter_ddl.host.gpu_memory import GpuMemory

        return GpuLimit(self.share.share_bytes, GpuMemory().held_bytes)

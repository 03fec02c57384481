"""Defines how a site gives its users' ranks the GPUs of a host: one each, or shared with a share of the memory."""

from __future__ import annotations

from dataclasses import dataclass

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.codec import Int64  # noqa: TC001  get_type_hints reads it

OWN = "own"
SHARED = "shared"


@dataclass(frozen=True)
class GpuAllotment:
    """Which GPUs of their host ranks get, where a site gives them out.

    Attributes:
        by: who says so, e.g. "the profile default (gpus = own in /etc/jupyter/jupyter_ddl.d/site.toml)".
        share_bytes: what each rank may hold of the memory of a GPU that it shares; None where it has a GPU, or a MIG
            device, that no other rank has.
        among: the devices that the user chose; empty for all that are visible.
    """

    by: str
    share_bytes: Int64 | None = None
    among: tuple[str, ...] = ()

    def places(self, total_bytes: int) -> int:
        """Return how many ranks a GPU takes.

        Args:
            total_bytes: its memory.

        Example:
            >>> GpuAllotment("a profile", share_bytes=20 * 2**30).places(141 * 2**30)
            7
        """
        return 1 if self.share_bytes is None else total_bytes // self.share_bytes

    def refused(self, asked: str) -> InvalidInput:
        """Return the error of ranks for which there is no room; `asked` says how many they are, and the room."""
        return InvalidInput(
            f"GPUs are given out by {self.by}.",
            asked,
            "Start fewer ranks, or wait until other ranks have ended; --gpus none takes the cores.",
        )

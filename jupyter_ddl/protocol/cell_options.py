"""How a cell runs: what `%%distributed` and `Session.run` may be told besides its code and its ranks.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.fit_options import STOP, check_on_drift, checked_checkpoint
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.protocol.stall_options import StallOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jupyter_ddl.protocol.auto_options import AutoOptions


@dataclass(frozen=True, kw_only=True)
class CellOptions:
    """The options of one cell; `Session.run` says what each means, `RunCell` what `above` and `count` do."""

    timeout_s: float | None = None
    independent: bool = False
    auto: AutoOptions | None = None
    sample_every_s: float | None = 1.0
    stalls: StallOptions = field(default_factory=StallOptions)
    checkpoint: str | os.PathLike[str] | None = None
    on_drift: str = STOP
    above: int = 0
    count: int | None = None

    def checked(self, ranks: Sequence[int], world_size: int) -> CellOptions:
        """Return them for a cell on some ranks, with the whole path of the checkpoints' folder.

        Raises:
            InvalidInput: they do not go with these ranks, or with each other.
        """
        if self.auto is not None and len(ranks) < world_size:
            raise InvalidInput(
                "--auto distributes over all ranks.",
                f"ranks {compact(ranks)} of {world_size}",
                "Drop -r, or start a cluster of that many ranks.",
            )
        check_on_drift(self.on_drift)
        folder = checked_checkpoint(self.checkpoint, independent=self.independent, ranks=ranks, world_size=world_size)
        return replace(self, checkpoint=folder)

    def record(self) -> dict[str, Any]:
        """Return what the run's folder keeps of them."""
        return {
            "timeout_s": self.timeout_s,
            "independent": self.independent,
            "auto": self.auto and asdict(self.auto),
            "stalls": asdict(self.stalls),
            "checkpoint": self.checkpoint,
            "above": self.above,
            "on_drift": self.on_drift,
        }

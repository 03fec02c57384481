"""Records what torch does in a cell with `--timeline`, by torch's own profiler, into the run's folder.

The profiler keeps all of it in memory, so it records the first steps only: from then on the loop runs as without it.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import import_hooks
from jupyter_ddl.protocol.rank_files import TORCH_TRACE, rank_file

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.engine.cells import Cells
    from jupyter_ddl.engine.collectives.library import Turn
    from jupyter_ddl.engine.world import World

MOST_STEPS = 200
# It writes when it starts and stops, as an error of a level that nothing is above of.
# Source: kineto, libkineto/include/ILoggerObserver.h, LoggerOutputType; read when the profiler starts first.
_QUIET = ("KINETO_LOG_LEVEL", "6")


class TorchProfile:
    """The profiler of one rank, a `Library` of the engine's.

    Args:
        rank: its number.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._path: Path | None = None
        self._profile: Any = None
        self._hook: Any = None
        self._is_running = False
        self._steps = 0

    @classmethod
    def of(cls, world: World, cells: Cells) -> TorchProfile:
        """Return that of a rank that starts."""
        profile = cls(world.rank)
        # Of a script too, which ends as no cell does.
        cells.conclude_with(profile.end_cell)
        import_hooks.when_imported("torch", profile._imported)
        return profile

    def begin_cell(self, turn: Turn) -> None:
        """Record the cell, where it is asked for and once torch is there."""
        # One that raised: what it recorded is lost, since a rank that writes then keeps others waiting.
        self._stop()
        self._profile = None
        own = rank_file(self._rank, TORCH_TRACE)
        self._path = None if turn.timeline is None else Path(turn.timeline).with_name(own)
        if "torch" in sys.modules and import_hooks.executed("torch") is not None:
            self._start()

    def end_cell(self) -> None:
        """Write what was recorded."""
        self._stop()
        profile, self._profile = self._profile, None
        if profile is not None and self._steps and self._path is not None:
            try:
                profile.export_chrome_trace(str(self._path))
            except (OSError, RuntimeError) as error:
                # A full disk must not end the training.
                print(f"WARNING: {self._path} is not complete: {error}", file=sys.stderr)

    def raised(self) -> None:
        """Do nothing: other ranks may wait for this one."""

    def release(self) -> None:
        """Do nothing: no rank waits here."""

    def was_ended_elsewhere(self, text: str) -> bool:  # noqa: ARG002  as a library is asked
        """Return that no error is of the profiler's."""
        return False

    def entered(self) -> int | None:
        """Return that collectives are not counted here."""
        return None

    def _imported(self, _torch: ModuleType) -> None:
        self._start()

    def _start(self) -> None:
        if self._path is None:
            return
        from torch.optim.optimizer import register_optimizer_step_post_hook
        from torch.profiler import profile

        os.environ.setdefault(*_QUIET)
        self._steps = 0
        self._profile = profile(record_shapes=True)
        self._profile.start()
        self._is_running = True
        self._hook = register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, *_: Any) -> None:
        self._steps += 1
        if self._steps >= MOST_STEPS:
            self._stop()

    def _stop(self) -> None:
        if self._is_running:
            self._is_running = False
            self._hook.remove()
            self._profile.stop()

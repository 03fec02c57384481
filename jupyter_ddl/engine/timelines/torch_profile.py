"""Records what torch does in a cell with `--timeline`, by torch's own profiler.

The profiler keeps all of it in memory, so it records the first steps only: from then on the loop runs as without it.
What it noted is put together at the cell's end, since that takes a hundred steps' time of a small model. With a GPU it
is done at once, and the profiler is stopped: to switch off the recording of kernels alone was not tried.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.collectives import gloo_works
from jupyter_ddl.engine.timelines.cell_profile import CellProfile
from jupyter_ddl.host import import_hooks
from jupyter_ddl.protocol.rank_files import TORCH_TRACE

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from jupyter_ddl.engine.cells import Cells
    from jupyter_ddl.engine.world import World

MOST_STEPS = 100
# It writes when it starts and stops, as an error of a level that nothing is above of.
# Source: kineto, libkineto/include/ILoggerObserver.h, LoggerOutputType; read when the profiler starts first.
_QUIET = ("KINETO_LOG_LEVEL", "6")
_NO_TIMELINE = (
    "WARNING: A cell's timeline ends with its last collective, and one has not ended. Received: no timeline of this "
    "cell. Wait for each collective that is begun with async_op=True."
)


class TorchProfile(CellProfile):
    """torch's profiler on one rank, from torch's import on."""

    FILE = TORCH_TRACE

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self._profile: Any = None
        # One that cannot be stopped yet.
        self._unended: Any = None
        self._hook: Any = None
        self._is_pausable = False
        self._steps = 0

    @classmethod
    def of(cls, world: World, cells: Cells) -> Self:
        """Return that of a rank that starts."""
        profile = super().of(world, cells)
        import_hooks.when_imported("torch", lambda _: profile.start())
        return profile

    def _is_ready(self) -> bool:
        return "torch" in sys.modules and import_hooks.executed("torch") is not None

    def _begin(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook
        from torch.profiler import ProfilerActivity, profile

        self._steps = 0
        if not self._ended():
            return
        os.environ.setdefault(*_QUIET)
        self._is_pausable = not torch.accelerator.is_available()
        # None: all that this torch knows.
        activities = [ProfilerActivity.CPU] if self._is_pausable else None
        self._profile = profile(activities=activities, record_shapes=True)
        self._profile.start()
        self._hook = register_optimizer_step_post_hook(self._stepped)

    def _end(self) -> None:
        if self._profile is None:
            return
        self._hook.remove()
        self._unended = self._profile
        if not self._ended():
            if self._is_pausable:
                self._pause()
            self._profile = None

    def _ended(self) -> bool:
        """Stop the profiler that records, if one does; return whether none does any more."""
        if self._unended is None:
            return True
        if not gloo_works.wait_ended():
            print(_NO_TIMELINE, file=sys.stderr)
            return False
        self._unended.stop()
        self._unended = None
        return True

    def _write(self, path: Path) -> None:
        if self._profile is None or not self._steps:
            return
        try:
            self._profile.export_chrome_trace(str(path))
        except RuntimeError as error:
            # torch's C++ says so.
            raise OSError(str(error)) from error

    def _discard(self) -> None:
        self._profile = None

    def _stepped(self, *_: Any) -> None:
        self._steps += 1
        if self._steps == MOST_STEPS:
            if self._is_pausable:
                self._pause()
            else:
                self.stop()

    def _pause(self) -> None:
        from torch.profiler import ProfilerActivity

        # All three, since torch warns of any that is missing, a GPU's on a machine without one.
        # Source: torch 2.13, torch/csrc/autograd/profiler_kineto.cpp, toggleCollectionDynamic.
        every = [ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU]
        self._profile.toggle_collection_dynamic(False, every)

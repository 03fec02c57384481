"""Prepares a rank for loops of PyTorch's, which are hooked when a program imports torch.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import import_hooks
from jupyter_ddl.torch_training import libraries

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.engine.cells import Cell
    from jupyter_ddl.engine.collectives.torch_groups import TorchGroups
    from jupyter_ddl.engine.rank_state import RankState
    from jupyter_ddl.engine.world import World


def install(state: RankState, world: World, groups: TorchGroups) -> None:
    """Show and check loops of PyTorch's on this rank, in each cell from here on.

    Args:
        state: this rank's.
        world: likewise.
        groups: its process groups, whose store ranks write their checksums into.
    """
    training = _Training(state, world, groups)
    state.cells.prepare_with(training.begin)
    state.cells.conclude_with(training.conclude)
    import_hooks.when_imported("torch", training.hook)
    libraries.install()


class _Training:
    """What is hooked on this rank."""

    def __init__(self, state: RankState, world: World, groups: TorchGroups) -> None:
        self._state = state
        self._world = world
        self._groups = groups
        self._hooks: Any = None

    def begin(self, cell: Cell) -> None:
        """Begin a cell."""
        libraries.forget_ended_groups()
        if self._hooks is not None:
            self._hooks.begin(cell)

    def conclude(self) -> None:
        """Note that a cell has ended well on this rank."""
        if self._hooks is not None:
            self._hooks.conclude()

    def hook(self, _torch: ModuleType) -> None:
        """Hook into torch, in a cell that may have begun."""
        from jupyter_ddl.torch_training.hooks import Hooks

        self._hooks = Hooks(self._groups, self._world.rank, self._world.world_size)
        self._hooks.install()
        if self._state.cells.current is not None:
            self._hooks.begin(self._state.cells.current)

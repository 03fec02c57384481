"""Has `--memory` act on the models of PyTorch's that a cell calls, once its program has imported torch.

Runs on: every rank. Nothing here imports torch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine import run_context
from jupyter_ddl.host import import_hooks

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.engine.cells import Cell
    from jupyter_ddl.engine.rank_state import RankState


def install(state: RankState) -> None:
    """Act in each cell from here on."""
    modules = _Modules()
    state.cells.prepare_with(modules.begin)
    import_hooks.when_imported("torch", modules.hook)


class _Modules:
    """What is changed of calls on this rank."""

    def __init__(self) -> None:
        self._called: Any = None

    def begin(self, _cell: Cell) -> None:
        """Begin a cell."""
        if self._called is not None:
            self._called.begin(run_context.options().memory)
        elif run_context.options().memory is not None and "torch" in sys.modules:
            self._make()

    def hook(self, _torch: ModuleType) -> None:
        """Note that torch is there, in a cell that may have begun."""
        if run_context.options().memory is not None:
            self._make()

    def _make(self) -> None:
        from jupyter_ddl.memory.called_modules import CalledModules

        self._called = CalledModules()
        self._called.begin(run_context.options().memory)

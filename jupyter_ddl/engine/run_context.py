"""Returns the current run's options, as code on this rank sees them.

Runs on: every rank; in a process that is no rank of ours they are those of plain Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.engine import rank_state
from jupyter_ddl.protocol.cell_options import PLAIN_OPTIONS, CellOptions

if TYPE_CHECKING:
    from jupyter_ddl.engine.cells import Cell


def current() -> Cell | None:
    """Return what runs, or ran last; None in a process that is no rank of ours."""
    state = rank_state.of_process()
    return None if state is None else state.cells.current


def options() -> CellOptions:
    """Return the options of what runs, or ran last; those of plain Python in a process that is no rank of ours."""
    state = rank_state.of_process()
    return PLAIN_OPTIONS if state is None or state.cells.current is None else state.cells.current.options


def is_sampled() -> bool:
    """Return whether the training's progress is sampled."""
    return options().sample_every_s is not None

"""Says at a cell's end where `--memory` had no effect, since no Keras model was trained.

Runs on: every rank.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from jupyter_ddl.engine import rank_state, run_context

if TYPE_CHECKING:
    from jupyter_ddl.engine.cells import Cell

_NOTE = (
    "NOTE: --memory {} had no effect: it acts on fit and train_on_batch of Keras models, and none was trained here. "
    "For loops of PyTorch's and of your own see docs/memory.md."
)


class Trained:
    """Whether a Keras model was trained in the current cell."""

    def __init__(self) -> None:
        self.is_done = False


def prepare(_running: Cell) -> None:
    """Begin a cell."""
    rank_state.here().part(Trained).is_done = False


def conclude() -> None:
    """End a cell: print the note on one rank."""
    memory = run_context.options().memory
    if memory is not None and not rank_state.here().part(Trained).is_done and os.environ.get("RANK", "0") == "0":
        print(_NOTE.format(memory), file=sys.stderr, flush=True)

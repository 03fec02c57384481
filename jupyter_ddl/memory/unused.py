"""Says at a cell's end where `--memory` had no effect, since no model was trained that it acts on.

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
    "NOTE: --memory {} had no effect: it acts on {}, and none was trained here. For loops of your own see "
    "docs/memory.md."
)
_KERAS = "fit and train_on_batch of Keras models"
_MODULES = f"{_KERAS} and models of PyTorch's"
_LOOPS = "models of PyTorch's in loops that --auto distributes, and Keras models on JAX"


class Trained:
    """Whether a model that `--memory` acts on was trained in the current cell."""

    def __init__(self) -> None:
        self.is_done = False


def prepare(_running: Cell) -> None:
    """Begin a cell."""
    rank_state.here().part(Trained).is_done = False


def conclude() -> None:
    """End a cell: print the note on one rank."""
    memory = run_context.options().memory
    if memory is not None and not rank_state.here().part(Trained).is_done and os.environ.get("RANK", "0") == "0":
        only_keras = memory.accumulate > 1 or memory.shard_optimizer
        on = _LOOPS if memory.shard_all else _KERAS if only_keras else _MODULES
        print(_NOTE.format(memory, on), file=sys.stderr, flush=True)

"""Releases ranks that wait in a collective of TensorFlow's own, as MultiWorkerMirroredStrategy's.

TensorFlow ends the collectives of one process, from any thread, and runs none in it afterwards: a strategy that joins
several processes needs new ranks then (`%ddl restart`). Variables stay.

Source: tensorflow 2.21, tensorflow/python/eager/context.py (configure_collective_ops, abort_collective_ops).

Runs on: every rank.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.library import Turn

_CONTEXT = "tensorflow.python.eager.context"
ENDED = "Another rank has ended the cell. TensorFlow runs no more collectives in this process: %ddl restart"
# tf.errors.ABORTED, which this module, that imports no framework, cannot name.
_ABORTED = 10


class TensorflowCollectives:
    """TensorFlow's collectives on one rank."""

    def begin_cell(self, turn: Turn) -> None:
        """Nothing is prepared for a cell."""

    def end_cell(self) -> None:
        """Nothing is left of a cell that ended well."""

    def raised(self) -> None:
        """Do nothing here: the ranks that wait for this one are released."""

    def release(self) -> None:
        """End the collective in which this rank waits, where TensorFlow has been set up for collectives."""
        context = _configured()
        if context is not None:
            context.abort_collective_ops(_ABORTED, ENDED)

    def was_ended_elsewhere(self, text: str) -> bool:
        """Return whether an error is that of a collective which `release` has ended."""
        return ENDED in text

    def entered(self) -> None:
        """TensorFlow counts none."""


def _configured() -> Any:
    """Return TensorFlow's context if a strategy has set it up for collectives between processes."""
    module = sys.modules.get(_CONTEXT)
    # Private to TensorFlow, which may move it: ranks are then released as those that block elsewhere.
    context = getattr(module, "_context", None)
    return context if getattr(context, "_collective_leader", None) is not None else None

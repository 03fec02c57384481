"""Warns that several ranks train with no exchange at all, which is what stock Horovod does on Keras 3, silently.

Runs on: every rank.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.engine import run_context
from jupyter_ddl.training.backends import hvd

if TYPE_CHECKING:
    from collections.abc import Callable


def ranks_that_train() -> int:
    """Return how many ranks run the current cell or script, or 1 where each is meant to train by itself."""
    running = run_context.current()
    if running is not None:
        return 1 if running.options.independent else running.ranks
    return int(hvd.size()) if hvd.is_initialized() else 1


class Unexchanged(keras.callbacks.Callback):
    """Warns at the end of the first epoch.

    Args:
        exchanges: returns whether the training step has exchanged gradients, e.g. by a DistributedGradientTape.
    """

    def __init__(self, exchanges: Callable[[], bool]) -> None:
        super().__init__()
        self._exchanges = exchanges
        self._has_warned = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Warn once."""
        if not self._has_warned and not self._exchanges():
            print(
                f"WARNING: each of the {ranks_that_train()} ranks trains a model of its own: no gradients are "
                "exchanged. Wrap the optimizer with hvd.DistributedOptimizer; or, if you want a model on each rank, "
                "pass --independent.",
                # Not into the line of the epoch's progress bar.
                file=sys.stderr,
            )
        self._has_warned = True

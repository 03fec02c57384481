"""The callback that each Trainer of Lightning gets on a rank, by Lightning's entry point for callbacks.

Source: https://lightning.ai/docs/pytorch/stable/extensions/entry_points.html

Runs on: every rank, and any process with Lightning, where it gives none.
"""

from __future__ import annotations

import time
from typing import Any

from jupyter_ddl.torch_training import logged

# What `callback_metrics` makes of all that was logged costs as much as a small step.
_EVERY_S = 0.5


def callbacks() -> list[Any]:
    """Return the callbacks for a Trainer of the package `lightning`: none in a process that is no rank."""
    if logged.here() is None:
        return []
    from lightning.pytorch import Callback

    return [_made(Callback)]


def callbacks_of_pytorch_lightning() -> list[Any]:
    """Return those for a Trainer of the package `pytorch_lightning`."""
    if logged.here() is None:
        return []
    from pytorch_lightning import Callback

    return [_made(Callback)]


def _made(base: Any) -> Any:
    class Logging(base):
        """Shows what a module logs."""

        def __init__(self) -> None:
            self._due_s = 0.0

        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:  # noqa: ARG002
            now_s = time.monotonic()
            taker = logged.here()
            if taker is not None and now_s >= self._due_s:
                self._due_s = now_s + _EVERY_S
                taker.log({**_loss_of(outputs), **trainer.callback_metrics})

        def on_train_epoch_end(self, trainer: Any, module: Any) -> None:  # noqa: ARG002
            taker = logged.here()
            if taker is not None:
                taker.log(trainer.callback_metrics)
                epoch, most = trainer.current_epoch, trainer.max_epochs
                taker.epoch_ended(epoch, trainer.global_step, trainer.callback_metrics, is_last=epoch + 1 == most)

    return Logging()


def _loss_of(outputs: Any) -> dict[str, Any]:
    """Return the loss of a step, for a module that does not log it."""
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    return {} if loss is None else {"loss": loss}

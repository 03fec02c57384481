"""Saves the best model so far to a file."""

from __future__ import annotations

import os
from typing import Any

import keras

from jupyter_ddl.errors import InvalidInput


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """A ModelCheckpoint that saves the best model only, to a `filepath` that may be set later.

    Pass it on one rank only, or give each rank a file of its own. After MetricAverageCallback, "best" is over all
    ranks.

    Args:
        monitor: the metric that decides.
        verbose: 1 to say when a model is saved.
        save_weights_only: save the weights alone.
        mode: "min", "max", or "auto" to go by the metric's name.
        save_freq: "epoch", or a number of steps.
        filepath: ends in ".keras", ".h5" or ".hdf5", or with `save_weights_only` in ".weights.h5". None to set the
            attribute `filepath` before training.

    Raises:
        InvalidInput: when training begins: `filepath` is not set, or ends otherwise.

    Example:
        >>> callbacks = [hvd.callbacks.MetricAverageCallback()]
        >>> if hvd.rank() == 0:
        ...     callbacks.append(hvd.callbacks.BestModelCheckpoint("loss", filepath="best.keras"))
        >>> history = model.fit(x, y, callbacks=callbacks, verbose=0)
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        filepath: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            # Keras checks the end of a name, which may not be set yet.
            f"unset{_endings(save_weights_only)[0]}",
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = filepath

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Check that there is a file to save to.

        Raises:
            InvalidInput: `filepath` is not set, or ends otherwise than Keras's files do.
        """
        endings = _endings(self.save_weights_only)
        if self.filepath is None or not os.fspath(self.filepath).endswith(endings):
            raise InvalidInput(
                f"BestModelCheckpoint saves to a file whose name ends in {' or '.join(endings)}.",
                f"filepath={self.filepath!r}",
                f"Set its filepath, e.g. 'best{endings[0]}', before fit.",
            )
        self.filepath = os.fspath(self.filepath)


def _endings(weights_only: bool) -> tuple[str, ...]:
    return (".weights.h5",) if weights_only else (".keras", ".h5", ".hdf5")

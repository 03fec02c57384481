"""Provides `jupyter_ddl.auto()`: `--auto` as a call in the script itself. Runs on: every rank."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from jupyter_ddl import auto_distribution
from jupyter_ddl.engine.cells import Cell
from jupyter_ddl.engine.world import check_started_world
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol.cell_options import PER_RANK, AutoOptions
from jupyter_ddl.rank.install import install


def auto(batch: str = PER_RANK, scale_lr: str | None = None, warmup_epochs: float | None = None) -> None:
    """Distribute the rest of this script, or cell, unchanged: `--auto` as a call.

    For a script that runs on MPI ranks, also under a plain `mpiexec`. The arguments are those of `AutoOptions`.

    Collective: every rank must call this, before it makes its model and data.

    Raises:
        InvalidInput: a value is wrong; `keras` is not Keras 3; MPI made several worlds of the ranks.

    Example:
        >>> jupyter_ddl.auto(scale_lr="linear", warmup_epochs=1)
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> history = model.fit(x, y, batch_size=16, verbose=0)  # this rank trains on its part of each batch
    """
    options = AutoOptions(batch, scale_lr, warmup_epochs)
    state = install()
    running = state.cells.current
    if running is None:
        if find_spec("horovod") is None:
            raise InvalidInput(
                "jupyter_ddl.auto() in a script that mpiexec or srun has started connects the ranks by Horovod.",
                "no Horovod",
                "Start the script by `jupyter ddl run -n N`.",
            )
        import horovod.tensorflow as hvd

        hvd.init()
        check_started_world(hvd.size())
        running = Cell(hvd.size())
    running = replace(running, options=replace(running.options, auto=options))
    state.cells.begin(running)
    auto_distribution.prepare(running)

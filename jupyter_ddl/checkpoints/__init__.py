"""Saves after each epoch what `fit`, or a loop of PyTorch's, trains, and resumes it: `--checkpoint DIR`.

| module | owns |
|---|---|
| `cell_checkpoints` | which of a cell's fits saves where; what a cell begins with |
| `saver` | the callback: restores the newest whole checkpoint, and saves |
| `variables` | what a training's state is made of, and which of it is each rank's own |
| `rng_state`, `python_rng_state` | the states of a rank's random number generators; of these Python's and NumPy's |
| `callback_state` | what Keras's own callbacks count |
| `data_position` | the passes over the data that were made before |
| `archive`, `writer` | a state as a file; its place in the folder |
| `torch_loops/` | loops of PyTorch's |

`jupyter_ddl/protocol/checkpoint_folder.py` has the files' names, and distinguishes whole from damaged ones.

Runs on: every rank.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.engine.cells import Cell


def prepare(running: Cell) -> None:
    """Prepare this rank for a run that is to be saved: now, or when it imports Keras or PyTorch.

    Collective: every rank must call this.

    Raises:
        InvalidInput: it is to be saved, and trains without Keras 3 or without Horovod.
    """
    if running.options.checkpoint is None:
        return
    from jupyter_ddl.training.keras_version import uses_keras_3

    has_torch = find_spec("torch") is not None
    has_fit = uses_keras_3() and any(find_spec(name) is not None for name in ("torch", "jax", "horovod"))
    if has_fit:
        import_hooks.when_imported("keras", _begin)
    if has_torch:
        import_hooks.when_imported("torch", _begin_torch)
    elif not has_fit:
        raise InvalidInput(
            "--checkpoint saves what fit of Keras 3 trains with Horovod, and loops of PyTorch's.",
            "Keras 2, or none" if not uses_keras_3() else "no Horovod",
            "Use keras.callbacks.ModelCheckpoint.",
        )


def _begin(keras: ModuleType) -> None:
    if keras.config.backend() == "tensorflow" and find_spec("horovod") is None:
        return
    from jupyter_ddl.checkpoints import cell_checkpoints

    cell_checkpoints.of_this_rank().begin()


def _begin_torch(_torch: ModuleType) -> None:
    from jupyter_ddl.checkpoints.torch_loops import unsaved

    unsaved.begin()

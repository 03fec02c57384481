"""Saves what a loop of PyTorch's trains after each epoch, and resumes it: `--checkpoint DIR`.

| module | owns |
|---|---|
| `epochs` | the epochs of one loop: restored, counted, saved |
| `training_state` | the models, optimizers and other things of a loop, and what of them is saved how |
| `random_state` | the states of a rank's random number generators |
| `folder` | the checkpoints' places, each whole or not there |
| `unsaved` | the warning of a loop that `--checkpoint` does not save |

torch.distributed.checkpoint writes models and optimizers: each rank its own part of what is sharded.

Runs on: every rank.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from jupyter_ddl.host import import_hooks

if TYPE_CHECKING:
    from types import ModuleType

    from jupyter_ddl.engine.cells import Cell


def prepare(running: Cell) -> None:
    """Prepare this rank for a run that is to be saved: now, or when it imports PyTorch."""
    if running.options.checkpoint is not None and find_spec("torch") is not None:
        import_hooks.when_imported("torch", _begin)


def _begin(_module: ModuleType) -> None:
    from jupyter_ddl.torch_checkpoints import unsaved

    unsaved.begin()

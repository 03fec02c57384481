"""Refuses to let a training of PyTorch's run under `--auto`, which would train another model on each rank.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jupyter_ddl.engine import run_context
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from types import ModuleType


def watch(_torch: ModuleType) -> None:
    """Look at each optimizer's step from here on."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_refuse)


def _refuse(optimizer: object, _args: object, _kwargs: object) -> None:
    running = run_context.current()
    if running is None or running.options.auto is None or running.ranks == 1 or _exchanges():
        return
    raise InvalidInput(
        "--auto distributes Keras on TensorFlow; a loop of PyTorch's would train another model on each rank.",
        f"a step of {type(optimizer).__name__}",
        "Leave --auto out, and wrap the model: dist.init_process_group(), then DistributedDataParallel(model), with a "
        "DistributedSampler in the DataLoader.",
    )


def _exchanges() -> bool:
    """Return whether the program has a process group: it distributes itself."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()

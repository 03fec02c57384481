"""Warns once a cell where `--checkpoint` saves nothing of what an optimizer of PyTorch's trains.

Runs on: every rank, where a program has imported torch.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from jupyter_ddl.checkpoints.torch_loops.epochs import loops
from jupyter_ddl.engine import rank_state, run_context


class _Warned:
    def __init__(self) -> None:
        self.is_hooked = False
        self.cell: Any = None


def begin() -> None:
    """Begin a cell that is to be saved: look at each step from here on."""
    warned = rank_state.here().part(_Warned)
    if not warned.is_hooked:
        warned.is_hooked = True
        register_optimizer_step_post_hook(_stepped)
    loops().begin()


def _stepped(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
    warned = rank_state.here().part(_Warned)
    cell = run_context.current()
    if cell is warned.cell or cell is None or cell.options.checkpoint is None:
        return
    warned.cell = cell
    if not loops().is_saving() and os.environ.get("RANK", "0") == "0":
        print(
            "WARNING: --checkpoint saves nothing of this loop. Write its epochs as "
            "`for epoch in jupyter_ddl.torch.epochs(10, model=model, optimizer=optimizer):`.",
            file=sys.stderr,
            flush=True,
        )

"""Hooks into libraries that train with torch: what they log, by their own interfaces for that, and what ranks hold.

| library | by |
|---|---|
| Lightning | a callback that its entry point `callbacks_factory` gives to each Trainer (`lightning_callback`) |
| Transformers | a callback in `transformers.trainer.DEFAULT_CALLBACKS`, which each Trainer gets |
| Accelerate | `Accelerator.log`, around which there is a patch: a tracker would have to be named by the program |
| DeepSpeed | `deepspeed.initialize`: each rank's optimizer has its part of the weights alone with ZeRO |

Runs on: every rank. Imports none of them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.torch_training import logged

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def install() -> None:
    """Hook into these libraries once a program imports them."""
    import_hooks.when_imported("accelerate.accelerator", _hook_accelerate)
    import_hooks.when_imported("deepspeed", _hook_deepspeed)
    import_hooks.when_imported("transformers.trainer", _hook_transformers)


def forget_ended_groups() -> None:
    """Let the next `Accelerator()` make a process group, where that of an earlier cell has ended.

    Accelerate keeps what it found at its first use: after `end_training()`, or a failure, it expects a new process.
    """
    state = sys.modules.get("accelerate.state")
    distributed = sys.modules.get("torch.distributed")
    if state is None or distributed is None or distributed.is_initialized():
        return
    if state.PartialState._shared_state.get("backend") is not None:
        # Private. Source: accelerate 1.15, src/accelerate/state.py
        state.AcceleratorState._reset_state(reset_partial_state=True)
        state.GradientState._reset_state()


def _hook_accelerate(accelerate: ModuleType) -> None:
    patch(accelerate.Accelerator, "log", _log, Layer.RANK)


def _log(stock: Callable[..., None], accelerator: Any, values: Any, *args: Any, **kwargs: Any) -> None:
    stock(accelerator, values, *args, **kwargs)
    taker = logged.here()
    if taker is not None:
        taker.log(values)


def _hook_transformers(trainer: ModuleType) -> None:
    from jupyter_ddl.torch_training.transformers_callback import Callback

    trainer.DEFAULT_CALLBACKS.append(Callback)


def _hook_deepspeed(deepspeed: ModuleType) -> None:
    patch(deepspeed, "initialize", _initialize, Layer.RANK)


def _initialize(stock: Callable[..., tuple[Any, ...]], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Replace `deepspeed.initialize`: with ZeRO no other rank holds what the optimizer of this one does.

    Its parameters are flat tensors of one shape on all ranks, and nothing marks them as parts.
    Source: deepspeed 0.19, deepspeed/runtime/zero/stage_1_and_2.py, single_partition_of_fp32_groups
    """
    from deepspeed.runtime.base_optimizer import ZeROOptimizer
    from torch.distributed import get_rank

    made = stock(*args, **kwargs)
    optimizer = made[0].optimizer
    if isinstance(optimizer, ZeROOptimizer):
        optimizer.optimizer.ranks_together = (get_rank(),)
    return made

"""Knows which call is being distributed, and which optimizers are, and refuses updates of these elsewhere.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from jupyter_ddl.auto_distribution.current_call import inside
from jupyter_ddl.auto_distribution.refusals import refuse_distributed, refuse_loop, refuse_model, refuse_plain_cell
from jupyter_ddl.engine import run_context
from jupyter_ddl.protocol.cell_options import GLOBAL
from jupyter_ddl.training.backends import BACKEND, JAX, hvd
from jupyter_ddl.training.optimizer.distributed_optimizer import DistributedOptimizer
from jupyter_ddl.training.optimizer.distribution import (
    all_distributed,
    check_updates,
    distribute_again,
    is_distributed,
    is_made_by_class,
    set_again,
    undistributed,
)
from jupyter_ddl.training.optimizer.learning_rate import inner

if TYPE_CHECKING:
    from jupyter_ddl.protocol.cell_options import AutoOptions

# The optimizers that `--auto` distributed, and not the program.
_ours: WeakSet[Any] = WeakSet()


def options() -> AutoOptions | None:
    """Return how the current run is to be distributed; None where it is not, or there is only one rank.

    Nor where `jax_training` distributes it, as one program over the devices of all ranks.
    """
    auto = run_context.options().auto
    if auto is None or hvd.size() == 1 or (BACKEND == JAX and auto.batch == GLOBAL):
        return None
    return auto


def distribute(model: Any) -> None:
    """Distribute a model's optimizer, unless `--auto` has done so before.

    Raises:
        InvalidInput: the model cannot be distributed, or the program has done it.
    """
    refuse_model(model)
    model._assert_compile_called("fit")
    if model.optimizer not in _ours:
        if is_distributed(model.optimizer) and inner(model.optimizer) not in _ours:
            if not is_made_by_class(model.optimizer) or _programs():
                refuse_distributed(model.optimizer)
            # Of `optimizer.from_config(optimizer.get_config())`, where `--auto` has distributed the first one.
            undistributed(model.optimizer)
        if not is_distributed(model.optimizer):
            DistributedOptimizer(model.optimizer)
        _take(model.optimizer)


def _take(optimizer: Any) -> None:
    check_updates(optimizer, _check_update)
    set_again(optimizer, _distribute_again)
    _ours.add(optimizer)


def _distribute_again(optimizer: Any, settings: dict[str, Any]) -> None:
    """Distribute an optimizer that `--auto` had distributed on a rank whose place this one takes."""
    distribute_again(optimizer, settings)
    _take(optimizer)


def _programs() -> list[Any]:
    """Return the optimizers that the program has distributed itself."""
    return [each for each in all_distributed() if each not in _ours]


def is_ours(optimizer: Any) -> bool:
    """Return whether an optimizer was distributed by `--auto`, in this cell or in one before."""
    return optimizer is not None and optimizer in _ours


def refuse_elsewhere(optimizer: Any, what: str) -> None:
    """Raise where an optimizer that `--auto` has distributed trains in a cell that is not to be distributed.

    Raises:
        InvalidInput: it does.
    """
    running = run_context.current()
    if running is not None and running.options.auto is None and is_ours(optimizer):
        refuse_plain_cell(what, independent=running.options.independent)


def _check_update(optimizer: Any) -> None:
    """Refuse a distributed optimizer's update outside of the training that `--auto` divides.

    Raises:
        InvalidInput: it is.
    """
    if is_ours(optimizer) and not inside.get():
        refuse_elsewhere(optimizer, f"an update by {optimizer.__class__.__name__}")
        if options() is not None:
            refuse_loop(optimizer)

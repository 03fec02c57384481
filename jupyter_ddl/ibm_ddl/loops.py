"""Exchanges gradients outside of `fit` in a program that has imported `ddl`: IBM's overrides every optimizer.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.auto_distribution.current_call import inside
from jupyter_ddl.engine import rank_state
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.ibm_ddl.refusals import refuse_loop
from jupyter_ddl.ibm_ddl.uses import Uses
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, ops
from jupyter_ddl.training.collectives import broadcast_variables
from jupyter_ddl.training.optimizer.distributed_optimizer import DistributedOptimizer
from jupyter_ddl.training.optimizer.distribution import is_distributed, is_updating
from jupyter_ddl.training.unconverted import unconverted_around

if TYPE_CHECKING:
    from collections.abc import Callable


def install() -> None:
    """Wrap the optimizers' updates. Safe to call twice."""
    patch(keras.optimizers.Optimizer, "apply", _apply, Layer.DDL)
    if BACKEND == TENSORFLOW:
        import tensorflow as tf

        patch(tf.compat.v1.train.Optimizer, "compute_gradients", _compute_gradients, Layer.DDL, unconverted_around)
        patch(tf.compat.v1, "global_variables_initializer", _initializer, Layer.DDL)
        patch(tf.compat.v1, "initialize_all_variables", _initializer, Layer.DDL)


def start_together(variables: list[Any]) -> None:
    """Give all ranks rank 0's values. Collective: every rank must call this."""
    with ops.outside_of_graphs():
        broadcast_variables(variables, 0)


def _apply(stock: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Exchange the gradients of an update by hand, or refuse it where no rank divides the data."""
    if is_updating() or inside.get() or is_distributed(optimizer) or not _is_distributing():
        return stock(optimizer, *args, **kwargs)
    if not rank_state.here().part(Uses).divides:
        refuse_loop(optimizer)
    given = kwargs.get("trainable_variables", args[1] if len(args) > 1 else None)
    DistributedOptimizer(optimizer)
    start_together(list(given if given is not None else getattr(optimizer, "_trainable_variables", ())))
    # Its class has changed, and with it `apply`, which exchanges.
    return optimizer.apply(*args, **kwargs)


def _compute_gradients(stock: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Average the gradients of an optimizer of TensorFlow 1 over the ranks."""
    pairs = stock(optimizer, *args, **kwargs)
    uses = rank_state.here().part(Uses)
    if not _is_distributing() or _is_horovods(optimizer):
        return pairs
    if not (uses.knows_its_rank or uses.knows_the_size):
        refuse_loop(optimizer)
    import horovod.tensorflow as hvd

    return [(None if gradient is None else hvd.allreduce(gradient), variable) for gradient, variable in pairs]


def _initializer(stock: Callable[..., Any]) -> Any:
    """Initialise the variables, then give all ranks rank 0's."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    initialized = stock()
    if not _is_distributing() or tf.executing_eagerly():
        return initialized
    with tf.control_dependencies([initialized]):
        return hvd.broadcast_global_variables(0)


def _is_distributing() -> bool:
    return rank_state.here().part(Uses).distributes


def _is_horovods(optimizer: Any) -> bool:
    """Return whether Horovod has wrapped the optimizer, which averages by itself."""
    return any(one.__module__.startswith("horovod.") for one in type(optimizer).__mro__)

"""Provides `hvd.DistributedOptimizer`, which makes the user's optimizer exchange gradients before each update.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import keras

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api import arguments
from jupyter_ddl.protocol.cell_options import check_on_drift
from jupyter_ddl.training.backends import global_process_set, hvd
from jupyter_ddl.training.optimizer import options
from jupyter_ddl.training.optimizer.accumulation import Accumulation
from jupyter_ddl.training.optimizer.distribution import distribute, is_distributed, take_exchange_outwards
from jupyter_ddl.training.optimizer.exchange import Exchange
from jupyter_ddl.training.optimizer.local_variables import LocalVariables
from jupyter_ddl.training.requirements import require_horovod


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = hvd.Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: Any = hvd.Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
    on_drift: str | None = None,
    same_batches: bool = False,
) -> Any:
    """Make an optimizer exchange gradients with all ranks before each update, and return it.

    The optimizer itself changes, so that it keeps its state, schedules and `exclude_from_weight_decay`.

    Args:
        optimizer: a Keras 3 optimizer, built or not.
        name: how Horovod's timeline calls the operations; "Distributed" and the optimizer's class by default.
        device_dense: TensorFlow's device for the reduction of dense gradients; "" leaves it to TensorFlow.
        device_sparse: likewise for the IndexedSlices of embeddings.
        compression: `Compression.none`, or `Compression.fp16` to send float16.
        sparse_as_dense: send an embedding's gradient as a dense tensor.
        gradient_predivide_factor: with Average, divide by this before the sum and by world_size / this after it.
        op: Average (equal to one process with the global batch), Sum, or Adasum (of gradients; world_size must be a
            power of two).
        backward_passes_per_step: exchange and update only at every k-th call, with the sum of k gradients.
        average_aggregated_gradients: divide that sum by `backward_passes_per_step`.
        num_groups: older name of a number of `groups`; 0 for none.
        groups: None, a number of groups, or lists of variables whose gradients travel together.
        process_set: the ranks that take part.
        scale_local_gradients: divide the gradients of local variables (`register_local_var`) by the number of ranks.
        on_drift: what `fit` does where the ranks' weights differ: "stop" raises, "warn" prints a warning and
            continues; None for the cell's own `--on-drift`.
        same_batches: all ranks are meant to train on the same batches: no warning.

    Raises:
        InvalidInput: Horovod is not initialised; this is no Keras 3 optimizer, or already distributed; an option is
            not one of the above, or two of them exclude each other.

    Example:
        >>> optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
        >>> model.compile(optimizer, "mse")
        >>> callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
        >>> history = model.fit(x, y, callbacks=callbacks, verbose=0)
    """
    rank_state.here().variables.check()
    require_horovod("hvd.DistributedOptimizer")
    _require_plain(optimizer)
    if on_drift is not None:
        check_on_drift(on_drift)
    plain: Any = type(optimizer)
    exchange = Exchange(
        op=options.reduction(op, process_set, averages_passes=average_aggregated_gradients),
        compression=compression,
        name=name or f"Distributed{plain.__name__}",
        sparse_as_dense=sparse_as_dense,
        predivide=arguments.predivision(gradient_predivide_factor, op),
        groups=options.grouping(groups, num_groups),
        process_set=process_set,
        device_dense=device_dense,
        device_sparse=device_sparse,
        on_drift=on_drift,
        same_batches=same_batches,
    )
    passes = arguments.backward_passes(backward_passes_per_step)
    options.require_accumulation(passes)
    accumulation = Accumulation(passes, average=average_aggregated_gradients) if passes > 1 else None
    distribute(optimizer, exchange, accumulation, LocalVariables(scaled=scale_local_gradients))
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        take_exchange_outwards(optimizer)
    return optimizer


def PartialDistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any, *args: Any, local_layers: Any = None, **kwargs: Any
) -> Any:
    """Make an optimizer exchange gradients, except those of some layers, which stay each rank's own; return it.

    Args:
        optimizer: a Keras 3 optimizer, built or not.
        *args: as `DistributedOptimizer` takes them.
        local_layers: a built layer, or several.
        **kwargs: as `DistributedOptimizer` takes them.

    Raises:
        InvalidInput: `local_layers` are not Keras layers; or as `DistributedOptimizer`.

    Example:
        >>> last = model.layers[-1]
        >>> optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.01), local_layers=last)
        >>> model.compile(optimizer, "mse")
        >>> history = model.fit(x, y, verbose=0)
    """
    variables = options.variables_of(local_layers)
    distributed = DistributedOptimizer(optimizer, *args, **kwargs)
    for variable in variables:
        distributed.register_local_var(variable)
    return distributed


def _require_plain(optimizer: Any) -> None:
    if is_distributed(optimizer):
        raise InvalidInput(
            "An optimizer is distributed once.",
            f"a {type(optimizer).__name__}",
            "Drop the second hvd.DistributedOptimizer.",
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InvalidInput(
            "hvd.DistributedOptimizer takes a Keras 3 optimizer.",
            f"{type(optimizer).__module__}.{type(optimizer).__name__}",
            "Pass one of keras.optimizers, e.g. keras.optimizers.Adam(1e-3).",
        )

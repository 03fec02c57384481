"""Adds the exchange of gradients to a GradientTape: `DistributedGradientTape`, for Keras 3 variables too.

Stock Horovod asks each source for `ref()`, which Keras 3's variables do not have.
Source: horovod 0.28.1, horovod/tensorflow/__init__.py, _DistributedGradientTape.gradient

Runs on: every rank.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.tensorflow.mpi_ops import global_process_set

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api import arguments
from jupyter_ddl.training.optimizer import options
from jupyter_ddl.training.optimizer.exchange import Exchange
from jupyter_ddl.training.optimizer.local_variables import LocalVariables
from jupyter_ddl.training.requirements import require_horovod
from jupyter_ddl.training.unconverted import unconverted


class DistributedTapeMixin:
    """What makes a tf.GradientTape a distributed one; it comes before the tape's own class."""

    _exchange: Exchange
    _local: LocalVariables

    @unconverted
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        use_generic_names: bool = False,  # noqa: ARG002 (Horovod's; our names are generic)
        **kwargs: Any,
    ) -> Any:
        """Return the gradients of `target` with respect to `sources`, reduced over all ranks, in their structure.

        Collective: every rank must call this, in the same order.
        """
        own = super().gradient(target, sources, output_gradients, **kwargs)  # type: ignore[misc]
        variables = tf.nest.flatten(sources)
        gradients = self._exchange.weighed(tf.nest.flatten(own))
        reduced = self._local.reduce_others(self._exchange, gradients, variables)
        return tf.nest.pack_sequence_as(sources, reduced)

    def register_local_source(self, source: Any) -> None:
        """Leave a variable out of the exchange: its gradient stays this rank's own."""
        self._local.add(source)

    @unconverted
    def get_local_and_global_gradients(
        self, target: Any, sources: Any, output_gradients: Any = None, use_generic_names: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """Return pairs (variable, gradient): those of local variables, and those reduced over all ranks.

        Collective: every rank must call this, in the same order.
        """
        variables = tf.nest.flatten(sources)
        gradients = self.gradient(target, variables, output_gradients, use_generic_names)
        pairs = list(zip(variables, gradients, strict=True))
        return [pair for pair in pairs if pair[0] in self._local], [
            pair for pair in pairs if pair[0] not in self._local
        ]


@unconverted
def DistributedGradientTape(  # noqa: N802 (Horovod's name)
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = hvd.Compression.none,
    sparse_as_dense: bool = False,
    op: Any = hvd.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    process_set: Any = global_process_set,
    scale_local_gradients: bool = True,
    same_batches: bool = False,
) -> Any:
    """Make a tape's `gradient` return gradients reduced over all ranks, and return the tape.

    The tape may record before or after this. The other arguments are those of `DistributedOptimizer`.

    Raises:
        InvalidInput: Horovod is not initialised; this is no tf.GradientTape; an option is wrong.

    Example:
        >>> with tf.GradientTape() as tape:
        ...     loss = tf.reduce_mean((model(x) - y) ** 2)
        >>> gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        >>> len(gradients) == len(model.trainable_variables)
        True
    """
    rank_state.here().variables.check()
    require_horovod("hvd.DistributedGradientTape")
    if not isinstance(gradtape, tf.GradientTape):
        raise InvalidInput(
            "hvd.DistributedGradientTape takes a tf.GradientTape.",
            f"{type(gradtape).__module__}.{type(gradtape).__name__}",
            "Pass the tape that recorded the forward pass.",
        )
    gradtape._exchange = Exchange(
        op=options.reduction(op, process_set),
        compression=compression,
        name="DistributedGradientTape",
        sparse_as_dense=sparse_as_dense,
        predivide=arguments.predivision(gradient_predivide_factor, op),
        groups=options.grouping(groups, num_groups),
        process_set=process_set,
        device_dense=device_dense,
        device_sparse=device_sparse,
        same_batches=same_batches,
    )
    gradtape._local = LocalVariables(scaled=scale_local_gradients)
    if not isinstance(gradtape, DistributedTapeMixin):
        plain: Any = type(gradtape)
        gradtape.__class__ = _distributed_class(plain)
    return gradtape


@unconverted
def PartialDistributedGradientTape(  # noqa: N802 (Horovod's name)
    gradtape: Any, *args: Any, local_layers: Any = None, **kwargs: Any
) -> Any:
    """Make a tape's `gradient` reduce gradients over all ranks, except those of some layers; return the tape.

    `local_layers` is a built layer, or several. The other arguments are those of `DistributedGradientTape`.

    Example:
        >>> with tf.GradientTape() as tape:
        ...     loss = tf.reduce_mean((model(x) - y) ** 2)
        >>> tape = hvd.PartialDistributedGradientTape(tape, local_layers=model.layers[-1])
        >>> gradients = tape.gradient(loss, model.trainable_variables)
    """
    variables = options.variables_of(local_layers)
    tape = DistributedGradientTape(gradtape, *args, **kwargs)
    for variable in variables:
        tape.register_local_source(variable)
    return tape


@cache
def _distributed_class(plain: type) -> type:
    return type(plain.__name__, (DistributedTapeMixin, plain), {})

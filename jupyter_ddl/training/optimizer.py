"""The user's optimizer, with the exchange of gradients before each update.

Runs on: every rank.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import horovod.tensorflow as hvd
import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.collectives import require_horovod
from jupyter_ddl.training.exchange import Exchange


class DistributedMixin:
    """What makes a Keras optimizer a distributed one; it comes before the optimizer's own class.

    Everything that Keras does to gradients (unscaling, clipping, weight decay, averages of weights) comes after the
    exchange, so that it sees what one process with the global batch would have seen.
    """

    _exchange = Exchange()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The plain Keras class, so that the optimizer is saved as one.

        Keras writes `optimizer.__class__` in a saved model, by its public or registered name. The model then opens
        where neither Horovod nor jupyter_ddl is installed. `type(optimizer)` and `isinstance` still tell the truth.
        """
        return _plain_class(type(self))

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Exchange the gradients, then update the variables as the plain optimizer does.

        Collective: every rank must call this, in the same order.
        """
        super().apply(self._exchange.reduce(list(grads)), trainable_variables)  # type: ignore[misc]


def DistributedOptimizer(  # noqa: N802 (Horovod's name)
    optimizer: Any, name: str | None = None, *, compression: Any = hvd.Compression.none, op: Any = hvd.Average
) -> Any:
    """Make an optimizer exchange gradients with all ranks before each update, and return it.

    The optimizer itself changes, so that nothing of it is lost: state, schedules, `exclude_from_weight_decay`.

    Args:
        optimizer: a Keras 3 optimizer, built or not.
        name: how Horovod's timeline calls the operations; "Distributed" and the optimizer's class by default.
        compression: `Compression.none`, or `Compression.fp16` to send float16.
        op: Average (equal to one process with the global batch) or Sum.

    Raises:
        InvalidInput: Horovod is not initialised; this is no Keras 3 optimizer, or already distributed; `op` is
            neither Average nor Sum; loss scaling would come before the exchange.
    """
    require_horovod("hvd.DistributedOptimizer")
    _check(optimizer, op)
    plain: Any = type(optimizer)
    exchange = Exchange(op=op, compression=compression, name=name or f"Distributed{plain.__name__}")
    # Past Keras's own __setattr__, which would look for variables to track.
    object.__setattr__(optimizer, "_exchange", exchange)
    object.__setattr__(optimizer, "__class__", distributed_class(plain))
    return optimizer


def is_distributed(optimizer: Any) -> bool:
    """Return whether the optimizer exchanges its gradients."""
    return isinstance(optimizer, DistributedMixin)


@cache
def distributed_class(plain: type) -> type:
    """Return the subclass of a Keras optimizer's class that exchanges gradients, the same one each time."""
    return type(f"Distributed{plain.__name__}", (DistributedMixin, plain), {})


def _plain_class(distributed: type) -> type:
    return distributed.__mro__[distributed.__mro__.index(DistributedMixin) + 1]


def _check(optimizer: Any, op: Any) -> None:
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
    if op not in (hvd.Average, hvd.Sum):
        raise InvalidInput("op must be Average or Sum.", f"op={op}", "Pass op=hvd.Average or op=hvd.Sum.")
    if keras.config.dtype_policy().name == "mixed_float16":
        require_scaling_after_exchange(optimizer)


def require_scaling_after_exchange(optimizer: Any) -> None:
    """Raise if Keras would look for overflown gradients before they are exchanged.

    Ranks would then disagree whether to skip a step, and one would wait in the exchange for ever. A distributed
    LossScaleOptimizer is right: it sees the same gradients on all ranks.

    Args:
        optimizer: of a model whose dtype policy is mixed_float16, or that scales its loss.

    Raises:
        InvalidInput: the optimizer is not a LossScaleOptimizer, or its inner one is distributed.
    """
    scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if not scales or is_distributed(optimizer.inner_optimizer):
        raise InvalidInput(
            "Under mixed_float16 gradients must be exchanged before Keras looks for overflow in them.",
            type(optimizer.inner_optimizer if scales else optimizer).__name__,
            "Pass hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer)).",
        )

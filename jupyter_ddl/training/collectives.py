"""Collectives on values and on Keras variables, as `horovod.tensorflow.keras` spells them.

Runs on: every rank. Collective, each of them: every rank must call it, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable


def require_horovod(what: str) -> None:
    """Raise unless Horovod is initialised.

    Args:
        what: who needs it, for the error.

    Raises:
        InvalidInput: Horovod is not initialised.
    """
    if not hvd.is_initialized():
        raise InvalidInput(f"{what} needs Horovod.", "Horovod is not initialised", "Call hvd.init() first.")


def require_rank(root_rank: int) -> None:
    """Raise unless `root_rank` is a rank of this world.

    Raises:
        InvalidInput: there is no such rank.
    """
    if not 0 <= root_rank < hvd.size():
        raise InvalidInput(
            "root_rank must be one of the ranks.",
            f"root_rank={root_rank}, world_size={hvd.size()}",
            f"Pass 0 <= root_rank < {hvd.size()}.",
        )


def allreduce(value: Any, name: str | None = None, *, op: Any = hvd.Average) -> Any:
    """Return the average (or with `op=Sum` the sum) of every rank's value, as an eager tensor.

    Args:
        value: a number, array or tensor, of the same shape and dtype on all ranks.
        name: of the operation, for Horovod's timeline.
        op: Average or Sum.
    """
    require_horovod("hvd.allreduce")
    return hvd.allreduce(tf.convert_to_tensor(value), name=name, op=op)


def allgather(value: Any, name: str | None = None) -> Any:
    """Return every rank's value, concatenated in the order of the ranks along the first dimension.

    Args:
        value: an array or tensor; its first dimension may differ between ranks.
        name: of the operation, for Horovod's timeline.
    """
    require_horovod("hvd.allgather")
    return hvd.allgather(tf.convert_to_tensor(value), name=name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Return the root rank's value.

    Args:
        value: a number, array or tensor, of the same shape and dtype on all ranks.
        root_rank: whose value it is.
        name: of the operation, for Horovod's timeline.

    Raises:
        InvalidInput: there is no such rank.
    """
    require_horovod("hvd.broadcast")
    require_rank(root_rank)
    return hvd.broadcast(tf.convert_to_tensor(value), root_rank, name=name)


def broadcast_variables(variables: Iterable[Any], root_rank: int) -> None:
    """Overwrite variables with the root rank's values.

    Args:
        variables: Keras or TensorFlow variables, the same on all ranks in the same order.
        root_rank: whose values win.

    Raises:
        InvalidInput: there is no such rank.
    """
    require_horovod("hvd.broadcast_variables")
    require_rank(root_rank)
    plain = [variable.value if isinstance(variable, keras.Variable) else variable for variable in variables]

    def broadcast_all() -> None:
        for i, variable in enumerate(plain):
            # Ranks find each other's tensors by name, and a variable's own name holds Keras's automatic layer names,
            # which differ where a rank has made one model more.
            variable.assign(hvd.broadcast(variable, root_rank, name=f"broadcast_variables_{i}"))

    # In one graph, so that Horovod gets all of them at once and can send them together.
    tf.function(broadcast_all, autograph=False).get_concrete_function()()

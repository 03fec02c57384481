"""IBM's DDL, as programs import it: `ddl.rank()`, `ddl.size()`, `ddl.DDLCallback()` and the others.

The slides: "This is the only necessary step to enable distributed training with DDL": `import ddl`.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import keras

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.ibm_ddl.refusals import refuse_backend

refuse_backend(keras.config.backend())

from jupyter_ddl.auto_distribution import same_data  # noqa: E402 (they need the backend that was checked)
from jupyter_ddl.ibm_ddl.uses import LOCAL_RANK, RANK, SIZE, Uses  # noqa: E402
from jupyter_ddl.training import collectives, seeds  # noqa: E402
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, hvd  # noqa: E402
from jupyter_ddl.training.callbacks import BroadcastGlobalVariablesCallback, MetricAverageCallback  # noqa: E402

if BACKEND == TENSORFLOW:
    from jupyter_ddl.ibm_ddl.session_hook import DDLGlobalVariablesHook

__all__ = [
    "DDLCallback",
    "DDLGlobalVariablesCallback",
    "DDLGlobalVariablesHook",
    "all_reduce_n",
    "allreduce",
    "barrier",
    "bcast",
    "init",
    "local_rank",
    "local_size",
    "rank",
    "size",
]
_OPERATIONS = {"avg": hvd.Average, "sum": hvd.Sum}


def begin() -> None:
    """Connect the ranks, and give them alike random states: a program that does not divide its data has them alike.

    Collective: every rank must call this.
    """
    uses = rank_state.here().part(Uses)
    if not hvd.is_initialized():
        hvd.init()
    if not uses.draws_alike and hvd.size() > 1:
        seeds.make_alike()
        same_data.warn_of_hashes()
        uses.draws_alike = True
    uses.begin(hvd.size())


def rank() -> int:
    """Return this rank's number."""
    return _asked(RANK, hvd.rank())


def size() -> int:
    """Return the number of ranks."""
    return _asked(SIZE, hvd.size())


def local_rank() -> int:
    """Return this rank's number on its host."""
    return _asked(LOCAL_RANK, hvd.local_rank())


def local_size() -> int:
    """Return the number of ranks on this host."""
    return int(hvd.local_size())


def init(*_options: Any, **_named: Any) -> None:
    """Do nothing: the import has connected the ranks. Older programs pass the mode of the reduction here."""


def bcast(value: Any, root: int = 0) -> Any:
    """Return one rank's value on all ranks, as a tensor; in a graph of TensorFlow 1, as the operation.

    Collective: every rank must call this, or run the operation.

    Args:
        value: a number, array, variable or tensor, of the same shape and dtype on all ranks.
        root: the rank whose value it is.

    Example:
        >>> weights = tf.Variable(ddl.bcast(tf.random.normal([784, 10])))
    """
    return collectives.broadcast(value, root)


def allreduce(value: Any, op: str = "avg") -> Any:
    """Return the average of every rank's value, or the sum, as a tensor.

    Collective: every rank must call this, or run the operation.

    Args:
        value: a number, array or tensor, of the same shape and dtype on all ranks.
        op: "avg" or "sum".

    Raises:
        InvalidInput: `op` is neither.
    """
    if op not in _OPERATIONS:
        raise InvalidInput("ddl.allreduce averages or sums.", f"op={op!r}", 'Pass "avg" or "sum".')
    return collectives.allreduce(value, op=_OPERATIONS[op])


def all_reduce_n(values: Any, op: str = "avg") -> list[Any]:
    """Return the averages of every rank's values, or the sums: an `allreduce` for each.

    Collective: every rank must call this, or run the operations.

    Example:
        >>> gradients = ddl.all_reduce_n(gradients, op="avg")
    """
    return [None if value is None else allreduce(value, op) for value in values]


def barrier() -> None:
    """Wait until every rank has called this."""
    collectives.barrier()


class DDLCallback(MetricAverageCallback):
    """Replaces each rank's metrics of an epoch by those over all ranks. Comes first in the list."""

    def __init__(self) -> None:
        super().__init__()


class DDLGlobalVariablesCallback(BroadcastGlobalVariablesCallback):
    """Starts all ranks from rank 0's weights and optimizer state. Comes last in the list."""

    def __init__(self) -> None:
        super().__init__(0)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"jupyter_ddl serves of IBM's ddl: {', '.join(__all__)}. Received: ddl.{name}.")


def _asked(what: str, value: Any) -> int:
    rank_state.here().part(Uses).ask(what)
    return int(value)

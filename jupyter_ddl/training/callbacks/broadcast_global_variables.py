"""Starts all ranks from one rank's weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import ops
from jupyter_ddl.training.collectives import broadcast_variables
from jupyter_ddl.training.optimizer.sharding import alike_variables
from jupyter_ddl.training.requirements import require_horovod, require_rank

if TYPE_CHECKING:
    from collections.abc import Iterable


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Give all ranks the root rank's weights and optimizer state when training begins.

    Weights include BatchNormalization's moving averages. Random seeds stay each rank's own, so dropout differs.

    A model without an input shape has no weights until its first step, so it gets the root rank's after that step,
    as with stock Horovod. Give it a `keras.Input` to have all ranks take the first step from the same weights.

    Args:
        root_rank: whose weights win, e.g. the rank that loaded a checkpoint.
        device: the device for the broadcast; "" leaves it to the backend.
        local_variables: a variable, or several, that stay each rank's own.

    Raises:
        InvalidInput: Horovod is not initialised; there is no such rank; a local variable is no variable.

    Example:
        >>> callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0)]
        >>> history = model.fit(x, y, callbacks=callbacks, verbose=0)
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any | Iterable[Any] | None = None) -> None:
        super().__init__()
        require_horovod("BroadcastGlobalVariablesCallback")
        require_rank(root_rank)
        self.root_rank = root_rank
        self.device = device
        self._local: set[int] = set()
        self._kept: list[Any] = []
        self._is_due = False
        for variable in _several(local_variables):
            self.register_local_var(variable)

    def register_local_var(self, var: Any) -> None:
        """Leave a variable of the model out of the broadcast.

        Raises:
            InvalidInput: it is no variable of Keras's or of its backend's.
        """
        if not ops.is_variable(var):
            raise InvalidInput(
                "local_variables takes variables.",
                f"{type(var).__module__}.{type(var).__name__}",
                "Pass e.g. layer.trainable_weights.",
            )
        self._local.add(_identity(var))
        self._kept.append(var)  # an id may be reused once its object is gone

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Broadcast, if the model has its weights already."""
        self._is_due = True
        if self.model.built:
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Broadcast after the first step, if the model had no weights before."""
        if self._is_due:
            self._broadcast()

    def _broadcast(self) -> None:
        self._is_due = False
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        variables = [*self.model.weights, *alike_variables(optimizer), *ops.buffers_of(self.model)]
        with ops.on_device(self.device):
            broadcast_variables([v for v in variables if _identity(v) not in self._local], self.root_rank)


def _several(variables: Any) -> list[Any]:
    if variables is None:
        return []
    if ops.is_variable(variables):
        return [variables]
    return list(variables)


def _identity(variable: Any) -> int:
    """Return the same number for a Keras variable and for the backend's variable inside it, where it has one."""
    return id(variable.value if isinstance(variable, keras.Variable) and not ops.is_functional() else variable)

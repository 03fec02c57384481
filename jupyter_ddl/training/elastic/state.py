"""Commits and restores the state of elastic training: a model, its optimizer, and values of the user's.

Runs on: every rank.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import horovod.tensorflow as hvd
from horovod.common.elastic import ObjectState

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.collectives import broadcast_variables
from jupyter_ddl.training.requirements import require_horovod


class KerasState(ObjectState):
    """The state of a training: weights, the optimizer's state, and attributes of the user's.

    Attributes:
        commits: how often `save` or `commit` was called on this rank.

    Args:
        model: a built Keras model.
        optimizer: the model's own by default.
        backend: Horovod's; unused.
        **kwargs: attributes of this object, e.g. `epoch=0, batch=0`, that are committed and synced with it.

    Raises:
        InvalidInput: Horovod is not initialised; the model is not built; there is no optimizer.

    Example:
        >>> state = hvd.elastic.KerasState(model, epoch=0)
        >>> state.epoch = 3
        >>> state.commit()
        >>> state.epoch = 4
        >>> state.restore()
        >>> state.epoch
        3
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any = None,
        backend: Any = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> None:
        require_horovod("KerasState")
        if not model.built:
            raise InvalidInput(
                "KerasState takes a model that has its weights.",
                f"{model.name}, which is not built",
                "Begin it with keras.Input, or call model.build(input_shape).",
            )
        self.model = model
        self.optimizer: Any = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        if self.optimizer is None:
            raise InvalidInput(
                "KerasState needs an optimizer.",
                f"{model.name}, which is not compiled",
                "Call model.compile first, or pass optimizer.",
            )
        if not self.optimizer.built:
            self.optimizer.build(model.trainable_variables)
        self._saved_state: dict[str, Any] = {}  # Horovod's
        self.commits = 0
        self._values: list[Any] = []
        super().__init__(
            bcast_object=partial(hvd.broadcast_object, root_rank=0, name="elastic_state"), get_rank=hvd.rank, **kwargs
        )
        self._keep_values()

    def save(self) -> None:
        """Commit to this rank's memory."""
        self._keep_values()
        super().save()
        # A commit must not change when the user changes a list or dictionary afterwards.
        self._saved_state = copy.deepcopy(self._saved_state)
        self.commits += 1

    def restore(self) -> None:
        """Restore the last commit."""
        for variable, value in zip(self._variables(), self._values, strict=True):
            variable.assign(value)
        committed = self._saved_state
        self._saved_state = copy.deepcopy(committed)
        super().restore()
        self._saved_state = committed

    def sync(self) -> None:
        """Give all ranks the weights of rank 0, and its last committed attributes.

        Collective: every rank must call this.
        """
        broadcast_variables(self._variables(), root_rank=0)
        self._keep_values()
        super().sync()
        self._saved_state = copy.deepcopy(self._saved_state)

    def check_host_updates(self) -> None:
        """Do nothing: the hosts of an MPI job stay. Stock Horovod asks rank 0 here, at each commit."""

    def _keep_values(self) -> None:
        self._values = [variable.numpy() for variable in self._variables()]

    def _variables(self) -> list[Any]:
        # Random seeds are no weights, and stay each rank's own.
        return [*self.model.weights, *self.optimizer.variables]

"""Synchronises ranks that an interrupted training left a step apart: the next `fit` begins from one rank's weights.

Ranks are released by Horovod's shutdown, or interrupted, wherever they are: one has made the last update and another
has not. That is no mistake of the program's, so a warning is printed and the ranks are synchronised, where
`RanksOutOfSync` would end each `fit` from then on. Weights that the program itself sets on some ranks, before or since,
are a mistake, and stay an error.

Runs on: every rank.
"""

from __future__ import annotations

import hashlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import keras
import numpy as np

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput, RanksOutOfSync
from jupyter_ddl.protocol.rank_sets import named
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.collectives import broadcast_variables
from jupyter_ddl.training.consistency.comparison import Comparison
from jupyter_ddl.training.fit.first_batches import Cut
from jupyter_ddl.training.optimizer.build import build
from jupyter_ddl.training.optimizer.distribution import all_distributed, is_distributed, trained_together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.engine.cells import Cell


@dataclass
class _Left:
    """What an interrupted training left on this rank.

    Attributes:
        digest: of the weights then; None until the next cell begins.
    """

    digest: bytes | None = None


_left: WeakKeyDictionary[Any, _Left] = WeakKeyDictionary()
# How many steps each optimizer had taken when the cell began.
_iterations: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
# Optimizers whose ranks were found apart by the program's doing: a later interrupt is not the cause.
_apart: WeakSet[Any] = WeakSet()


def begin_cell(_cell: Cell) -> None:
    """Note what the last cell left, before the program changes it."""
    last_failed = rank_state.here().cells.last_failed
    for optimizer in filter(ops.can_be_read, all_distributed()):
        taken = int(optimizer.iterations.numpy())
        if last_failed and taken != _iterations.get(optimizer, 0):
            _note(optimizer)
        _iterations[optimizer] = taken
    for optimizer, left in _left.items():
        if left.digest is None and ops.can_be_read(optimizer):
            left.digest = _digest(optimizer)


def require_weights(optimizer: Any) -> None:
    """Raise where a model has no weights any more.

    Raises:
        InvalidInput: its last training raised within a step which had them.
    """
    if optimizer is not None and not ops.can_be_read(optimizer):
        raise InvalidInput(
            "A model trains on from weights that it has.",
            "one whose last training was cut off within a step, to which Keras on JAX had given them",
            "Make and compile the model again, or load it from a checkpoint.",
        )


@contextmanager
def noted(optimizer: Any) -> Iterator[None]:
    """Note that a training was interrupted, if an exception leaves the block."""
    try:
        yield
    except RanksOutOfSync:
        raise
    except BaseException:  # an interrupt too
        _note(optimizer)
        raise
    _left.pop(optimizer, None)


def state(optimizer: Any) -> Cut:
    """Return how the optimizer's last training ended on this rank."""
    left = _left.get(optimizer)
    if left is None:
        return Cut.NO
    return Cut.YES if left.digest in (None, _digest(optimizer)) else Cut.CHANGED_SINCE


def in_step(optimizer: Any) -> None:
    """Note that all ranks were found to hold the same weights."""
    _apart.discard(optimizer)


def out_of_step(optimizer: Any) -> None:
    """Note that ranks were found apart, by the program's own doing."""
    _apart.add(optimizer)
    _left.pop(optimizer, None)


class Together(keras.callbacks.Callback):
    """Gives all ranks the first one's weights and optimizer state, where the last training left them apart.

    Args:
        process_set: the ranks that train together.
    """

    def __init__(self, process_set: Any) -> None:
        super().__init__()
        self._process_set = process_set

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Compare, and broadcast where ranks differ. Collective."""
        model = self.model
        if model.built:
            build(model.optimizer, list(model.trainable_variables))
        variables = self._variables()
        mine = ([tuple(variable.shape) for variable in variables], int(model.optimizer.iterations.numpy()))
        every = hvd.allgather_object(mine, name="cut_short", process_set=self._process_set)
        if not variables or any(shapes != mine[0] for shapes, _ in every):
            # A model that is built in its first step, on some ranks at least.
            return
        steps = [taken for _, taken in every]
        if not any(steps) or not (len(set(steps)) > 1 or self._are_apart()):
            # Without a step, the interrupt is not why they are apart.
            return
        ranks = list(self._process_set.ranks or range(hvd.size()))
        self._go_on_from(ranks[0], variables)
        if hvd.rank() == ranks[0]:
            print(_told(dict(zip(ranks, steps, strict=True))), file=sys.stderr)

    def _are_apart(self) -> bool:
        comparison = Comparison(self.model, self._process_set)
        if not comparison.run(wants_to_stop=False).apart:
            return False
        return comparison.look_closely(epoch=1, first_steps=None) is not None

    def _variables(self) -> list[Any]:
        model = self.model
        kept_alike = trained_together(model.optimizer, model.trainable_variables)
        if len(kept_alike) == len(model.trainable_variables):
            return [*model.weights, *model.optimizer.variables]
        # Local variables stay each rank's own, and so does what the optimizer keeps of them.
        local = {id(variable) for variable in model.trainable_variables} - {id(variable) for variable in kept_alike}
        weights = [weight for weight in model.weights if id(weight) not in local]
        return [*weights, model.optimizer.iterations]

    def _go_on_from(self, root_rank: int, variables: list[Any]) -> None:
        broadcast_variables(variables, root_rank, process_set=self._process_set)
        # A seed stays the rank's own, as with BroadcastGlobalVariablesCallback; how often it was drawn from is alike.
        counters = [variable for variable in self.model.non_trainable_variables if _is_of_seed(variable)]
        if counters:
            own = [variable.numpy() for variable in counters]
            broadcast_variables(counters, root_rank, process_set=self._process_set)
            for variable, value in zip(counters, own, strict=True):
                drawn = variable.numpy()
                drawn[0] = value[0]
                variable.assign(drawn)


def _is_of_seed(variable: Any) -> bool:
    # Source: keras 3.15, src/random/seed_generator.py: the state is [seed, how often it was drawn from].
    return variable.path.endswith("seed_generator_state") and tuple(variable.shape) == (2,)


def _told(steps: dict[int, int]) -> str:
    first = next(iter(steps))
    if len(set(steps.values())) > 1:
        behind = {taken: [rank for rank in steps if steps[rank] == taken] for taken in sorted(set(steps.values()))}
        apart = ", ".join(f"{named(ranks)} at step {taken}" for taken, ranks in behind.items())
    else:
        apart = f"all at step {steps[first]}, with different weights"
    return (
        f"WARNING: the last training of this model was cut short, which left the ranks apart: {apart}. All continue "
        f"from the weights and the optimizer state of rank {first}."
    )


def _note(optimizer: Any) -> None:
    if is_distributed(optimizer) and optimizer not in _apart:
        _left[optimizer] = _Left()


def _digest(optimizer: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=8)
    for variable in optimizer._trainable_variables:
        digest.update(np.ascontiguousarray(variable.numpy()).tobytes())
    return digest.digest()

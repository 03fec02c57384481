"""Shards a distributed optimizer's state over the ranks, and shows it whole to a checkpoint.

Runs on: every rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.collectives import broadcast_variables
from jupyter_ddl.training.optimizer.distribution import (
    accumulation_of,
    exchange_of,
    has_users_update,
    is_distributed,
    local_variables_of,
    set_shards,
    shards_of,
)
from jupyter_ddl.training.optimizer.learning_rate import inner
from jupyter_ddl.training.optimizer.state_shards import StateShards

if TYPE_CHECKING:
    from collections.abc import Sequence

# What updates each number by itself, so that a part is updated as in the whole.
_OF_NUMBERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion")


def shard_state(optimizer: Any, variables: Sequence[Any]) -> None:
    """Shard a distributed optimizer's state, once; state that it has already becomes this rank's part of rank 0's.

    Collective: every rank of the optimizer's process set must call this.

    Args:
        optimizer: distributed.
        variables: all that it trains, in the same order on all ranks.

    Raises:
        InvalidInput: its state cannot be sharded.
    """
    if shards_of(optimizer) is not None or exchange_of(optimizer).process_set.size() == 1:
        return
    _check(optimizer)
    plain = inner(optimizer)
    shards = StateShards(variables, exchange_of(optimizer))
    excluded: set[Any] = getattr(plain, "_exclude_from_weight_decay", set())
    for variable, part in zip(shards.variables, shards.parts, strict=True):
        if plain._var_key(variable) in excluded:
            excluded.add(plain._var_key(part))
    before = _taken_state(plain) if plain.built else None
    set_shards(optimizer, shards)
    if before is None:
        return
    # Ranks may have loaded different ones, or one rank alone.
    broadcast_variables(before, 0)
    if plain is optimizer:
        optimizer.build(shards.parts)
    else:
        plain.build(shards.parts)
    for whole, own in zip(before, state_of(plain), strict=True):
        own.assign(whole.value if own.shape == whole.shape else shards.rows(whole.value)[hvd.rank()])


def state_of(plain: Any) -> list[Any]:
    """Return the variables of an optimizer but for its iterations and its learning rate."""
    others = {id(plain._iterations), id(plain._learning_rate)}
    return [variable for variable in plain._variables if id(variable) not in others]


def alike_variables(optimizer: Any) -> list[Any]:
    """Return an optimizer's variables that all ranks have alike: without its state where that is sharded."""
    if not is_distributed(optimizer) or shards_of(optimizer) is None:
        return list(optimizer.variables)
    own = {id(variable) for variable in _sharded(optimizer)}
    return [variable for variable in optimizer.variables if id(variable) not in own]


def whole_variables(optimizer: Any) -> list[Any]:
    """Return an optimizer's variables, those whose parts the ranks have as `WholeVariable`, in the same order."""
    shards = shards_of(optimizer) if is_distributed(optimizer) else None
    if shards is None:
        return list(optimizer.variables)
    # Slots are made for one weight after another, or for all weights one kind after another: found by their paths.
    of = {id(variable): shards.variables[number] for number, variable in _sharded_with_numbers(optimizer)}
    return [
        WholeVariable(variable, of[id(variable)], shards) if id(variable) in of else variable
        for variable in optimizer.variables
    ]


class WholeVariable:
    """A variable of an optimizer's state of which each rank has its part, as a checkpoint has it: whole.

    Attributes:
        name: as `path`.
        path: the variable's, which does not depend on the ranks.
        shape: of the whole.
        dtype: a name.
    """

    def __init__(self, own: Any, weight: Any, shards: StateShards) -> None:
        self._own = own
        self._shards = shards
        self._value: Any = None
        self.path = self.name = own.path
        self.shape = tuple(weight.shape)
        self.dtype = own.dtype

    def collect(self) -> None:
        """Have rank 0 hold the whole until `numpy` is called. Collective: every rank must call this."""
        rows = hvd.allgather(keras.ops.reshape(ops.tensor(self._own), (1, -1)), name=f"whole.{self.path}")
        if hvd.rank() == 0:
            self._value = ops.array(rows).reshape(-1)[: math.prod(self.shape)].reshape(self.shape)

    def numpy(self) -> Any:
        """Return the whole, once after each `collect`, on rank 0."""
        assert self._value is not None
        value, self._value = self._value, None
        return value

    def assign(self, value: Any) -> None:
        """Set this rank's part of the whole."""
        self._own.assign(self._shards.rows(keras.ops.convert_to_tensor(np.asarray(value)))[hvd.rank()])


def _sharded(optimizer: Any) -> list[Any]:
    return [variable for _, variable in _sharded_with_numbers(optimizer)]


def _sharded_with_numbers(optimizer: Any) -> list[tuple[int, Any]]:
    """Return the variables of the state that are this rank's part of something, with the number of their weight."""
    shards = shards_of(optimizer)
    if shards is None or not inner(optimizer).built:
        return []
    by_path = [(number, part.path.replace("/", "_")) for number, part in enumerate(shards.parts)]
    found = []
    for variable in state_of(inner(optimizer)):
        name = variable.path.rpartition("/")[2]
        # The longest: a weight's name may begin another's.
        fitting = [(len(path), number) for number, path in by_path if name.startswith(f"{path}_")]
        if fitting and variable.shape == shards.parts[max(fitting)[1]].shape:
            found.append((max(fitting)[1], variable))
    return found


def _taken_state(plain: Any) -> list[Any]:
    """Return an optimizer's state, which it has no longer: it can be built again."""
    state = state_of(plain)
    taken = {id(variable) for variable in state}
    plain._variables[:] = [variable for variable in plain._variables if id(variable) not in taken]
    plain._trainable_variables_indices.clear()
    plain.built = False
    return state


def _check(optimizer: Any) -> None:
    plain, exchange = inner(optimizer), exchange_of(optimizer)
    clips = plain.clipnorm is not None or plain.global_clipnorm is not None
    kind: Any = plain.__class__
    refused = {
        kind.__name__: kind.__name__ not in _OF_NUMBERS or not str(kind.__module__).startswith("keras."),
        "use_ema=True": plain.use_ema,
        "a norm to clip by, with gradient_accumulation_steps": clips and plain.gradient_accumulation_steps,
        "op=Adasum": exchange.op == hvd.Adasum,
        "gradient_predivide_factor": exchange.predivide != 1.0,
        "backward_passes_per_step": accumulation_of(optimizer) is not None,
        "variables that stay each rank's own": bool(local_variables_of(optimizer)),
        "an apply_gradients of its own": has_users_update(optimizer),
        "a part of the ranks": exchange.process_set.size() != hvd.size(),
    }
    for received, is_there in refused.items():
        if is_there:
            raise InvalidInput(
                f"--memory shard-optimizer takes {', '.join(_OF_NUMBERS)} of Keras's, which update each number by "
                "itself, over all ranks.",
                received,
                "Drop shard-optimizer from --memory, or take another optimizer.",
            )

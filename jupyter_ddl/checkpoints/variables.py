"""Collects the variables of a training's state, and finds which differ between the ranks.

Runs on: every rank.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from jupyter_ddl.checkpoints.archive import Described, numpy_dtype
from jupyter_ddl.training.backends import hvd, ops
from jupyter_ddl.training.consistency.comparison import digest
from jupyter_ddl.training.optimizer.distribution import accumulation_of, is_distributed, local_variables_of
from jupyter_ddl.training.optimizer.extra_variables import RATE_FACTOR, WARMUP_EPOCHS, saved_with
from jupyter_ddl.training.optimizer.learning_rate import inner
from jupyter_ddl.training.optimizer.sharding import WholeVariable, whole_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Keras numbers objects without a name, and continues to count when a cell runs again.
_NUMBER = re.compile(r"_\d+(?=[_/]|$)")
# Each fit sets them for its own ranks.
_OF_SEVERAL_RANKS = (RATE_FACTOR, WARMUP_EPOCHS)


class Variables:
    """All variables that a model's training changes, in one order on all ranks.

    Weights, the states of layers' random number generators, moving averages, and all of the optimizer's.

    Args:
        model: built and compiled; its optimizer is built here, where it is not yet.
    """

    def __init__(self, model: Any) -> None:
        optimizer = model.optimizer
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        metrics = {id(variable) for variable in model.metrics_variables}
        own = [variable for variable in model.variables if id(variable) not in metrics]
        local = local_variables_of(optimizer) if is_distributed(optimizer) else ()
        trained = {id(variable) for variable in model.trainable_variables if variable not in local}
        accumulation = accumulation_of(optimizer)
        sums = accumulation.variables_for(model.trainable_variables) if accumulation is not None else []
        of_optimizer = [*whole_variables(optimizer), *saved_with(inner(optimizer))]
        buffers = ops.buffers_of(model)
        self.all = [*own, *of_optimizer, *sums, *buffers]
        self.described = tuple(map(_described, self.all))
        # The variables that the exchange does not keep alike: with local variables, their moments too.
        may_differ = {id(variable) for variable in [*own, *sums, *buffers] if id(variable) not in trained}
        if any(variable in local for variable in model.trainable_variables):
            may_differ |= {id(variable) for variable in of_optimizer}
        self._may_differ = [number for number, each in enumerate(self.all) if id(each) in may_differ]

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Have rank 0 hold what is sharded whole, to be read once in the block. Collective: every rank enters it."""
        for variable in self.all:
            if isinstance(variable, WholeVariable):
                variable.collect()
        with ops.whole_on_first_rank(self.all):
            yield

    def values_that_differ(self, gather: Callable[[Any], list[Any]]) -> dict[int, dict[int, Any]]:
        """Return, by rank but for rank 0, the values that differ from rank 0's, by the variable's number.

        Args:
            gather: returns the values that all ranks pass to it, in their order. Collective.
        """
        digests = gather([digest(self.all[number]) for number in self._may_differ])
        differ = [
            number
            for position, number in enumerate(self._may_differ)
            if len({of_rank[position] for of_rank in digests}) > 1
        ]
        if not differ:
            return {}
        everyone = gather({number: self.all[number].numpy() for number in differ})
        return dict(enumerate(everyone[1:], start=1))

    def difference(self, saved: Sequence[Described]) -> str | None:
        """Return how a checkpoint's variables differ from these; None where they are of such a model.

        Those that only several ranks have may be on either side alone: another number of ranks resumes it too.
        """
        pairs = list(zip(_of_any_ranks(saved), _of_any_ranks(self.described), strict=False))
        if len(pairs) < max(len(_of_any_ranks(saved)), len(_of_any_ranks(self.described))):
            return f"{len(saved)} variables, where this model and its optimizer have {len(self.described)}"
        for theirs, ours in ((saved[place], self.described[number]) for place, number in pairs):
            if (_unnumbered(theirs.name), theirs.shape, theirs.dtype) != (
                _unnumbered(ours.name),
                ours.shape,
                ours.dtype,
            ):
                return f"{theirs}, where this model has {ours}"
        return None

    def places_in(self, saved: Sequence[Described]) -> dict[int, int]:
        """Return, by the number of each of these variables, its number in a checkpoint that has it.

        Args:
            saved: the checkpoint's, of which `difference` returned None.
        """
        places = dict(zip(_of_any_ranks(self.described), _of_any_ranks(saved), strict=True))
        by_name = {each.name: place for place, each in enumerate(saved) if each.name in _OF_SEVERAL_RANKS}
        for number, each in enumerate(self.described):
            if each.name in by_name:
                places[number] = by_name[each.name]
        return places

    def assign(self, number: int, value: Any) -> None:
        """Set a variable."""
        self.all[number].assign(value)

    def receive(self, number: int, read: Callable[[], Any]) -> None:
        """Set a variable to what rank 0 reads. Collective: every rank must call this.

        Args:
            number: the variable's.
            read: returns its value in the checkpoint; called on rank 0 only.
        """
        variable, described = self.all[number], self.described[number]
        dtype = numpy_dtype(described.dtype)
        value = read() if hvd.rank() == 0 else np.zeros(described.shape, dtype)
        # As bytes: Horovod has no uint32, which random states are.
        flat = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8).copy()
        if flat.size:
            flat = ops.array(hvd.broadcast(ops.tensor(flat), 0, name=f"checkpoint_{number}"))
        variable.assign(np.frombuffer(flat.tobytes(), dtype).reshape(described.shape).copy())


def _described(variable: Any) -> Described:
    name = variable.path if isinstance(variable, keras.Variable | WholeVariable) else variable.name.partition(":")[0]
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return Described(name, tuple(variable.shape), dtype)


def _of_any_ranks(described: Sequence[Described]) -> list[int]:
    """Return the numbers of the variables that a model and its optimizer have on any number of ranks."""
    return [number for number, each in enumerate(described) if each.name not in _OF_SEVERAL_RANKS]


def _unnumbered(name: str) -> str:
    return _NUMBER.sub("", name)

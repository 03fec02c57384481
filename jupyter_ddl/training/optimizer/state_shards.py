"""Shards an optimizer's state over the ranks: each keeps that of its part of every weight, and updates that part.

Gradients are reduced and scattered, each rank updates its part with the plain optimizer, and the parts of the weights
are gathered: as much is sent as for an allreduce. Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward
Training Trillion Parameter Models", section 5.1.

Runs on: every rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from jupyter_ddl.training import step
from jupyter_ddl.training.backends import hvd, ops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.training.optimizer.exchange import Exchange

# Of what travels together: copies of it are made, so it is no larger than is fast.
_BUCKET_BYTES = 16 * 2**20


class StateShards:
    """This rank's parts of the weights that an optimizer trains.

    A weight of n numbers is padded to a multiple of the ranks, and each has one piece of it. A part is set from its
    weight before each update, so that weights which a program sets or loads are trained from there.

    Args:
        variables: the weights, in the same order on all ranks.
        exchange: how their gradients are exchanged: Average or Sum.
    """

    def __init__(self, variables: Sequence[Any], exchange: Exchange) -> None:
        self._exchange = exchange
        self._size, self._rank = exchange.process_set.size(), exchange.process_set.rank()
        self.variables = list(variables)
        with ops.outside_of_graphs():
            self.parts = [self._part_of(variable) for variable in self.variables]
        self._numbers = {step.key(variable): number for number, variable in enumerate(self.variables)}

    def length(self, shape: Sequence[int]) -> int:
        """Return the numbers in each rank's part of a weight of some shape."""
        return int(-(-math.prod(shape) // self._size))

    def scattered(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the reduced gradients of this rank's parts, in the order of `parts`; None stays None.

        Collective: every rank must call this, with gradients of the same variables in the same order.

        Args:
            gradients: as `Exchange.weighed` returns them.
            variables: what they are gradients of.
        """
        found: list[Any] = [None] * len(self.parts)
        by_number = {
            self._numbers[step.key(variable)]: ops.densified(gradient)
            for gradient, variable in zip(gradients, variables, strict=True)
            if gradient is not None
        }
        with ops.naming(f"{self._exchange.name}Shards") as scope:
            clock = step.clock()
            dense = list(by_number.values())

            def reduce() -> list[Any]:
                return self._reduced(by_number, scope)

            reduced = reduce() if clock is None else clock.exchange(dense, reduce)
        for number, part in zip(by_number, reduced, strict=True):
            found[number] = part
        return found

    def own(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return this rank's parts of gradients that all ranks have alike, in the order of `parts`."""
        found: list[Any] = [None] * len(self.parts)
        for gradient, variable in zip(gradients, variables, strict=True):
            if gradient is not None:
                found[self._numbers[step.key(variable)]] = self.rows(ops.densified(gradient))[self._rank]
        return found

    def take(self) -> None:
        """Set the parts from the weights."""
        for variable, part in zip(self.variables, self.parts, strict=True):
            part.assign(self.rows(variable.value)[self._rank])

    def gather(self) -> None:
        """Set the weights from all ranks' parts. Collective: every rank must call this."""
        with ops.naming(f"{self._exchange.name}Weights") as scope:
            for place, numbers in enumerate(self._buckets(range(len(self.parts)))):
                own = keras.ops.concatenate([keras.ops.reshape(self.parts[i].value, (1, -1)) for i in numbers], axis=1)
                name = f"{_prefix(scope)}.{place}"
                every = ops.gathered_rows(own, name, self._exchange.process_set)
                every = keras.ops.reshape(every, (self._size, own.shape[1]))
                for number, columns in zip(numbers, self._columns(every, numbers), strict=True):
                    variable = self.variables[number]
                    flat = keras.ops.reshape(columns, (-1,))[: math.prod(variable.shape)]
                    variable.assign(keras.ops.reshape(flat, variable.shape))
                    if variable.constraint is not None:
                        variable.assign(variable.constraint(variable))

    def rows(self, value: Any) -> Any:
        """Return a weight's numbers, or its gradient's, as one row for each rank, padded by zeros."""
        length = self.length(value.shape)
        flat = keras.ops.reshape(value, (-1,))
        missing = length * self._size - math.prod(value.shape)
        if missing:
            flat = keras.ops.pad(flat, ((0, missing),))
        return keras.ops.reshape(flat, (self._size, length))

    def agreed(self, gradients: list[Any], optimizer: Any) -> list[Any]:
        """Return gradients of the parts as all ranks have to see them: clipped by norms of whole weights.

        A LossScaleOptimizer skips an update where a gradient is not finite: then all ranks get infinities.

        Collective: every rank must call this.
        """
        plain = getattr(optimizer, "inner_optimizer", optimizer)
        scales = optimizer is not plain
        clips = plain.clipnorm is not None or plain.global_clipnorm is not None
        there = [each for each in gradients if each is not None]
        if not there or not (scales or clips):
            return gradients
        own = keras.ops.stack([keras.ops.sum(keras.ops.square(keras.ops.cast(each, "float64"))) for each in there])
        squares = hvd.allreduce(own, op=hvd.Sum, name="squares_of_shards", process_set=self._exchange.process_set)
        if clips:
            scale = keras.ops.cast(optimizer.dynamic_scale, "float64") if scales else 1.0
            factors = _clipping(plain, keras.ops.sqrt(squares) / scale)
            there = [each * keras.ops.cast(factors[i], each.dtype) for i, each in enumerate(there)]
        if scales:
            finite = keras.ops.isfinite(keras.ops.sum(squares))
            there = [ops.where(finite, each, keras.ops.full_like(each, float("inf"))) for each in there]
        left = iter(there)
        return [None if each is None else next(left) for each in gradients]

    def _part_of(self, variable: Any) -> Any:
        part = keras.Variable(
            np.zeros(self.length(variable.shape)), dtype=variable.dtype, trainable=True, name=variable.name
        )
        # The optimizer names its state by it, and a checkpoint is the same for any number of ranks.
        part._path = variable.path
        return part

    def _reduced(self, by_number: dict[int, Any], scope: str) -> list[Any]:
        found: dict[int, Any] = {}
        for place, numbers in enumerate(self._buckets(by_number)):
            rows = keras.ops.concatenate([self.rows(by_number[number]) for number in numbers], axis=1)
            own = self._scatter(rows, f"{_prefix(scope)}.{place}")
            own = keras.ops.reshape(own, (1, rows.shape[1]))
            for number, columns in zip(numbers, self._columns(own, numbers), strict=True):
                found[number] = keras.ops.reshape(columns, (-1,))
        return [found[number] for number in by_number]

    def _scatter(self, rows: Any, name: str) -> Any:
        exchange = self._exchange
        sent, context = exchange.compression.compress(rows)
        own = hvd.reducescatter(sent, op=exchange.op, name=name, process_set=exchange.process_set)
        return exchange.compression.decompress(own, context)

    def _columns(self, rows: Any, numbers: Sequence[int]) -> Iterator[Any]:
        begin = 0
        for number in numbers:
            end = begin + self.parts[number].shape[0]
            yield rows[:, begin:end]
            begin = end

    def _buckets(self, numbers: Any) -> list[list[int]]:
        """Return the numbers of weights by what travels together: of one dtype, and not too large."""
        buckets: list[list[int]] = []
        filled: dict[str, tuple[list[int], int]] = {}
        for number in numbers:
            dtype = str(self.parts[number].dtype)
            size = math.prod(self.variables[number].shape) * ops.itemsize(self.parts[number])
            bucket, full = filled.get(dtype, ([], _BUCKET_BYTES))
            if full + size > _BUCKET_BYTES:
                bucket, full = [], 0
                buckets.append(bucket)
            bucket.append(number)
            filled[dtype] = (bucket, full + size)
        return buckets


def _clipping(plain: Any, norms: Any) -> Any:
    """Return the factor on each weight's gradient, as Keras's `_clip_gradients` would clip the whole."""
    if plain.clipnorm is not None and plain.clipnorm > 0:
        return plain.clipnorm / keras.ops.maximum(norms, plain.clipnorm)
    whole = keras.ops.sqrt(keras.ops.sum(keras.ops.square(norms)))
    return keras.ops.ones_like(norms) * plain.global_clipnorm / keras.ops.maximum(whole, plain.global_clipnorm)


def _prefix(scope: str) -> str:
    return scope.rstrip("/").replace("/", ".")

"""Combines what each rank measured in an epoch into the values over all ranks.

The average of averages is the average over all samples only where each is weighted by its samples. Keras's metrics keep
what this needs: a mean keeps its count, and any other metric of Keras keeps sums (of true positives, of squares, ...)
that add up over the ranks before its value is computed.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isroutine
from typing import Any

import keras
import numpy as np

from jupyter_ddl.training.code_names import constants_in, names_in

# Methods of a metric that do not count samples, and methods of a variable that set it rather than add to it.
_LIBRARIES = ("keras.", "tensorflow.", "builtins", "abc", "typing")
_NO_UPDATES = ("__init__", "build", "reset_state", "result", "get_config", "from_config")
_SETS = {"assign", "_assign", "scatter_update", "scatter_max", "scatter_min"}
_ADDS = {"assign_add", "assign_sub", "scatter_add", "update_state"}
# float32, summed in another order.
_ROUNDING = 1e-4


@dataclass(frozen=True)
class Reading:
    """One logged value of one rank.

    Attributes:
        value: the number, or the array, that is in the logs.
        weight: its weight in a mean: the samples, or the sum of their weights; None if unknown.
        sums: the state of a metric that is no mean, where it adds up over the ranks.
    """

    value: Any
    weight: float | None = None
    sums: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class State:
    """A metric as it was when a phase ended: Keras resets it for the next one."""

    metric: Any
    variables: tuple[Any, ...]

    def value(self) -> Any:
        """Return the metric's value at that time."""
        return compute(self.metric, self.variables)


def snapshot(model: Any) -> dict[str, State]:
    """Return the state of each of the model's metrics, by its name in the logs."""
    states: dict[str, State] = {}
    for metric in model.metrics:
        for name, part in _named_parts(metric):
            states[name] = State(part, tuple(variable.numpy() for variable in part.variables))
    return states


def read(value: Any, state: State | None, samples: float | None) -> Reading:
    """Return a logged value with what is needed to combine it.

    Args:
        value: as it is in the logs.
        state: of the metric of that name, if there is one.
        samples: of this phase on this rank, for a value that is no metric's.
    """
    value = np.asarray(value)
    # A callback may have run an evaluation of its own since, or put another value under this name.
    if state is None or not _tells(state, value):
        return Reading(value, samples)
    if _is_mean(state.metric):
        return Reading(value, float(_value_of(state.metric.count, state.metric, state.variables)))
    return Reading(value, samples, state.variables if adds_up(state.metric) else None)


def combine(readings: list[Reading], state: State | None) -> Any:
    """Return the value over all ranks, given theirs in the order of the ranks."""
    if state is not None and all(reading.sums is not None for reading in readings):
        every_rank = [reading.sums or () for reading in readings]
        totals = [np.sum(parts, axis=0) for parts in zip(*every_rank, strict=True)]
        return compute(state.metric, totals)
    values = np.asarray([reading.value for reading in readings], np.float64)
    weights = [reading.weight for reading in readings]
    known = [weight for weight in weights if weight is not None]
    if len(known) < len(weights) or sum(known) == 0:
        return np.mean(values, axis=0)
    # A rank that saw no samples may report NaN, which times 0 is NaN.
    seen = np.asarray(known) > 0
    return np.average(values[seen], axis=0, weights=np.asarray(known)[seen])


def compute(metric: Any, variables: Any) -> Any:
    """Return the metric's value for these values of its variables, and leave it unchanged."""
    tensors = [keras.ops.cast(value, own.dtype) for value, own in zip(variables, metric.variables, strict=True)]
    result = metric.stateless_result(tensors)
    if isinstance(result, keras.Variable):
        # Not its value in the stateless scope, which is over.
        result = _value_of(result, metric, variables)
    return np.asarray(result)


def _value_of(variable: Any, metric: Any, values: Any) -> Any:
    """Return the value that belongs to one of the metric's variables."""
    return next(value for own, value in zip(metric.variables, values, strict=True) if own is variable)


def _own_methods(kind: type) -> list[tuple[str, Any]]:
    """Return the methods that are not a library's, by name; one that another replaces only where that calls it."""
    found: list[tuple[str, Any]] = []
    replaced: set[str] = set()
    for each in kind.__mro__:
        if str(each.__module__).startswith(_LIBRARIES):
            continue
        methods = {name: function for name, function in vars(each).items() if isroutine(function)}
        found += [(name, function) for name, function in methods.items() if name not in replaced]
        replaced |= {name for name, function in methods.items() if name not in names_in(function)}
    return found


def _named_parts(metric: Any) -> list[tuple[str, Any]]:
    """Return the metric, or those of a container, by their names in the logs.

    The container of `compile(metrics=...)` names them as it computes them, in the order of its `metrics`.
    Source: keras 3.15, src/trainers/compile_utils.py, CompileMetrics.result
    """
    parts = getattr(metric, "metrics", None)
    if parts is None:
        return [(metric.name, metric)]
    names = list(metric.result()) if parts else []
    return list(zip(names, parts, strict=True)) if len(names) == len(parts) else []


def _is_mean(metric: Any) -> bool:
    """Return whether the metric is a mean, whose count is its weight, and which nothing but additions change."""
    return (
        isinstance(metric, keras.metrics.Mean) and type(metric).result is keras.metrics.Mean.result and adds_up(metric)
    )


def parts_of(metric: Any) -> list[Any]:
    """Return the metric, or those of a container."""
    parts = getattr(metric, "metrics", None)
    return [metric] if parts is None else list(parts)


def adds_up(metric: Any) -> bool:
    """Return whether the state is sums, which add up over the ranks: Keras's own metrics keep sums.

    So does a class of the user's own whose code only ever adds to its variables, and begins at 0.
    """
    methods = _own_methods(type(metric))
    if not methods:
        return True
    updates = [names_in(function) for name, function in methods if name not in _NO_UPDATES]
    adds = any(_ADDS & names for names in updates) or not any(name == "update_state" for name, _ in methods)
    sets = any(_SETS & names for names in updates)
    begins = [constants_in(function) for name, function in methods if name == "reset_state"]
    return bool(metric.variables) and adds and not sets and all(constants <= {0} for constants in begins)


def _tells(state: State, value: Any) -> bool:
    reported = state.value()
    return reported.shape == value.shape and bool(
        np.allclose(reported, value, rtol=_ROUNDING, atol=1e-12, equal_nan=True)
    )

"""Runs `evaluate` on several ranks: each takes whole batches, and the metrics are those of one process.

Runs on: every rank.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.auto_distribution.callbacks import listed, of_this_rank
from jupyter_ddl.auto_distribution.data_division import divide_evaluation
from jupyter_ddl.auto_distribution.same_data import parts_of, require_same
from jupyter_ddl.auto_distribution.shards.adapter import Parts
from jupyter_ddl.auto_distribution.shards.every_nth import EveryNth
from jupyter_ddl.auto_distribution.shards.shard_bounds import Place
from jupyter_ddl.auto_distribution.shards.whole_batches import Shares
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, hvd, ops
from jupyter_ddl.training.metric_readings import Reading, State, combine, read, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.protocol.cell_options import AutoOptions

_OURS = (EveryNth, Shares)
_DATA = ("x", "y", "sample_weight", "batch_size")


class Counted(keras.callbacks.Callback):
    """Counts the calls of an evaluation's step on this rank."""

    # Keras may call it from a thread of its own: appending to a list is atomic.
    async_safe = True

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[int] = []

    @property
    def calls(self) -> int:
        """How many there were."""
        return len(self._steps)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Count one."""
        self._steps.append(batch)


def evaluate(stock: Any, model: Any, arguments: dict[str, Any], auto: AutoOptions) -> Any:
    """Evaluate on this rank's batches, and return the results over all ranks in Keras's form.

    Collective: every rank must call this.

    Args:
        stock: what to call.
        model: a compiled model.
        arguments: of `evaluate`, by name.
        auto: how to distribute.

    Raises:
        InvalidInput: the data cannot be divided; the ranks have different data.
    """
    wants_names = arguments.pop("return_dict", False)
    options = arguments.pop("kwargs", {})
    data = arguments.get("x")
    is_own = not isinstance(data, (Parts, *_OURS)) and not options.get("_use_cached_eval_dataset")
    if is_own:
        require_same(parts_of(**{name: arguments.get(name) for name in ("x", "y", "sample_weight")}))
        data = divide_evaluation(arguments, auto, Place(hvd.size(), hvd.rank()), model)
        arguments = {name: value for name, value in arguments.items() if name not in _DATA} | {"x": data}
        arguments["steps"] = None  # this rank's data end after its steps
        _make_weights(stock, model, data)
    if hvd.rank() > 0:
        arguments["verbose"] = 0
    counted = Counted()
    given = arguments.get("callbacks")
    if isinstance(given, keras.callbacks.CallbackList):  # `fit` passes one, which is this rank's
        given.callbacks.append(counted)
    else:
        arguments["callbacks"] = [*of_this_rank(listed(given)), counted]
    try:
        with _no_word_of_the_end():
            logs = stock(model, **arguments, **options, return_dict=True)
    finally:
        if isinstance(given, keras.callbacks.CallbackList):
            given.callbacks.remove(counted)
        if is_own and isinstance(data, _OURS):
            data.finish()
    if isinstance(data, _OURS):
        data.require_same()
    return over_all_ranks(model, logs, wants_names=wants_names, calls=counted.calls)


def over_all_ranks(model: Any, logs: dict[str, Any], *, wants_names: bool, calls: int = 1) -> Any:
    """Return an evaluation's results over all ranks, in Keras's form, given this rank's by name.

    A rank without a sample has none. It has begun fewer passes over the data than rank 0 and one process, each of which
    draws a number on PyTorch: the next order is drawn from rank 0's state.

    Collective: every rank must call this.

    Args:
        model: what was evaluated.
        logs: this rank's results.
        wants_names: return them by name, and not in Keras's order.
        calls: of the step on this rank. The batches are dealt out in turn, so the last rank of those with most calls
            had the last batch of one process, whose values Keras returns where they are no metric's.
    """
    states = snapshot(model)
    counter = getattr(model, "_loss_tracker", None)
    samples = None if counter is None else float(counter.count.numpy())
    own = {name: read(value, states.get(name), samples) for name, value in logs.items()}
    everyone = hvd.allgather_object((calls, own), name="evaluation")
    results: Any = None
    if hvd.rank() == 0:
        # Rank 0 has samples if any rank has, so it knows the metrics, their order and how to combine them.
        results = _combined(everyone, states)
        results = results if wants_names else model._flatten_metrics_in_order(results)
    results, state = hvd.broadcast_object((results, ops.state_of_orders()), 0, name="evaluation_result")
    ops.set_state_of_orders(state)
    return results


def _combined(everyone: list[tuple[int, dict[str, Reading]]], states: dict[str, State]) -> dict[str, Any]:
    seen = [readings for _, readings in everyone if readings]
    most = max(calls for calls, _ in everyone)
    last = [readings for calls, readings in everyone if calls == most][-1]
    names = seen[0] if seen else {}
    return {
        name: _plain(combine([readings[name] for readings in seen if name in readings], states.get(name)))
        if name in states or name not in last
        else _plain(last[name].value)
        for name in names
    }


def _plain(value: Any) -> Any:
    return float(value) if getattr(value, "ndim", 0) == 0 else value


def _make_weights(stock: Any, model: Any, data: Shares | EveryNth) -> None:
    """Build a model that makes its weights with its first batch on all ranks, even on one without a batch."""
    if _is_built(model):
        return
    total = data.total
    if total is None or total < hvd.size():
        # One process does not make this pass.
        state = ops.state_of_orders()
        with _no_word_of_the_end():
            stock(model, x=data.first_batch(), verbose=0)
        ops.set_state_of_orders(state)


def _is_built(model: Any) -> bool:
    """Return whether Keras needs no batch to build a model; without TensorFlow it builds losses and metrics by one."""
    parts = [] if BACKEND == TENSORFLOW else [model._compile_loss, model._compile_metrics]
    return all(part is None or part.built for part in (*model._flatten_layers(), *parts))


@contextmanager
def _no_word_of_the_end() -> Iterator[None]:
    """Suppress Keras's warning that the data have ended, where their number was not given.

    It asks for `steps_per_epoch` batches, and says that training is interrupted; this is the end of an evaluation.
    Source: keras 3.15, src/trainers/epoch_iterator.py, EpochIterator.catch_stop_iteration
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Your input ran out of data")
        yield

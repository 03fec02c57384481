"""`evaluate` on several ranks: each sees its part, and the metrics are what one process would have computed.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import keras

from jupyter_ddl.training.auto.callbacks import listed, of_this_rank
from jupyter_ddl.training.auto.data import divide_evaluation
from jupyter_ddl.training.auto.parts.adapter import Parts
from jupyter_ddl.training.auto.parts.place import Place
from jupyter_ddl.training.metric_readings import Reading, State, combine, read, snapshot

_DATA = ("x", "y", "sample_weight", "batch_size")


def evaluate(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """Evaluate on this rank's part, and return the results over all ranks in Keras's form.

    Collective: every rank must call this.
    """
    wants_names = arguments.pop("return_dict", False)
    options = arguments.pop("kwargs", {})
    if not isinstance(arguments.get("x"), Parts) and not options.get("_use_cached_eval_dataset"):
        part = divide_evaluation(arguments, Place(hvd.size(), hvd.rank()))
        arguments = {name: value for name, value in arguments.items() if name not in _DATA} | {"x": part}
        arguments["steps"] = None  # the part ends with them
    if hvd.rank() > 0:
        arguments["verbose"] = 0
    given = arguments.get("callbacks")
    if not isinstance(given, keras.callbacks.CallbackList):  # that is what `fit` passes: it is of this rank
        arguments["callbacks"] = of_this_rank(listed(given))
    return over_all_ranks(model, stock(model, **arguments, **options, return_dict=True), wants_names=wants_names)


def over_all_ranks(model: Any, logs: dict[str, Any], *, wants_names: bool) -> Any:
    """Return an evaluation's results over all ranks, in Keras's form, given this rank's by name.

    A rank without a sample has none.

    Collective: every rank must call this.
    """
    states = snapshot(model)
    counter = getattr(model, "_loss_tracker", None)
    samples = None if counter is None else float(counter.count.numpy())
    own = {name: read(value, states.get(name), samples) for name, value in logs.items()}
    everyone = hvd.allgather_object(own, name="evaluation")
    results: Any = None
    if hvd.rank() == 0:
        # Rank 0 has samples where any has, and with them metrics that know how to combine, and their order.
        results = _combined(everyone, states)
        results = results if wants_names else model._flatten_metrics_in_order(results)
    return hvd.broadcast_object(results, 0, name="evaluation_result")


def _combined(everyone: list[dict[str, Reading]], states: dict[str, State]) -> dict[str, Any]:
    seen = [readings for readings in everyone if readings]
    names = seen[0] if seen else {}
    return {name: _plain(combine([readings[name] for readings in seen], states.get(name))) for name in names}


def _plain(value: Any) -> Any:
    return float(value) if getattr(value, "ndim", 0) == 0 else value

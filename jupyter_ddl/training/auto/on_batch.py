"""`train_on_batch` and `test_on_batch` on several ranks: the batch that the program passes is split among them.

Whatever `--batch` says: the program's own loop decides what a batch is, and all ranks run the same loop.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import horovod.tensorflow as hvd
import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.auto.callbacks import StartTogether, average_statistics
from jupyter_ddl.training.auto.evaluation import over_all_ranks
from jupyter_ddl.training.auto.fit import distribute, unscale
from jupyter_ddl.training.auto.parts.place import Place

_started: WeakSet[Any] = WeakSet()


def train_on_batch(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """Train on this rank's part of a batch, and return the results over all ranks in Keras's form.

    Collective: every rank must call this.

    Raises:
        InvalidInput: the model cannot be distributed; the batch has fewer samples than there are ranks.
    """
    distribute(model)
    unscale(model.optimizer)
    answer = on_batch(stock, model, arguments)
    # After each step: whether the program evaluates or saves next, only the program knows.
    average_statistics(model)
    return answer


def on_batch(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """Train or test on this rank's part of a batch, and return the results over all ranks in Keras's form.

    Collective: every rank must call this.

    Raises:
        InvalidInput: the batch has fewer samples than there are ranks.
    """
    wants_names = arguments.pop("return_dict", False)
    place = Place(hvd.size(), hvd.rank())
    divided = {name: _part(arguments.get(name), place) for name in ("x", "y", "sample_weight")}
    start = _start_of(model)
    logs = stock(model, **arguments | divided, return_dict=True)
    if start is not None:
        start.on_train_batch_end(0)
    return over_all_ranks(model, logs, wants_names=wants_names)


def _start_of(model: Any) -> StartTogether | None:
    """Give all ranks the same weights before a model's first step; where it has none yet, return what does so after."""
    if model in _started:
        return None
    _started.add(model)
    start = StartTogether()
    start.set_model(model)
    start.on_train_begin()
    return start


def _part(structure: Any, place: Place) -> Any:
    def own(part: Any) -> Any:
        if part is None:
            return None
        count = int(part.shape[0])
        if count < place.size:
            raise InvalidInput(
                "A batch must have at least one sample for each rank.",
                f"train_on_batch with {count}, {place.size} ranks",
                "Pass larger batches, or use fewer ranks.",
            )
        start, stop = place.bounds(count)
        return part.iloc[start:stop] if hasattr(part, "iloc") else part[start:stop]

    return tf.nest.map_structure(own, structure)

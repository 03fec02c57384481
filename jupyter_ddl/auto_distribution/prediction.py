"""Runs `predict` on several ranks: arrays are divided and the answers joined; every rank predicts all of other data.

A rank predicts whole batches of one process, so that an answer may have any number of rows for a batch: one a sample,
one a word, one in all.

Runs on: every rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras.src.trainers import data_adapters

from jupyter_ddl.auto_distribution.refusals import refuse_data
from jupyter_ddl.auto_distribution.same_data import parts_of, require_same
from jupyter_ddl.auto_distribution.shards.shard_bounds import Place
from jupyter_ddl.auto_distribution.shards.slices import sliced
from jupyter_ddl.auto_distribution.shards.whole_batches import Shares
from jupyter_ddl.training.backends import arrays, hvd, ops
from jupyter_ddl.training.fit.first_batches import KERAS_BATCH_SIZE

# The dtypes that Horovod 0.28.1 gathers. Source: horovod/common/message.h, DataType
_NUMBERS = {"bool", "uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64"}


@dataclass(frozen=True)
class _Batches:
    """The batches that one process predicts: of `size` rows, but for the last one."""

    rows: int
    size: int
    count: int

    def rows_of(self, place: Place) -> tuple[int, int]:
        """Return where the rows of this rank's batches begin and end."""
        start, stop = place.bounds(self.count)
        return start * self.size, min(stop * self.size, self.rows)


def predict(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """Return the predictions for all of the data, in their order, on every rank.

    Collective: every rank must call this.

    Raises:
        InvalidInput: the ranks have different data.
    """
    if hvd.rank() > 0:
        arguments["verbose"] = 0
    data = arguments.get("x")
    require_same(parts_of(x=data))
    batches = _batches_of(arguments, model.steps_per_execution)
    if batches is None:
        return _each_all(stock, model, arguments)
    start, stop = batches.rows_of(Place(hvd.size(), hvd.rank()))
    # A rank without a batch predicts the first one too: so it knows the answer's structure, and a model that makes its
    # weights with its first batch makes them on all ranks.
    first, last = (start, stop) if stop > start else (0, min(batches.size, batches.rows))
    arguments |= {"batch_size": batches.size, "steps": None}
    arguments["x"] = keras.tree.map_structure(lambda part: None if part is None else sliced(part, first, last), data)
    answer = stock(model, **arguments)
    flat = keras.tree.flatten(answer)
    return keras.tree.pack_sequence_as(answer, [_gathered(part, stop > start, batches.count) for part in flat])


def _batches_of(arguments: dict[str, Any], at_once: int) -> _Batches | None:
    """Return the batches of arrays whose rows can be divided; None for anything else, and where there is none."""
    flat = [part for part in keras.tree.flatten(arguments.get("x")) if part is not None]
    are_arrays = all(isinstance(part, np.ndarray) or hasattr(part, "iloc") or ops.is_tensor(part) for part in flat)
    if not flat or not are_arrays or any(arrays.dense_parts(part) is not None for part in flat):
        return None
    counts = {int(part.shape[0]) if len(part.shape) else 0 for part in flat}
    if len(counts) > 1 or counts == {0}:
        return None  # Keras raises its own error
    rows, steps = counts.pop(), arguments.get("steps")
    size = arguments.get("batch_size") or (-(-rows // steps) if steps else KERAS_BATCH_SIZE)
    count = -(-rows // size)
    if steps:
        count = min(count, -(-steps // at_once) * at_once)
    return _Batches(min(rows, count * size), size, count)


def _each_all(stock: Any, model: Any, arguments: dict[str, Any]) -> Any:
    """Predict all of the data on each rank, and check that they are the same."""
    refuse_data(arguments.get("x"))
    steps = arguments.get("steps")
    whole = data_adapters.get_data_adapter(
        arguments.get("x"), batch_size=arguments.get("batch_size"), steps_per_epoch=steps, shuffle=False
    )
    data = Shares(whole, Place(1, 0), steps and -(-steps // model.steps_per_execution) * model.steps_per_execution)
    arguments |= {"x": data, "batch_size": None, "steps": None}
    answer = stock(model, **arguments)
    if data.agreement is not None:
        data.agreement.require_same("data of predict")
    return answer


def _gathered(own: Any, counts: bool, batches: int) -> Any:
    """Return the answers of all ranks, joined as Keras joins the answers for its batches.

    Collective: every rank must call this.

    Args:
        own: this rank's answer: an array, or a ragged or sparse tensor.
        counts: it is for batches of this rank's.
        batches: of all ranks together.
    """
    is_array = isinstance(own, (np.ndarray, np.generic))
    # Of a model that returns a number for each batch, one batch gives the number, and several a vector.
    kind = (own.dtype.name, own.shape[1:]) if is_array and (own.ndim or batches > 1) else None
    kinds = {each for is_real, each in hvd.allgather_object((counts, kind), name="kinds_of_answers") if is_real}
    alike = kinds.pop() if len(kinds) == 1 else None
    if alike is not None and alike[0] in _NUMBERS:
        dtype, columns = alike
        rows = np.atleast_1d(own) if counts else np.zeros((0, *columns), dtype)
        gathered: Any = ops.array(hvd.allgather(ops.tensor(rows), name="predictions"))
        return gathered
    everyone = hvd.allgather_object(arrays.portable(own) if counts else None, name="predictions")
    parts = [arrays.from_portable(each) for each in everyone if each is not None]
    if batches > 1:
        parts = [part[None] if getattr(part, "shape", None) == () else part for part in parts]
    return arrays.joined(parts)

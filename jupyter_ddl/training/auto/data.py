"""Divides what `fit` takes as data among the ranks: whichever kind it is, and what is told of it.

Runs on: every rank.
"""

from __future__ import annotations

import itertools
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from keras.src.trainers import data_adapters

from jupyter_ddl.auto_options import GLOBAL
from jupyter_ddl.training.auto.parts.adapter import Parts, require_room
from jupyter_ddl.training.auto.refusals import refuse_data
from jupyter_ddl.training.data.shard import shard_with_note
from jupyter_ddl.training.fit.batches import KERAS_BATCH_SIZE, dataset_batch_size, first_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.auto_options import AutoOptions
    from jupyter_ddl.training.auto.parts.place import Place


@dataclass(frozen=True)
class Divided:
    """This rank's data.

    Attributes:
        x: what Keras is given for the data.
        how: how they were divided, for the plan; empty where the numbers say it.
        samples: of all ranks in an epoch; None where nobody knows.
        own_batch: the samples of a batch on this rank.
        whole_batch: on all ranks.
        steps: an epoch's, where the program counts them.
        parts: what `x` then is, with targets and weights in it, where all ranks make the same batches and each takes
            its part.
    """

    x: Any
    how: str = ""
    samples: int | None = None
    own_batch: int | None = None
    whole_batch: int | None = None
    steps: int | None = None
    parts: Parts | None = None


def divide_training(arguments: dict[str, Any], options: AutoOptions, place: Place, *, is_seeded: bool) -> Divided:
    """Return this rank's data for `fit`.

    Args:
        arguments: of `fit`, by name.
        options: whose the batch size in the program is.
        place: which part is this rank's.
        is_seeded: the program has set a random seed, by which its one process would shuffle in a certain order.

    Raises:
        InvalidInput: the data cannot be divided so.
    """
    data, steps = arguments.get("x"), arguments.get("steps_per_epoch")
    refuse_data(data)
    shares_batches = options.batch == GLOBAL
    if not shares_batches and not _are_arrays(arguments):
        own_steps = None if steps is None else -(-steps // place.size)
        if isinstance(data, tf.data.Dataset):
            sharded = shard_with_note(data, place.size, place.rank)
            own = dataset_batch_size(data)
            return Divided(sharded.dataset, sharded.how, None, own, own and own * place.size, own_steps)
        if isinstance(data, keras.utils.PyDataset):
            how = f"each rank takes every {_ordinal(place.size)} batch"
            return Divided(EveryNth(data, place), how, steps=own_steps)
        if isinstance(data, types.GeneratorType):
            how = f"each rank takes every {_ordinal(place.size)} batch of the generator"
            return Divided(_every_nth(data, place), how, steps=own_steps)
    batch = arguments.get("batch_size") or _batch_for(arguments, steps)
    if not shares_batches:
        batch *= place.size
        steps = None if steps is None else -(-steps // place.size)
    whole = data_adapters.get_data_adapter(
        data,
        arguments.get("y"),
        arguments.get("sample_weight"),
        batch_size=batch,
        steps_per_epoch=steps,
        # A dataset is as it was made, and Keras warns where it is asked to shuffle one.
        shuffle=arguments.get("shuffle", True) and not isinstance(data, (tf.data.Dataset, types.GeneratorType)),
        class_weight=arguments.get("class_weight"),
    )
    require_room(whole, place)
    parts = Parts(whole, place, steps, keeps_order=shares_batches and is_seeded)
    how = "" if parts.samples is not None else "each batch is split"
    return Divided(parts, how, parts.samples, parts.batch_size, whole.batch_size, steps, parts)


def divide_evaluation(arguments: dict[str, Any], place: Place) -> Any:
    """Return this rank's part of the data for `evaluate`: of each batch of one process, whatever its size."""
    data, steps = arguments.get("x"), arguments.get("steps")
    refuse_data(data)
    batch = arguments.get("batch_size") or KERAS_BATCH_SIZE
    if steps is None:
        # Without training, larger batches are the same mathematics: each rank has as many samples as one process.
        batch *= place.size
    whole = data_adapters.get_data_adapter(
        data, arguments.get("y"), arguments.get("sample_weight"), batch_size=batch, steps_per_epoch=steps, shuffle=False
    )
    return Parts(whole, place, steps, in_step=False)


class EveryNth(keras.utils.PyDataset):
    """Those batches of a PyDataset that are this rank's: as many as another's, or one more."""

    def __init__(self, whole: Any, place: Place) -> None:
        super().__init__(
            workers=whole.workers,
            use_multiprocessing=whole.use_multiprocessing,
            max_queue_size=whole.max_queue_size,
        )
        self._whole = whole
        self._place = place

    @property
    def num_batches(self) -> int | None:
        """This rank's batches; None where the PyDataset has no end."""
        whole: int | None = self._whole.num_batches
        return whole if whole is None else self._place.length(whole)

    def __getitem__(self, index: int) -> Any:
        """Return one of them."""
        return self._whole[index * self._place.size + self._place.rank]

    def on_epoch_begin(self) -> None:
        """Pass it on."""
        self._whole.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Pass it on."""
        self._whole.on_epoch_end()


def _every_nth(batches: Iterator[Any], place: Place) -> Iterator[Any]:
    yield from itertools.islice(batches, place.rank, None, place.size)


def _are_arrays(arguments: dict[str, Any]) -> bool:
    given = (arguments.get("x"), arguments.get("y"), arguments.get("sample_weight"))
    return bool(data_adapters.array_data_adapter.can_convert_arrays(given))


def _batch_for(arguments: dict[str, Any], steps: int | None) -> int:
    """Return the batch size that Keras takes where the program says none."""
    shape = getattr(first_part(arguments.get("x")), "shape", None)
    if steps and shape and _are_arrays(arguments):
        return -(-int(shape[0]) // int(steps))
    return KERAS_BATCH_SIZE


def _ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")

"""Adapts the data of `fit`, `evaluate` and `predict` where Keras 2 read them in another way.

When a Sequence (such as ImageDataGenerator's) was exhausted and steps were left, Keras 2 restarted it; Keras 3 ends the
epoch there. In Keras 2 `fit` got the number of loading threads or processes; in Keras 3 the Sequence does.
"""

from __future__ import annotations

import math
import random
from functools import cache
from importlib import import_module
from typing import Any

from jupyter_ddl.legacy.notices import say

# Keras 1's name first, where it had another.
LOADING = {
    "workers": "workers",
    "nb_worker": "workers",
    "use_multiprocessing": "use_multiprocessing",
    "pickle_safe": "use_multiprocessing",
    "max_queue_size": "max_queue_size",
    "max_q_size": "max_queue_size",
}


def whole(steps: Any) -> Any:
    """Return a number of steps as Keras 2 understood it: a loop of `steps_done < steps` rounds a fraction up."""
    if isinstance(steps, float):
        say("fractional steps")
        return math.ceil(steps)
    return steps


def take_loading(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take the arguments on loading out of a call's, and return them by today's names."""
    given = {LOADING[name]: arguments.pop(name) for name in list(arguments) if name in LOADING}
    if given:
        say("workers")
    return given


def configure(data: Any, loading: dict[str, Any]) -> None:
    """Make a Sequence load as the arguments of `fit` say.

    Its batches come in the same order. Processes become threads: a rank's memory holds MPI's and TensorFlow's threads,
    which a forked process lacks, so it may wait for ever.

    Args:
        data: a Sequence; others load as they do.
        loading: `workers`, `use_multiprocessing`, `max_queue_size`.
    """
    if not loading or not isinstance(data, import_module("keras").utils.PyDataset):
        return
    data.workers = max(1, int(loading.get("workers") or 1))
    data.use_multiprocessing = False
    data.max_queue_size = int(loading.get("max_queue_size") or 10)


def lasting(data: Any, steps: int | None, *, shuffle: bool) -> Any:
    """Return data with enough batches for `steps`: a Sequence that has fewer starts again, as in Keras 2.

    Args:
        data: what `fit` reads.
        steps: of one epoch; None for as many as there are batches.
        shuffle: take the batches of each pass in another order.
    """
    if not steps or not isinstance(data, import_module("keras").utils.PyDataset):
        return data
    batches = data.num_batches
    if not batches or steps <= batches:
        return data
    say("more steps than batches")
    return _repeated_class()(data, shuffle)


@cache
def _repeated_class() -> Any:
    """Return the class; Keras's, from which it comes, cannot be imported when this module is."""
    keras = import_module("keras")

    class Repeated(keras.utils.PyDataset):  # type: ignore[misc, name-defined]
        """A Sequence that has no end: read through, it starts again."""

        def __init__(self, data: Any, shuffle: bool) -> None:
            super().__init__(data.workers, data.use_multiprocessing, data.max_queue_size)
            self._data = data
            self._shuffle = shuffle
            self._order: list[int] = []

        @property
        def num_batches(self) -> None:
            """None: no end."""

        def __getitem__(self, index: int) -> Any:
            position = index % self._data.num_batches
            if position == 0 or not self._order:
                self._begin_pass(first=index == 0)
            return self._data[self._order[position]]

        def _begin_pass(self, *, first: bool) -> None:
            if not first:
                self._data.on_epoch_end()
            order = list(range(self._data.num_batches))
            if self._shuffle:
                random.shuffle(order)
            self._order = order

    return Repeated

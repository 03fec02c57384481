"""Repeats the passes over the data that were made before a checkpoint: otherwise shuffles would repeat from the first.

A dataset that shuffles in each epoch draws its order when an iterator is made of it. So as many iterators are made as
in an uninterrupted training, and no batch is read. Where one iterator serves several epochs (`steps_per_epoch` of an
endless dataset or a generator), its batches are read and dropped.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from keras.src.trainers.epoch_iterator import EpochIterator

from jupyter_ddl.host.patching import Layer, patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Data:
    """The data of one `fit`.

    Attributes:
        epochs: Keras's iterator of it, once `fit` has made it.
    """

    epochs: Any = None


_current: ContextVar[Data | None] = ContextVar("the data of the fit that is about to begin", default=None)


def install() -> None:
    """Patch Keras to note the iterator that `fit` makes. Safe to call twice."""
    patch(EpochIterator, "__init__", _initialise, Layer.FIT)


@contextmanager
def noted(data: Data) -> Iterator[None]:
    """Note in `data` the first iterator that is made inside: that of the training data."""
    token = _current.set(data)
    try:
        yield
    finally:
        _current.reset(token)


def pass_over(data: Data, epochs: int) -> None:
    """Leave the data as `epochs` epochs of training would have left them."""
    iterator = data.epochs
    assert iterator is not None, "fit has made its iterator when training begins"
    current, due = None, 0
    with _without_workers(iterator):
        for _ in range(epochs):
            if not iterator.steps_per_epoch and not iterator.num_batches:
                # Keras reads to the end to learn how many batches there are, and makes one iterator an epoch.
                iterator.data_adapter.on_epoch_begin()
                iter(iterator._get_iterator())
                iterator.data_adapter.on_epoch_end()
                continue
            for _, _, used in iterator._enumerate_iterator():
                if used is not current:
                    current, due = used, 0
                due += iterator.steps_per_execution
    if current is not None and current is iterator._current_iterator:
        for _ in range(due):
            next(current)


@contextmanager
def _without_workers(iterator: Any) -> Iterator[None]:
    """Keep a PyDataset from starting processes for epochs that are not read."""
    adapters = [adapter for adapter in _adapters(iterator) if getattr(adapter, "enqueuer", None) is not None]
    if iterator.steps_per_epoch:
        adapters = []
    kept = [adapter.enqueuer for adapter in adapters]
    for adapter in adapters:
        adapter.enqueuer = None
    try:
        yield
    finally:
        for adapter, enqueuer in zip(adapters, kept, strict=True):
            adapter.enqueuer = enqueuer


def _adapters(iterator: Any) -> Iterator[Any]:
    adapter = iterator.data_adapter
    while adapter is not None:
        yield adapter
        adapter = getattr(adapter, "_whole", None)  # --auto's own adapter holds Keras's


def _initialise(stock: Callable[..., None], self: Any, *args: Any, **kwargs: Any) -> None:
    stock(self, *args, **kwargs)
    data = _current.get()
    if data is not None and data.epochs is None:
        data.epochs = self

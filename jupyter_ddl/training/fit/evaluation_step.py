"""Makes a test step that counts only batches that exist.

Keras calls a graph's step once more than there are batches where their number is not known. The call ends with the
data's end; but by then TensorFlow may have run operations that need no batch, such as the count of a
`keras.metrics.Mean`, whose value is then too low by n/(n+1). Prediction fetches its batches before the call.

Source: keras 3.15, src/backend/tensorflow/trainer.py, multi_step_on_iterator and TFEpochIterator.catch_stop_iteration.

Runs on: every rank.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from jupyter_ddl.training.backends.made_functions import attributes_set
from jupyter_ddl.training.backends.tensorflow_clock import tensors_in
from jupyter_ddl.training.backends.tensorflow_ops import after

if TYPE_CHECKING:
    from collections.abc import Callable


def make_test_function(stock: Callable[..., Any], model: Any, force: bool = False) -> Any:
    """Make Keras's test function of a step that begins when its batch is there.

    Args:
        stock: Keras's `Model.make_test_function`.
        model: whose test function it is.
        force: make it again where there is one.
    """
    if model.test_function is not None and not force:
        return stock(model, force)
    users_step = model.test_step

    @functools.wraps(users_step)
    def test_step(data: Any) -> Any:
        with after(tensors_in(data)):
            return users_step(data)

    with attributes_set(model, test_step=test_step):
        return stock(model, force)

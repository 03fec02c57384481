"""Makes variables arrays of all processes, and finds weights that differ between ranks.

JAX takes a copy on each process for one array, and does not look whether they are alike.

Runs on: every rank.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np
from keras.src.distribution import TensorLayout
from keras.src.utils import jax_utils

from jupyter_ddl.errors import InvalidInput, RanksOutOfSync
from jupyter_ddl.jax_training.processes import gathered

if TYPE_CHECKING:
    from collections.abc import Callable


def distribute_tensor(stock: Callable[..., Any], tensor: Any, layout: Any) -> Any:
    """Return a tensor in a layout: one of this process as this rank's copy in an array of all processes.

    `device_put`, by which Keras does it, refuses arrays that a process has on a device.
    Source: keras 3.15.1, src/backend/jax/distribution_lib.py; jax 0.10.2.
    """
    sharding = layout.backend_layout if isinstance(layout, TensorLayout) else layout
    if (
        jax_utils.is_in_jax_tracing_scope(tensor)
        or not isinstance(sharding, jax.sharding.Sharding)
        or sharding.is_fully_addressable
        or not _is_local(tensor)
    ):
        return stock(tensor, layout)
    return of_all(np.asarray(tensor), sharding)


def of_all(whole: Any, sharding: Any) -> Any:
    """Return an array of all processes, of which each holds what its devices need of the same whole."""
    return jax.make_array_from_callback(whole.shape, sharding, lambda rows: whole[rows])


def make_global(model: Any) -> None:
    """Make variables of this process, or of processes that a release has ended, those of all processes.

    Raises:
        InvalidInput: a variable cannot be read any more.
    """
    distribution = keras.distribution.distribution()
    for variable in variables_of(model):
        layout = variable._layout or distribution.get_variable_layout(variable)
        current = layout.device_mesh.backend_mesh.devices.flat[0] in jax.devices()
        if not current:
            layout = TensorLayout(layout.axes, distribution.device_mesh)
        value = variable.value
        if current and not _is_local(value):
            continue
        # What was compiled keeps the devices that it had.
        model.train_function = model.test_function = model.predict_function = None
        variable._layout = layout
        variable._value = of_all(_read(value, variable.path), layout.backend_layout)


def is_global(model: Any) -> bool:
    """Return whether a model has variables of several processes."""
    return any(not _is_local(variable.value) for variable in variables_of(model))


def check_alike(model: Any, when: str) -> None:
    """Raise unless all ranks hold the same weights. Collective.

    Raises:
        RanksOutOfSync: they differ.
    """
    weights = model.weights
    sums = np.array([_checksum(weight.value) for weight in weights], np.uint32)
    every = gathered(sums)
    differing = (every != every[0]).any(axis=0)
    if not differing.any():
        return
    rows = [tuple(row) for row in every.tolist()]
    usual = max(rows, key=rows.count)
    ranks = [rank for rank, row in enumerate(rows) if row != usual]
    weight = weights[int(differing.argmax())].path
    raise RanksOutOfSync(
        f"The ranks hold different weights {when}. Received: {weight} differs, on ranks {ranks}. "
        "Set the same seed on all ranks (keras.utils.set_random_seed) before the model is made, or load one file.",
        ranks,
        weight,
    )


def variables_of(model: Any) -> list[Any]:
    """Return the variables of a model, its metrics and its optimizer, each once, that have a value."""
    optimizer = getattr(model, "optimizer", None)
    of_optimizer = optimizer.variables if optimizer is not None else []
    found = {id(each): each for each in (*model.variables, *model.metrics_variables, *of_optimizer)}
    return [each for each in found.values() if each._value is not None]


def _is_local(value: Any) -> bool:
    return not isinstance(value, jax.Array) or value.is_fully_addressable


def _read(value: Any, path: str) -> Any:
    try:
        return np.asarray(value)
    except RuntimeError as error:
        raise InvalidInput(
            "A model can be used while its arrays can be read.",
            f"{path}, whose processes a release has ended while it trained",
            "Make the model again, or load it from a file.",
        ) from error


def _checksum(value: Any) -> int:
    if not _is_local(value):
        # This rank's own copy, or its part.
        value = value.addressable_data(0)
    return zlib.crc32(np.ascontiguousarray(value).tobytes())

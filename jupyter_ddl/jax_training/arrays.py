"""Makes variables arrays of all processes, and finds weights that differ between ranks.

JAX takes a copy on each process for one array, and does not look whether they are alike.

Runs on: every rank.
"""

from __future__ import annotations

import weakref
import zlib
from typing import TYPE_CHECKING, Any

import jax
import keras
import numpy as np
from keras.src.distribution import TensorLayout
from keras.src.utils import jax_utils

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput, RanksOutOfSync
from jupyter_ddl.jax_training.processes import gathered
from jupyter_ddl.jax_training.sharding import Sharded
from jupyter_ddl.training.backends.jax_sharded import is_divided

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
    return _divided(np.asarray(tensor), sharding)


class _Wholes:
    """What this rank has divided: a checksum of the whole of each array, while it is there.

    Ranks that divide different ones train a mixture of them, which no part shows.
    """

    def __init__(self) -> None:
        self._noted: dict[int, tuple[weakref.ref[Any], int]] = {}

    def note(self, array: Any, own: Any) -> None:
        """Note an array that was made of this rank's own."""
        # JAX's arrays have no hash.
        number = id(array)
        self._noted[number] = weakref.ref(array, lambda _: self._noted.pop(number, None)), _sum_of(own)

    def sum_of(self, array: Any) -> int:
        """Return the checksum of the whole; 0 where it is what a step or an initializer made on all ranks together."""
        found, checksum = self._noted.get(id(array), (None, 0))
        return checksum if found is not None and found() is array else 0


def of_all(whole: Any, sharding: Any) -> Any:
    """Return an array of all processes, of which each holds what its devices need of the same whole."""
    return jax.make_array_from_callback(whole.shape, sharding, lambda rows: whole[rows])


def make_global(model: Any) -> None:
    """Make variables of this process, or of processes that a release has ended, those of all processes.

    Under `--memory shard-all` each rank keeps its part of them.

    Raises:
        InvalidInput: a variable cannot be read any more.
    """
    distribution = keras.distribution.distribution()
    for variable in variables_of(model):
        layout = variable._layout or distribution.get_variable_layout(variable)
        current = layout.device_mesh.backend_mesh.devices.flat[0] in jax.devices()
        if isinstance(distribution, Sharded):
            # Also of a model that an earlier cell trained unsharded.
            layout = distribution.sharded_layout(variable)
        elif not current:
            layout = TensorLayout(layout.axes, distribution.device_mesh)
        value = variable.value
        sharding = layout.backend_layout
        if current and not _is_local(value) and value.sharding.is_equivalent_to(sharding, value.ndim):
            continue
        # What was compiled keeps the devices that it had.
        model.train_function = model.test_function = model.predict_function = None
        variable._layout = layout
        variable._value = _laid_out(value, variable.path, sharding)


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


def _laid_out(value: Any, path: str, sharding: Any) -> Any:
    """Return a value in another sharding, of which this rank has the whole, or its part of processes that are gone."""
    if is_divided(value):
        part = _read(value.addressable_data(0), path)
        return jax.make_array_from_process_local_data(sharding, part, value.shape)
    return _divided(_read(value, path), sharding)


def _divided(own: Any, sharding: Any) -> Any:
    """Return an array of all processes of which this rank has the whole; that it is theirs too is checked later."""
    made = of_all(own, sharding)
    if is_divided(made):
        rank_state.here().part(_Wholes).note(made, own)
    return made


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
    if is_divided(value):
        return rank_state.here().part(_Wholes).sum_of(value)
    return _sum_of(value if _is_local(value) else value.addressable_data(0))


def _sum_of(value: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(value).tobytes())

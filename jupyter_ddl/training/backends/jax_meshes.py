"""Makes the meshes over which ranks exchange with JAX: one device of each rank of a process set.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.horovod_api.environment_ranks import size
from jupyter_ddl.horovod_api.process_sets import joined

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.horovod_api.process_sets import ProcessSet

AXIS = "ranks"


class _Meshes:
    """The meshes of the processes that there are."""

    def __init__(self) -> None:
        self.first: Any = None
        self.of_ranks: dict[Any, Any] = {}
        self.compiled: dict[Any, Any] = {}


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Make the ranks the processes of JAX. Collective: every rank must call this, before other use of JAX.

    Args:
        comm: Horovod's; None.
        process_sets: to add.

    Raises:
        InvalidInput: a communicator was passed; this process is no rank; JAX was used before.
    """
    if comm is not None:
        raise InvalidInput(
            "With Keras on JAX hvd.init takes no communicator.", repr(comm), "Leave it out; use process_sets."
        )
    if size() > 1:
        jax.distributed.initialize()
    joined().begin(process_sets)


def shutdown() -> None:
    """Forget the process sets. JAX's processes stay: the program may have arrays of all of them."""
    joined().end()


def mesh_of(process_set: ProcessSet) -> Any:
    """Return the mesh of a process set: the same one until JAX has other processes."""
    meshes = _meshes()
    devices = jax.devices()
    if devices[0] is not meshes.first:
        meshes.first = devices[0]
        meshes.of_ranks.clear()
        meshes.compiled.clear()
    ranks = None if process_set.ranks is None else tuple(process_set.ranks)
    if ranks not in meshes.of_ranks:
        first: dict[int, Any] = {}
        for device in devices:
            first.setdefault(device.process_index, device)
        chosen = [first[rank] for rank in (sorted(first) if ranks is None else ranks)]
        meshes.of_ranks[ranks] = jax.sharding.Mesh(np.array(chosen), (AXIS,))
    return meshes.of_ranks[ranks]


def on_device(mesh: Any, value: Any) -> Any:
    """Return a value as an array on this rank's device; one of processes that have ended, too."""
    device = mesh.local_devices[0]
    if isinstance(value, jax.Array):
        if value.is_fully_addressable and value.devices() == {device}:
            return value
        value = np.asarray(value)
    return jax.device_put(value, device)


def as_global(mesh: Any, value: Any) -> Any:
    """Return this rank's array as what JAX takes for a copy of one array on all devices, without a copy."""
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    return jax.make_array_from_single_device_arrays(value.shape, everywhere, [value])


def over_ranks(collective: Callable[[Any, str], Any], mesh: Any) -> Any:
    """Return the compiled program that calls a collective of JAX's over a mesh."""
    compiled = _meshes().compiled
    key = collective, mesh
    if key not in compiled:
        everywhere = jax.sharding.PartitionSpec()

        def of_all(value: Any) -> Any:
            return collective(value, AXIS)

        mapped = jax.shard_map(of_all, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
        compiled[key] = jax.jit(mapped)
    return compiled[key]


def own(value: Any) -> Any:
    """Return this rank's array of such a one."""
    return value.addressable_data(0)


def _meshes() -> _Meshes:
    return rank_state.here().part(_Meshes)

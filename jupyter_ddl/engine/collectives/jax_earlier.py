"""Refuses what earlier processes of JAX made: spread arrays, meshes, and compiled functions.

Their devices are of backends that have ended. JAX would say that "device ids [0, 1]" are incompatible with "device ids
[0, 1]", or wait on connections that are closed.

Source: jax 0.10.2, jax/_src/interpreters/pxla.py: each computation that is not compiled yet passes
`_get_and_check_device_assignment`, and after `clear_backends` each compiled one `MeshExecutable.call`.

Runs on: every rank. Nothing here imports JAX.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.patching import Layer, patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

# By the names of JAX's own kinds of a mismatch.
_RECEIVED = {"ARG_SHARDING": "an array", "CONTEXT_DEVICES": "the mesh of jax.set_mesh()"}


class Earlier:
    """What earlier processes of one rank made.

    Args:
        exists: returns whether there were earlier processes.
    """

    def __init__(self, exists: Callable[[], bool]) -> None:
        self._exists = exists

    def install(self) -> None:
        """Look at computations from here on; to be called before JAX is imported."""
        import_hooks.when_imported("jax._src.interpreters.pxla", self._install)

    def _install(self, pxla: ModuleType) -> None:
        patch(pxla, "_get_and_check_device_assignment", self._check_devices, Layer.RANK)
        patch(pxla.MeshExecutable, "call", self._check_compiled, Layer.RANK)

    def _check_devices(self, stock: Callable[..., Any], shardings: Iterable[Any], context: Any) -> Any:
        """Check what a computation is to run on.

        Raises:
            InvalidInput: it has devices of earlier processes, and is not of this rank alone.
        """
        shardings = list(shardings)
        if self._exists():
            used = [(kind.name, one._device_assignment) for one, kind, _ in shardings if _has_devices(one)]
            used += [("CONTEXT_DEVICES", context._flat_devices_tuple)] if _is_mesh(context) else []
            old = [(kind, devices) for kind, devices in used if _has_ended(devices[0].client)]
            # An array that this rank holds whole stays usable with others of its kind.
            if old and (len(old) < len(used) or any(_is_spread(devices) for _, devices in old)):
                raise _refusal(_RECEIVED.get(old[0][0], "a mesh, or a sharding,"))
        return stock(shardings, context)

    def _check_compiled(self, stock: Callable[..., Any], executable: Any, *args: Any) -> Any:
        """Check a compiled function.

        Raises:
            InvalidInput: it was compiled for earlier processes.
        """
        execute = executable.unsafe_call
        if self._exists() and _has_ended(execute.backend):
            used = [*execute.in_handler.in_shardings, *execute.out_handler.out_shardings]
            if any(_has_devices(one) and _is_spread(one._device_assignment) for one in used):
                raise _refusal("a compiled function")
        return stock(executable, *args)


def _is_mesh(value: Any) -> bool:
    """Return whether it is a mesh of devices: an abstract one has none."""
    return isinstance(value, sys.modules["jax._src.mesh"].Mesh) and not value.empty


def _has_devices(sharding: Any) -> bool:
    """Return whether a sharding is on devices: JAX's marks for unknown ones are not."""
    is_known = hasattr(type(sharding), "_device_assignment")
    return is_known and (not hasattr(sharding, "mesh") or _is_mesh(sharding.mesh))


def _is_spread(devices: Sequence[Any]) -> bool:
    return len({device.process_index for device in devices}) > 1


def _has_ended(client: Any) -> bool:
    return all(client is not one for one in sys.modules["jax._src.xla_bridge"]._backends.values())


def _refusal(received: str) -> InvalidInput:
    return InvalidInput(
        "Spread arrays, meshes and compiled functions of JAX are of use as long as the processes that made them.",
        f"{received} of processes that have ended (a cell failed, was released, or called shutdown())",
        "Make the mesh again, Mesh(jax.devices(), ...), put the data on it again, and compile again. This rank's part "
        "of an old array can be read: array.addressable_shards.",
    )

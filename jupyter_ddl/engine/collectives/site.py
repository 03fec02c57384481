"""Loads the libraries of collectives that a site has added: entry points of the group `jupyter_ddl.collectives`.

Gradients go through the one that JUPYTER_DDL_EXCHANGE names, if it is set.

Runs on: every rank, once, before the first cell.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import numpy as np

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.paths import EXCHANGE_VARIABLE

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.library import Libraries
    from jupyter_ddl.engine.world import World

GROUP = "jupyter_ddl.collectives"
_METHODS = ("allreduce", "broadcast", "rank", "size")


def add_site_libraries(libraries: Libraries, world: World) -> None:
    """Have the engine ask the site's libraries too, and the gradients go through the chosen one.

    An entry point names a function that takes this rank's `World` and returns a `library.Library`. It is called on
    every rank, in the order of their names, so it may be collective.

    Collective: every rank must call this.

    Args:
        libraries: to add them to.
        world: this rank's.

    Raises:
        ClusterError: one cannot be loaded: without it its ranks could not be released; or the chosen one is not there,
            or does not sum over these ranks.

    Example:
        In the pyproject.toml of a site's package:

            [project.entry-points."jupyter_ddl.collectives"]
            ml_comm = "site_ml_comm:library"
    """
    loaded: dict[str, Any] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            loaded[entry.name] = entry.load()(world)
        except Exception as error:
            package = "" if entry.dist is None else f" of the package {entry.dist.name}"
            raise ClusterError(
                f"Each entry point of {GROUP} must give a library of collectives. Received: {entry.name} "
                f"({entry.value}){package}, which raised {type(error).__name__}: {error}. Mend it, or uninstall it."
            ) from error
        libraries.add(loaded[entry.name])
    if chosen := os.environ.get(EXCHANGE_VARIABLE):
        libraries.world_size = world.world_size
        libraries.exchanger = _exchanger(chosen, loaded, world)


def _exchanger(chosen: str, loaded: dict[str, Any], world: World) -> Any:
    """Return the chosen library, after a sum over all ranks and a broadcast that came out right."""
    if chosen not in loaded:
        raise _wrong(chosen, f"the entry points of {GROUP} here are {', '.join(loaded) or 'none'}")
    library = loaded[chosen]
    if missing := [name for name in _METHODS if not callable(getattr(library, name, None))]:
        raise _wrong(chosen, f"it has no {', '.join(missing)}")
    place = (library.rank(), library.size())
    if place != (world.rank, world.world_size):
        raise _wrong(chosen, f"it counts this rank as {place[0]} of {place[1]}, and MPI as {world.rank}")
    own = np.array([1.0, world.rank], np.float32)
    total = library.allreduce(own)
    if total[0] != world.world_size or library.broadcast(own, 0)[1] != 0:
        raise _wrong(chosen, f"its sum of 1 over {world.world_size} ranks is {total[0]:g}")
    return library


def _wrong(chosen: str, received: str) -> ClusterError:
    return ClusterError(
        f"{EXCHANGE_VARIABLE} names a library that sums over all ranks. Received: {chosen}: {received}. "
        "Correct it, or unset it to exchange through Horovod."
    )

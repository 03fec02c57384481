"""Loads the libraries of collectives that a site has added: entry points of the group `jupyter_ddl.collectives`.

Runs on: every rank, once, before the first cell.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError

if TYPE_CHECKING:
    from jupyter_ddl.engine.collectives.library import Libraries
    from jupyter_ddl.engine.world import World

GROUP = "jupyter_ddl.collectives"


def add_site_libraries(libraries: Libraries, world: World) -> None:
    """Have the engine ask the site's libraries too.

    An entry point names a function that takes this rank's `World` and returns a `library.Library`. It is called on
    every rank, in the order of their names, so it may be collective.

    Args:
        libraries: to add them to.
        world: this rank's.

    Raises:
        ClusterError: one cannot be loaded: without it its ranks could not be released.

    Example:
        In the pyproject.toml of a site's package:

            [project.entry-points."jupyter_ddl.collectives"]
            ml_comm = "site_ml_comm:library"
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            libraries.add(entry.load()(world))
        except Exception as error:
            package = "" if entry.dist is None else f" of the package {entry.dist.name}"
            raise ClusterError(
                f"Each entry point of {GROUP} must give a library of collectives. Received: {entry.name} "
                f"({entry.value}){package}, which raised {type(error).__name__}: {error}. Mend it, or uninstall it."
            ) from error

"""Finds running clusters by their name or their job, on this host and on others.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster import folder as folders
from jupyter_ddl.cluster import registry
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.launch.mpi_job import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterator


def running() -> Iterator[ClusterFolder]:
    """Yield the folder of each cluster of this user's that runs, on this host first."""
    yield from folders.running()
    yield from running_elsewhere()


def running_elsewhere() -> Iterator[ClusterFolder]:
    """Yield the folder of each cluster of this user's that runs on another host."""
    for path, _ in registry.folders_elsewhere():
        folder = ClusterFolder(path.name, path.parent)
        if folder.is_usable():
            yield folder


def _is_reachable(folder: ClusterFolder) -> bool:
    """Return whether the controller of a cluster on another host listens where this one may reach it."""
    address: str = folder.settings().get("address", LOOPBACK)
    return address != LOOPBACK


def of_job(job: str, not_world: str = "") -> ClusterFolder | None:
    """Return the folder of the cluster that a job's program has started; None where there is none.

    Args:
        job: as the scheduler names it.
        not_world: a world of ranks that is not wanted, since it was lost.
    """
    for folder in running():
        try:
            served = folder.spec().served
        except ValueError:
            # It has ended meanwhile.
            continue
        if served is not None and served.job == job and folder.settings().get("world_id") != not_world:
            return folder
    return None


def named(name: str) -> ClusterFolder:
    """Return the folder of a running cluster, by its name or its job: this host's, else the only one of other hosts.

    Raises:
        NoCluster: none runs, or several do.
        FolderNotPrivate: another user can write to the folder of the clusters.
    """
    folder = ClusterFolder(name)
    folder.check_private()
    if folder.lease() is not None:
        if folder.is_usable() and "world_id" in folder.settings():
            return folder
        raise folders.not_found(folder)
    found = [one for one in running_elsewhere() if one.name == name and _is_reachable(one)]
    if len(found) == 1:
        return found[0]
    of_number = None if found else of_job(name)
    if of_number is None:
        raise folders.not_found(folder)
    return of_number

"""Starts clusters, and finds running ones.

Runs on: kernel.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster import occupancy, scratch, through_ssh
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_settings import settle, surveyed
from jupyter_ddl.cluster.lifecycle import Cluster
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import mpi
from jupyter_ddl.host.preflight import check_surroundings
from jupyter_ddl.host.run_module import without_working_folder
from jupyter_ddl.launch.surveyed import check_way_back

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.cluster.standby import Standby
    from jupyter_ddl.launch.surveyed import Surveyed


def start(
    spec: ClusterSpec,
    progress: Callable[[str], None] = lambda _: None,
    given_up: threading.Event | None = None,
    standby: Standby | None = None,
) -> Cluster:
    """Start a cluster and return it when every rank is ready.

    Where its hosts cannot connect to this one, what holds it is on the first of them, and is reached through SSH.

    Args:
        spec: what to start.
        progress: called with a sentence at each step.
        given_up: set, by another thread, to cancel.
        standby: where ranks may wait that take over, and others are made to wait; None for neither.

    Raises:
        InvalidInput: a cluster of that name runs, or another one uses a device of this one.
        HostUnfit: no rank can start on this host, or on one of several.
        ClusterStartFailed: a rank did not start.
    """
    folder = ClusterFolder(spec.name)
    with folder.starting():
        check_name(folder)
        occupancy.check_free(spec)
        world = None if standby is None else standby.take(spec)
        spec = occupancy.with_sharers_told(spec)
        if world is not None:
            progress("ranks that stood by take over")
            _clear_what_a_killed_one_left(folder)
            folder.create(spec, world.record)
            return _ready(Cluster(folder, world.begin()), progress, given_up, standby)
        found, hosts = look(spec, folder, progress, given_up, calls_back=not spec.place.through_ssh)
        if through_ssh.is_needed(spec.place, hosts):
            return _ready(through_ssh.begin(spec, hosts, progress, given_up), progress, given_up, standby)
        prepare(spec, folder, found, hosts, os.getpid())
        return _ready(Cluster(folder, leases.start(folder)), progress, given_up, standby)


def check_name(folder: ClusterFolder) -> None:
    """Check that no cluster of that name runs on this host.

    Raises:
        InvalidInput: one does.
    """
    if folder.lease() is not None:
        raise InvalidInput(
            "A cluster's name is its own.",
            f"name={folder.name!r}, which runs already",
            f"%ddl attach {folder.name} uses it, %ddl stop ends it, --name starts another.",
        )


def look(
    spec: ClusterSpec,
    folder: ClusterFolder,
    progress: Callable[[str], None],
    given_up: threading.Event | None,
    *,
    calls_back: bool = True,
) -> tuple[mpi.Mpi, list[Surveyed]]:
    """Return what starts the ranks on this host, and what was found on others.

    Args:
        spec: what is to start.
        folder: the cluster's.
        progress: called with a sentence at each step.
        given_up: set, by another thread, to cancel.
        calls_back: whether each host tries to connect to this one.

    Raises:
        HostUnfit: ranks cannot start on a host, from any other.
    """
    check_surroundings(spec.n if spec.place.is_here else 1)
    found = mpi.find_mpi()
    progress(f"mpiexec {found.version} ({found.flavour}, {found.source}): {found.mpiexec}")
    return found, surveyed(spec, found, folder, given_up, calls_back=calls_back)


def prepare(
    spec: ClusterSpec,
    folder: ClusterFolder,
    found: mpi.Mpi,
    hosts: Sequence[Surveyed],
    kernel_pid: int,
    **more: object,
) -> None:
    """Write the folder of a cluster whose lease is about to start on this host.

    Args:
        spec: what it starts.
        folder: the cluster's.
        found: the MPI that starts the ranks.
        hosts: what was found on them.
        kernel_pid: of the lease's parent.
        more: what else stands in cluster.json.

    Raises:
        HostUnfit: a host cannot connect to this one.
    """
    check_way_back(hosts)
    world_id = secrets.token_hex(4)
    _clear_what_a_killed_one_left(folder)
    settings = settle(spec, found, folder, world_id, hosts)
    spec = replace(spec, note=" ".join((spec.note, *settings.notes())))
    folder.create(spec, {"world_id": world_id, "kernel_pid": kernel_pid, **settings.to_record(), **more})


def _clear_what_a_killed_one_left(folder: ClusterFolder) -> None:
    """Remove what is left of a world of this name whose lease and kernel were both killed."""
    scratch.clear(folder.settings().get("scratch", {}))


def _ready(
    cluster: Cluster,
    progress: Callable[[str], None],
    given_up: threading.Event | None,
    standby: Standby | None,
) -> Cluster:
    """Return a cluster whose lease has begun when every rank is ready."""
    progress(f"starting {cluster.world_size} ranks")
    try:
        # While the ranks start, so that the first push or pull need not wait for it.
        with without_working_folder():
            import_module("ipyparallel.serialize")
        cluster.connect(progress=progress, given_up=given_up)
    except BaseException:
        # Also on KeyboardInterrupt: nothing is left half started.
        cluster.stop()
        raise
    if standby is not None:
        standby.follow(cluster)
    return cluster


def attach(folder: ClusterFolder) -> Cluster:
    """Connect to a cluster that runs, here or on another host."""
    cluster = Cluster(folder, None)
    cluster.connect()
    return cluster

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
from jupyter_ddl.cluster import occupancy, scratch
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_settings import settle
from jupyter_ddl.cluster.lifecycle import Cluster
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import mpi
from jupyter_ddl.host.preflight import check_surroundings
from jupyter_ddl.host.run_module import without_working_folder

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from jupyter_ddl.cluster.spec import ClusterSpec


def start(
    spec: ClusterSpec, progress: Callable[[str], None] = lambda _: None, given_up: threading.Event | None = None
) -> Cluster:
    """Start a cluster and return it when every rank is ready.

    Args:
        spec: what to start.
        progress: called with a sentence at each step.
        given_up: set, by another thread, to cancel.

    Raises:
        InvalidInput: a cluster of that name runs, or another one uses a device of this one.
        HostUnfit: no rank can start on this host, or on one of several.
        ClusterStartFailed: a rank did not start.
    """
    folder = ClusterFolder(spec.name)
    with folder.starting():
        if folder.lease() is not None:
            raise InvalidInput(
                "A cluster's name is its own.",
                f"name={spec.name!r}, which runs already",
                f"%ddl attach {spec.name} uses it, %ddl stop ends it, --name starts another.",
            )
        occupancy.check_free(spec)
        return _start(folder, occupancy.with_sharers_told(spec), progress, given_up)


def _start(
    folder: ClusterFolder, spec: ClusterSpec, progress: Callable[[str], None], given_up: threading.Event | None
) -> Cluster:
    check_surroundings()
    found = mpi.find_mpi()
    progress(f"mpiexec {found.version} ({found.flavour}, {found.source}): {found.mpiexec}")
    world_id = secrets.token_hex(4)
    # Left by a world of this name whose lease and kernel were both killed.
    scratch.clear(folder.settings().get("scratch", {}))
    settings = settle(spec, found, folder, world_id, given_up)
    spec = replace(spec, note=" ".join((spec.note, *settings.notes())))
    folder.create(spec, {"world_id": world_id, "kernel_pid": os.getpid(), **settings.to_record()})
    cluster = Cluster(folder, leases.start(folder))
    progress(f"starting {spec.n} ranks")
    try:
        # While the ranks start, so that the first push or pull need not wait for it.
        with without_working_folder():
            import_module("ipyparallel.serialize")
        cluster.connect(progress=progress, given_up=given_up)
    except BaseException:
        # Also on KeyboardInterrupt: nothing is left half started.
        cluster.stop()
        raise
    return cluster


def attach(folder: ClusterFolder) -> Cluster:
    """Connect to a cluster that runs, here or on another host."""
    cluster = Cluster(folder, None)
    cluster.connect()
    return cluster

"""Ends ranks as idle: a note tells by whom, and the lease, or the kernel that watches it, reports that.

Ranks of this host end by their lease, which finds the note in the cluster's folder. Those that a batch job brings end
with the job, by its scheduler's command, wherever they are: its program would start others. The note is in the job's
folder.

Runs on: Jupyter server, a terminal; lease and kernel read the note.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import batch_job
from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.cluster.ending_notes import write_note

if TYPE_CHECKING:
    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.cluster.spec import Served

_POLL_S = 0.2


def end_as_idle(folder: ClusterFolder, by: str, idle_s: float) -> bool:
    """End the ranks of a cluster of this host, or of a batch job, and wait until they are gone.

    Args:
        folder: the cluster's.
        by: who wants it, for the user of the ranks.
        idle_s: how long they were idle.

    Returns:
        Whether they ran.

    Raises:
        OSError: the note cannot be written; the ranks run on.
        ClusterError: the scheduler does not end the job.
    """
    try:
        served = folder.spec().served
    except ValueError:
        # It has ended meanwhile.
        return False
    if served is not None:
        return _end_job(folder, served, by, idle_s)
    # Ours: lease.json names it, and its start was compared.
    lease = folder.lease()
    if lease is None:
        return False
    write_note(folder.path, by, idle_s)
    leases.terminate(lease)
    return True


def _end_job(folder: ClusterFolder, served: Served, by: str, idle_s: float) -> bool:
    job = batch_job.known(served.job)
    if job is None:
        return False
    write_note(job.folder.path, by, idle_s)
    job.cancel()
    deadline_s = time.monotonic() + leases.STOP_TIMEOUT_S
    while folder.runs() and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return True

"""Ends ranks as idle: a note in the cluster's folder tells the lease by whom, and it reports that to the kernel.

Runs on: Jupyter server, a terminal; the lease reads the note.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import lease_process as leases
from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.cluster.folder import ClusterFolder

_NOTE = "ended_as_idle.json"
# An older note is of a process that was killed before it ended the ranks.
_FRESH_S = 60.0
_MOST_CHARACTERS = 200


def end_as_idle(folder: ClusterFolder, by: str, idle_s: float) -> bool:
    """End the ranks of a cluster of this host, and wait until they are gone; return whether they ran.

    Args:
        folder: the cluster's.
        by: who wants it, for the user of the ranks.
        idle_s: how long they were idle.

    Raises:
        OSError: the note cannot be written; the ranks run on.
    """
    # Ours: lease.json names it, and its start was compared.
    lease = folder.lease()
    if lease is None:
        return False
    files.replace(folder.path / _NOTE, json.dumps({"by": by, "idle_s": idle_s, "at_s": time.time()}))
    leases.terminate(lease)
    return True


def ending_on_request(folder: Path) -> Fault:
    """Return why a cluster ends whose lease was asked to end it: its user wants it, or it was idle, as the note says.

    Args:
        folder: the cluster's.
    """
    now_s = time.time()
    try:
        note = untrusted_files.read_object(folder / _NOTE, only_own=True)
        by, idle_s, is_fresh = (
            str(note["by"])[:_MOST_CHARACTERS],
            float(note["idle_s"]),
            now_s - note["at_s"] < _FRESH_S,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Fault("stopped", "user", at_s=now_s)
    if not is_fresh:
        return Fault("stopped", "user", at_s=now_s)
    return Fault("stopped", "idle", at_s=now_s, facts=Facts(by=by, seconds=idle_s))

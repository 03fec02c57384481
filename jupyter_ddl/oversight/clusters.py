"""Finds the clusters of this user, and when each was used last. No code, log or error's text is in what it returns.

Runs on: Jupyter server, a terminal.
"""

from __future__ import annotations

import os
import pwd
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from psutil import NoSuchProcess

from jupyter_ddl.cluster import finding
from jupyter_ddl.cluster.registry import host_of
from jupyter_ddl.cluster.use_lock import is_used, last_use_s
from jupyter_ddl.host import process_identity
from jupyter_ddl.protocol.cluster_summaries import ClusterSummary
from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.reading import run_events
from jupyter_ddl.runs.store import CUT_OFF, RUNNING, UNKNOWN, newest_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.protocol.faults import Kind
    from jupyter_ddl.runs.store import RunRecord

# How many runs are read, the newest first.
SEARCHED = 500
# What is no fault: a user wanted it.
_WANTED: tuple[Kind, ...] = ("interrupted", "stopped")


@dataclass
class Activity:
    """What the runs of one world of ranks say of it.

    Attributes:
        is_running: one is active, in a kernel or on ranks whose kernel is gone.
        last_s: when the last one ended.
        fault_kind: of the newest that failed.
    """

    is_running: bool = False
    last_s: float = 0.0
    fault_kind: Kind | None = None
    fault_at_s: float | None = None


def this_user() -> str:
    """Return who owns this server's clusters: JupyterHub's name of the user, else the system's."""
    named = os.environ.get("JUPYTERHUB_USER")
    if named:
        return named
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def found() -> list[tuple[ClusterFolder, ClusterSummary]]:
    """Return the folder and the summary of each cluster of this user's that runs, on this host first, by name."""
    now_s = time.time()
    folders = [(folder, start_s) for folder in finding.running() if (start_s := _start_s(folder)) is not None]
    worlds = {str(folder.settings().get("world_id")) for folder, _ in folders}
    activities = activity(worlds, min((start_s for _, start_s in folders), default=now_s))
    described = [
        (folder, _summary(folder, start_s, activities, now_s, is_used(folder.path))) for folder, start_s in folders
    ]
    return [(folder, summary) for folder, summary in described if summary is not None]


def look(folder: ClusterFolder) -> ClusterSummary | None:
    """Return the summary of a cluster that the caller keeps from use; None where it ends at this moment."""
    start_s = _start_s(folder)
    if start_s is None:
        return None
    activities = activity({str(folder.settings().get("world_id"))}, start_s)
    return _summary(folder, start_s, activities, time.time(), False)


def activity(worlds: Iterable[str], since_s: float) -> dict[str, Activity]:
    """Return what the newest runs say of each world of ranks.

    Args:
        worlds: their ids.
        since_s: when the first of them began, in seconds since the epoch.
    """
    activities = {world: Activity() for world in worlds}
    for record in islice(newest_first(), SEARCHED):
        if record.start_s < since_s:
            break
        known = activities.get(record.world_id or "")
        if known is not None:
            _note(known, record)
    return activities


def _note(known: Activity, record: RunRecord) -> None:
    end_s = record.start_s + (record.seconds or 0.0)
    known.last_s = max(known.last_s, end_s)
    known.is_running |= record.state == RUNNING or (record.state in (CUT_OFF, UNKNOWN) and _runs_on(record))
    fault = record.fault
    if known.fault_kind is None and fault is not None and fault.kind not in _WANTED:
        known.fault_kind, known.fault_at_s = fault.kind, fault.at_s or end_s


def _runs_on(record: RunRecord) -> bool:
    """Return whether ranks run a cell whose kernel is gone, as kept ones do until its end."""
    pending = set(record.ranks)
    for event in run_events(record.path):
        if isinstance(event, RankLost):
            return False
        if isinstance(event, RankFinished | RankFailed):
            pending.discard(event.rank)
    return bool(pending)


def _start_s(folder: ClusterFolder) -> float | None:
    """Return since when a cluster runs; None where it ends at this moment."""
    try:
        if folder.is_elsewhere:
            # Its lease writes this once, when it begins.
            return (folder.path / "lease.json").stat().st_mtime
        lease = folder.lease()
        return None if lease is None else lease.create_time()
    except (OSError, NoSuchProcess):
        return None


def _summary(
    folder: ClusterFolder, start_s: float, activities: dict[str, Activity], now_s: float, used: bool
) -> ClusterSummary | None:
    settings = folder.settings()
    known = activities.get(str(settings.get("world_id")), Activity())
    try:
        spec = folder.spec()
    except ValueError:
        # It ends at this moment.
        return None
    is_running = known.is_running or used
    is_starting = not folder.connection_file.exists()
    last_s = max(start_s, known.last_s, last_use_s(folder.path))
    here = host_of(folder.path) if folder.is_elsewhere else process_identity.here()["host"]
    return ClusterSummary(
        id=f"{folder.path.parent.name}/{folder.name}",
        user=this_user(),
        name=folder.name,
        world_size=spec.n,
        devices=tuple(dict.fromkeys(spec.devices)),
        is_on_cores=not spec.devices and not spec.finds_devices,
        hosts=tuple(settings.get("hosts", {})) or (() if here is None else (here,)),
        job=None if spec.served is None else spec.served.job,
        start_s=start_s,
        state="running" if is_running else "starting" if is_starting else "idle",
        idle_s=None if is_running or is_starting else max(0.0, now_s - last_s),
        fault_kind=known.fault_kind,
        fault_at_s=known.fault_at_s,
        is_elsewhere=folder.is_elsewhere and spec.served is None,
        idle_stop_s=None if spec.idle_stop is None else spec.idle_stop.after_s,
        # Only the kernel that started them loads them again.
        keeps_variables=spec.keep_variables and not folder.is_orphan(),
    )

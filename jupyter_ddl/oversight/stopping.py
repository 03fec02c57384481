"""Ends clusters that are idle, and logs who did. One that is used is left, also where its run begins at that moment.

Runs on: Jupyter server, a terminal.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.ending_notes import log_ending
from jupyter_ddl.cluster.idle_end import end_as_idle
from jupyter_ddl.cluster.use_lock import kept_from_use
from jupyter_ddl.errors import ClusterError
from jupyter_ddl.oversight import clusters
from jupyter_ddl.protocol.number_texts import counted

if TYPE_CHECKING:
    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.protocol.cluster_summaries import ClusterSummary, StopOutcome, StopRequest

_log = logging.getLogger("jupyter_ddl")


def stop_idle(request: StopRequest, by: str) -> dict[str, StopOutcome]:
    """End those of the clusters that are idle; return what became of each.

    Args:
        request: which, and how long they must have been idle.
        by: who asks for it, for the log and for the user of the ranks.
    """
    known = {summary.id: (folder, summary) for folder, summary in clusters.found()}
    outcomes: dict[str, StopOutcome] = {}
    for cluster in request.clusters:
        outcomes[cluster] = _stop(*known[cluster], request.idle_s, by) if cluster in known else "gone"
    return outcomes


def is_idle_for(summary: ClusterSummary, idle_s: float) -> bool:
    """Return whether a cluster can be ended as idle by now."""
    return not summary.is_elsewhere and summary.idle_s is not None and summary.idle_s >= idle_s


def _stop(folder: ClusterFolder, summary: ClusterSummary, least_s: float, by: str) -> StopOutcome:
    if summary.is_elsewhere:
        return "elsewhere"
    with kept_from_use(folder.path) as is_free:
        if not is_free:
            return "used"
        # Looked at once more: no run begins from here on.
        now = clusters.look(folder)
        if now is None:
            return "gone"
        if not is_idle_for(now, least_s) or now.idle_s is None:
            return "used"
        try:
            if not end_as_idle(folder, by, now.idle_s):
                return "gone"
        except (OSError, ClusterError) as error:
            _log.warning("jupyter_ddl: the cluster %s could not be ended as idle: %s", now.name, error)
            return "failed"
    _note(now, now.idle_s, by)
    return "stopped"


def _note(summary: ClusterSummary, idle_s: float, by: str) -> None:
    ranks = counted(summary.world_size, "rank")
    what = f"{summary.name} of {summary.user} ({ranks} on {', '.join(summary.hosts)})"
    _log.warning("jupyter_ddl: the cluster %s", log_ending(what, by, idle_s))

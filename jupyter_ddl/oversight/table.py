"""Formats the table of all clusters, for who looks after others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.number_texts import NOTHING, duration, time_left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.cluster_summaries import ClusterSummary, ServerProblem, StopOutcome

_COLUMNS = ("user", "cluster", "ranks", "devices", "hosts", "since", "idle for", "last fault")
_HOSTS_SHOWN = 3
_OUTCOMES: dict[StopOutcome, str] = {
    "stopped": "stopped",
    "used": "left: it is used, or was just now",
    "elsewhere": "left: it runs on another host, and is stopped there",
    "gone": "it had ended",
    "failed": "it could not be stopped",
}
_PROBLEMS = {
    "missing": "has no jupyter_ddl, or an older one",
    "refused": "is not open to this token",
    "silent": "does not answer",
    "broken": "answers something else",
}


def clusters_table(clusters: Sequence[ClusterSummary], now_s: float | None = None) -> str:
    """Return a line a cluster as aligned text, in the order that is given."""
    if not clusters:
        return "No cluster runs."
    now_s = time.time() if now_s is None else now_s
    cells = [_COLUMNS, *(_cells(cluster, now_s) for cluster in clusters)]
    return "\n".join(aligned(cells))


def devices_text(cluster: ClusterSummary) -> str:
    """Return what the ranks compute on."""
    if cluster.is_on_cores:
        return "cores"
    return f"GPU {','.join(cluster.devices)}" if cluster.devices else "GPUs of their hosts"


def loss_text(idle: Sequence[ClusterSummary]) -> str:
    """Return what becomes of the variables of clusters that are to be stopped as idle."""
    if not any(cluster.keeps_variables for cluster in idle):
        return "What their cells defined is lost."
    kept = "saved, and %ddl restart in its notebook loads it again"
    if all(cluster.keeps_variables for cluster in idle):
        return f"What their cells defined is {kept}."
    return f"What their cells defined is lost, but for those that keep variables: there it is {kept}."


def outcome_text(outcome: StopOutcome) -> str:
    """Return what became of a cluster that was to be stopped."""
    return _OUTCOMES[outcome]


def problem_text(problem: ServerProblem) -> str:
    """Return why the clusters of a server are not known, as a sentence."""
    server = f" ({shown(problem.server)})" if problem.server else ""
    return f"The server of {shown(problem.user)}{server} {_PROBLEMS[problem.reason]}: its clusters are not known."


def shown(text: str) -> str:
    """Return a name without what a terminal would act on: another user's server may send any."""
    return "".join(one if one.isprintable() else "?" for one in text)


def _cells(cluster: ClusterSummary, now_s: float) -> tuple[str, ...]:
    user = f"{cluster.user} ({cluster.server})" if cluster.server else cluster.user
    name = f"{cluster.name} (job {cluster.job})" if cluster.job else cluster.name
    more = len(cluster.hosts) - _HOSTS_SHOWN
    hosts = ",".join(cluster.hosts[:_HOSTS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(cluster.start_s))
    idle = cluster.state if cluster.idle_s is None else duration(cluster.idle_s)
    if cluster.idle_s is not None and cluster.idle_stop_s is not None:
        idle += f", ends in {time_left(cluster.idle_stop_s - cluster.idle_s)}"
    if cluster.keeps_variables:
        idle += ", keeps variables"
    fault = NOTHING
    if cluster.fault_kind is not None:
        ago = "" if cluster.fault_at_s is None else f", {time_left(now_s - cluster.fault_at_s)} ago"
        fault = f"{cluster.fault_kind}{ago}"
    texts = (user, name, str(cluster.world_size), devices_text(cluster), hosts, since, idle, fault)
    return tuple(map(shown, texts))

"""Formats the table of all clusters, for who looks after others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.number_texts import NOTHING, duration, time_left

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.cluster_summaries import ClusterSummary

_COLUMNS = ("user", "cluster", "ranks", "devices", "hosts", "since", "idle for", "last fault")
_HOSTS_SHOWN = 3


def clusters_table(clusters: Sequence[ClusterSummary], now_s: float | None = None) -> str:
    """Return a line a cluster as aligned text, in the order that is given."""
    if not clusters:
        return "No cluster runs."
    now_s = time.time() if now_s is None else now_s
    cells = [_COLUMNS, *(_cells(cluster, now_s) for cluster in clusters)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in cells)
    return "\n".join(line.rstrip() for line in lines)


def devices_text(cluster: ClusterSummary) -> str:
    """Return what the ranks compute on."""
    if cluster.is_on_cores:
        return "cores"
    return f"GPU {','.join(cluster.devices)}" if cluster.devices else "GPUs of their hosts"


def _cells(cluster: ClusterSummary, now_s: float) -> tuple[str, ...]:
    user = f"{cluster.user} ({cluster.server})" if cluster.server else cluster.user
    name = f"{cluster.name} (job {cluster.job})" if cluster.job else cluster.name
    more = len(cluster.hosts) - _HOSTS_SHOWN
    hosts = ",".join(cluster.hosts[:_HOSTS_SHOWN]) + (f" and {more} more" if more > 0 else "")
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(cluster.start_s))
    idle = cluster.state if cluster.idle_s is None else duration(cluster.idle_s)
    fault = NOTHING
    if cluster.fault_kind is not None:
        ago = "" if cluster.fault_at_s is None else f", {time_left(now_s - cluster.fault_at_s)} ago"
        fault = f"{cluster.fault_kind}{ago}"
    texts = (user, name, str(cluster.world_size), devices_text(cluster), hosts, since, idle, fault)
    # A name that another user's server sends may hold what a terminal would act on.
    return tuple("".join(one if one.isprintable() else "?" for one in text) for text in texts)

"""Finds a host that stays away for so long that its ranks are lost.

MPI itself waits for minutes: a cut connection looks like one that has nothing to say.

Runs on: kernel.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.remote_processes import RemoteProcesses
    from jupyter_ddl.protocol.rank_life import RankReady


def lost_host(
    quiet: Mapping[int, float], ranks: Mapping[int, RankReady], processes: RemoteProcesses, after_s: float
) -> Fault | None:
    """Return the loss of a host from which nothing has come for longer than a host may stay away.

    One that cannot be asked is not lost: it is up, and its ranks may only be stopped.

    Args:
        quiet: rank -> for how long it has sent nothing, of the ranks in a run.
        ranks: rank -> its RankReady, of all.
        processes: asks hosts.
        after_s: how long a host may stay away, in seconds.
    """
    hosts = {ranks[rank].host for rank in quiet}
    away = {host: min(quiet[rank] for rank in quiet if ranks[rank].host == host) for host in hosts}
    away = {host: seconds for host, seconds in away.items() if seconds >= after_s}
    processes.look(away)
    for host, seconds in sorted(away.items()):
        if processes.is_silent(host):
            theirs = tuple(sorted(rank for rank, ready in ranks.items() if ready.host == host))
            facts = Facts(world_size=len(ranks), seconds=round(seconds, 1))
            return Fault("lost", "host", theirs, host, time.time() - seconds, facts=facts)
    return None

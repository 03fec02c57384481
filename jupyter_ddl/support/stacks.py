"""Asks the ranks of a run where they are now, as `%ddl stacks` does, where they are still there.

Runs on: the terminal's process, Jupyter server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster import finding
from jupyter_ddl.cluster.lifecycle import Cluster
from jupyter_ddl.cluster.rank_stacks import StackLooks
from jupyter_ddl.errors import DdlError
from jupyter_ddl.views.stack_text import render_stacks

if TYPE_CHECKING:
    from collections.abc import Iterable

# Ranks that are there answer within milliseconds, also while they run a cell.
_CONNECT_S = 10.0


def stacks_now(world_id: str, ranks: Iterable[int]) -> str | None:
    """Return where ranks are now, or why that cannot be seen; None where their world is gone.

    Args:
        world_id: which world of ranks.
        ranks: which of them.
    """
    folder = next((one for one in finding.running() if one.settings().get("world_id") == world_id), None)
    if folder is None:
        return None
    cluster = Cluster(folder, None)
    try:
        cluster.connect(timeout_s=_CONNECT_S)
        looks = StackLooks(cluster.ranks, cluster, world_id, folder.log_dir)
        cluster.listen(looks.handle)
        known = [rank for rank in ranks if rank in cluster.ranks]
        return render_stacks(looks.look(known).values(), cluster.world_size)
    except DdlError as error:
        return str(error)
    finally:
        cluster.close()

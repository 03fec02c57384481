"""A cluster of which only the channel is real: for ranks that a benchmark's own processes simulate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster import starting
from jupyter_ddl.cluster.apart_files import ApartFiles, ApartHosts
from jupyter_ddl.cluster.channel import Channel
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.cluster.use_lock import UseLock
from jupyter_ddl.kernel.active_runs import ActiveRuns
from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.rebuilder import Rebuilder
from jupyter_ddl.kernel.setup_cells import SetupCells
from jupyter_ddl.launch.place import HERE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_ddl.protocol.events import Event


class ChannelOnly:
    """A cluster's side: what `ActiveRuns` asks of one, over a real channel. Nothing watches over the ranks.

    Args:
        connection_file: for clients.
        world_id: the prefix of the ranks' identities.
        n: how many ranks there are.
    """

    def __init__(self, connection_file: Path, world_id: str, n: int) -> None:
        self.ranks: dict[int, Any] = {}
        self.world_size = n
        self.lost = None
        self.supervisor = self
        self.use = UseLock(connection_file.parent)
        self.files = ApartFiles(ApartHosts(HERE, {}), Path())
        self._listener: Callable[[Event], None] = lambda _: None
        self.channel = Channel(connection_file, world_id, lambda event: self._listener(event))

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Have `listener` called with every event."""
        self._listener = listener

    def attend(self, busy: Callable[[], set[int]]) -> None:
        """Watch over nothing."""

    def send(self, request: Any, ranks: Iterable[int], *, now: bool = False) -> None:
        """Send a request to ranks."""
        self.channel.send(request, ranks, now=now)


def runs_on(cluster: ChannelOnly) -> ActiveRuns:
    """Return the runs of a kernel that uses a cluster."""
    spec = ClusterSpec("bench", cluster.world_size, (), 1, {}, keep=False, oversubscribe=False, note="")
    rebuilder = Rebuilder(starting.start, SetupCells())
    side: Any = cluster
    return ActiveRuns(side, ClusterLifecycle(spec, rebuilder, Observers(), replaces_lost=False))

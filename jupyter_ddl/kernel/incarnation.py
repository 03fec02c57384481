"""Joins one world of ranks, from ready until replaced, with all that sends to it.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.debugging import Debugging
from jupyter_ddl.cluster.host_topologies import HostTopologies
from jupyter_ddl.cluster.lookups import Lookups
from jupyter_ddl.cluster.rank_profiles import Profiles
from jupyter_ddl.cluster.rank_stacks import StackLooks
from jupyter_ddl.cluster.transfer import Transfer
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel.active_runs import ActiveRuns
from jupyter_ddl.kernel.idle_count import idle_count_of
from jupyter_ddl.kernel.sending import Sender
from jupyter_ddl.kernel.wall_time import wall_time_of
from jupyter_ddl.protocol.requests import ReleaseAsked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.kernel.active_runs import RunsOwner
    from jupyter_ddl.protocol.events import Event


@dataclass(frozen=True)
class Incarnation:
    """One world of ranks. A restart or a rebuild replaces the whole record at once.

    Attributes:
        cluster: its processes.
        runs: its active runs.
        transfer: moves values to and from its ranks.
        looks: asks its ranks for their stacks.
        profiles: has its ranks sample their stacks.
        lookups: asks its rank 0 for names.
        debugging: asks its ranks' debuggers.
        topologies: what its hosts have.
        sender: sends cells to it.
    """

    cluster: Cluster
    runs: ActiveRuns
    transfer: Transfer
    looks: StackLooks
    profiles: Profiles
    lookups: Lookups
    debugging: Debugging
    topologies: HostTopologies
    sender: Sender

    @classmethod
    def of(cls, cluster: Cluster, owner: RunsOwner) -> Incarnation:
        """Return the record of a cluster that is ready.

        Args:
            cluster: the cluster.
            owner: its state.
        """
        runs = ActiveRuns(cluster, owner)
        transfer = Transfer(cluster.connection_file, cluster.world_id, runs.why_lost, cluster)
        cluster.listen(partial(_release_asked, cluster.kernel, transfer))
        looks = StackLooks(cluster.ranks, cluster, cluster.world_id, cluster.folder.log_dir)
        profiles = Profiles(cluster.ranks, cluster)
        lookups = Lookups(cluster)
        debugging = Debugging(cluster)
        topologies = HostTopologies(cluster.ranks, cluster)
        runs.wall_time = wall_time_of(cluster.spec, runs.notify)
        runs.idle_count = idle_count_of(cluster, runs.notify)
        cluster.listen(looks.handle)
        cluster.listen(profiles.handle)
        cluster.listen(lookups.handle)
        cluster.listen(debugging.handle)
        cluster.listen(topologies.handle)
        # Now, while no cell runs: the records of all runs have the answers.
        topologies.ask()
        sender = Sender(cluster, runs, looks, topologies)
        return cls(cluster, runs, transfer, looks, profiles, lookups, debugging, topologies, sender)

    def chosen(self, ranks: Iterable[int] | None) -> tuple[int, ...]:
        """Return ranks in order, each once; all where none are given.

        Raises:
            InvalidInput: one does not exist, or there are none.
        """
        world_size = self.cluster.world_size
        if ranks is None:
            return tuple(range(world_size))
        chosen = tuple(sorted(set(ranks)))
        if not chosen or chosen[0] < 0 or chosen[-1] >= world_size:
            raise InvalidInput(
                f"A rank must be one of 0-{world_size - 1}.",
                f"ranks {list(chosen)} of {world_size}",
                "Pass ranks that exist, or none for all.",
            )
        return chosen

    def end(self) -> None:
        """End the ranks and wait until they are gone. Safe to call twice, and from any thread."""
        self._close()
        self.cluster.stop()

    def detach(self) -> None:
        """Disconnect from the ranks without ending them."""
        self._close()
        self.cluster.close()
        self.runs.leave()

    def _close(self) -> None:
        self.transfer.close()
        if self.runs.wall_time is not None:
            self.runs.wall_time.close()
        if self.runs.idle_count is not None:
            self.runs.idle_count.close()


def _release_asked(kernel: str, transfer: Transfer, event: Event) -> None:
    """End a transfer's wait where another kernel released the ranks from it."""
    if isinstance(event, ReleaseAsked) and event.kernel != kernel:
        transfer.release(event.reason, event.at_s)

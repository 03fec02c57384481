"""Sends a cell to ranks: makes its run and the run's folder, and has the ranks begin.

Runs on: kernel.
"""

from __future__ import annotations

import platform
from functools import partial
from typing import TYPE_CHECKING, Any

import jupyter_ddl
from jupyter_ddl.host.threads import described
from jupyter_ddl.kernel.run_follower import Follower
from jupyter_ddl.kernel.run_origin import Origins
from jupyter_ddl.kernel.stall_watch import StallWatch
from jupyter_ddl.protocol.events import RunStarted
from jupyter_ddl.protocol.requests import PrepareHorovod, RunCell
from jupyter_ddl.runs.folder import RunFolder, this_process
from jupyter_ddl.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from jupyter_ddl.cluster.host_topologies import HostTopologies
    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.cluster.rank_stacks import StackLooks
    from jupyter_ddl.kernel.active_runs import ActiveRuns
    from jupyter_ddl.protocol.cell_options import CellOptions
    from jupyter_ddl.views.view import View


class Sender:
    """Sends cells to one world of ranks.

    Args:
        cluster: the cluster of the ranks.
        runs: its active runs, which get each new one.
        looks: looks up where ranks are, when they stall.
        topologies: what the hosts have, for the runs' records.
    """

    def __init__(self, cluster: Cluster, runs: ActiveRuns, looks: StackLooks, topologies: HostTopologies) -> None:
        self._cluster = cluster
        self._runs = runs
        self._looks = looks
        self._topologies = topologies
        # Read now: a kernel that can open no more files cannot ask the system.
        self._kernel = this_process()
        self._origins = Origins()

    def send(
        self,
        code: str,
        ranks: tuple[int, ...],
        options: CellOptions,
        view: Callable[[Run], View] | None,
        finished: Callable[[], None] | None,
    ) -> Follower:
        """Have the ranks begin, and return the run's follower.

        Args:
            code: the cell.
            ranks: which run it.
            options: checked for these ranks.
            view: makes what shows the run.
            finished: called when the run has ended well.
        """
        origin = self._origins.of(code)
        late_fields = partial(self._late_fields, self._origins.ask_commit(origin["notebook"]))
        world_size = self._cluster.world_size
        uses_fit_hooks = options.auto is not None or options.checkpoint is not None
        prepares = self._runs.prepares_horovod(code, always=uses_fit_hooks or options.timeline)
        folder = RunFolder(self._cluster.spec.name)
        folder.late_fields = late_fields
        run = Run(folder, ranks, world_size, self._cluster.clock)
        shown = view(run) if view else None
        watch = StallWatch(run, options.stalls, self._looks.look)
        follower = Follower(run, self._runs, shown, options.timeout_s, finished, watch)
        run.take(RunStarted(run.id, ranks, world_size, folder.start_s))
        try:
            self._begin(run, options, code, prepares=prepares)
        except BaseException:
            # No more threads, or a socket's error: no rank may run a cell that is not followed.
            self._runs.release(run, "it could not be sent to all ranks")
            self._runs.drop(run)
            raise
        # While the ranks already run it.
        try:
            folder.write(code, **self._record(ranks), **origin, **late_fields(), options=options.record())
        except (TypeError, ValueError) as error:
            # JSON cannot hold it. Errors of the disk the folder notes itself.
            folder.problem = f"{folder.path}: {described(error)}"
        return follower

    def _begin(self, run: Run, options: CellOptions, code: str, *, prepares: bool) -> None:
        ranks = run.ranks
        self._runs.begin(run)
        # Initialising Horovod takes every rank of the world, also those that do not run the cell.
        others = sorted(set(range(run.world_size)) - set(ranks)) if prepares else []
        self._cluster.send(PrepareHorovod(run.id), others)
        rests = self._runs.uses_horovod and not prepares
        released = self._runs.last_released
        self._cluster.send(RunCell(run.id, code, ranks, prepares, run.folder.log_dir, options, rests, released), ranks)

    def _record(self, ranks: tuple[int, ...]) -> dict[str, Any]:
        cluster = self._cluster
        ready = [cluster.ranks[rank] for rank in sorted(cluster.ranks)]
        return {
            "cluster": cluster.spec.name,
            "world_id": cluster.world_id,
            "ranks": list(ranks),
            "world_size": cluster.world_size,
            "hosts": {one.rank: one.host for one in ready},
            "devices": {one.rank: one.device for one in ready},
            # The marks in the ranks' logs are by their hosts' clocks.
            "clock_offsets_s": cluster.clock_offsets_s,
            "threads": cluster.ranks[min(ranks)].threads,
            "session": self._kernel,
        }

    def _late_fields(self, commit: Future[str | None]) -> dict[str, Any]:
        """Return what a first cell may be too early to know."""
        imported = next((warm.versions for warm in self._cluster.warm.values()), {})
        own = {"python": platform.python_version(), "jupyter_ddl": jupyter_ddl.__version__}
        return {
            "topology": self._topologies.record(),
            "versions": {**imported, **own},
            "git_commit": commit.result() if commit.done() else None,
        }

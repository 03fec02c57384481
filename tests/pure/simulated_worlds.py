"""Clusters of simulated ranks as a kernel sees them, and a real session that starts one after another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernel_sides import SPEC, TestCluster, View

from jupyter_ddl.cluster.simulated_ranks import HOST, SimulatedRanks
from jupyter_ddl.host.clock import SimulatedClock
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.session import Session
from jupyter_ddl.protocol.cell_options import StallOptions
from jupyter_ddl.protocol.rank_life import RankReady, RankWarm
from jupyter_ddl.protocol.requests import RunCell

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from jupyter_ddl.cluster.simulated_steps import Program
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.protocol.rank_life import RankLost
    from jupyter_ddl.protocol.requests import Request

# A stall is reported by a thread, and a simulated clock is one thread's.
NO_STALLS = StallOptions(after_s=None)


class SimulatedCluster(TestCluster):
    """Ranks that are simulated, by a clock of their own."""

    def __init__(self, *programs: Program, number: int = 1) -> None:
        super().__init__(self._send)
        n = len(programs)
        self.clock = SimulatedClock()
        self.simulated = SimulatedRanks(dict(enumerate(programs)), self.clock, self.say)
        self.world_size, self.world_id = n, f"world-{number}"
        self.spec = replace(SPEC, n=n, note="")
        self.ranks = {rank: RankReady(rank, n, rank, HOST, 4710 + rank, "CPU", 1) for rank in range(n)}
        self.warm = {rank: RankWarm(rank, {}, 1.0) for rank in range(n)}
        # When each request was sent, and to which ranks.
        self.requests: list[tuple[float, Request, list[int]]] = []

    def kill(self, rank: int, signum: int = 9) -> None:
        """End a rank, whatever it does."""
        self.simulated.die(rank, signum)
        self.clock.advance(1.0)

    def end(self, lost: RankLost) -> None:
        super().end(lost)
        self.simulated.close()

    @property
    def cells(self) -> list[str]:
        """The cells that it was sent."""
        return [request.code for _, request, _ in self.requests if isinstance(request, RunCell)]

    def _send(self, request: Request, ranks: Iterable[int]) -> None:
        self.requests.append((self.clock.now_s(), request, list(ranks)))
        self.simulated.send(request, ranks)


class Worlds:
    """A session whose ranks are simulated: each start of ranks begins the next world.

    Args:
        programs: of each world, one a rank; starts after the last one get the last one's.
        rebuild: as `Session`'s.
        spec: of the cluster, but for the number of ranks.
    """

    def __init__(self, *programs: Iterable[Program], rebuild: bool = True, spec: ClusterSpec = SPEC) -> None:
        self._programs = [tuple(world) for world in programs]
        self.clusters: list[SimulatedCluster] = []
        # Called at the beginning of each later start, in its thread.
        self.on_launch: Callable[[threading.Event], None] = lambda _: None
        # Of the start of ranks, in order.
        self.steps: list[str] = []
        self.view = View()
        observers = Observers()
        observers.add(lambda _: self._note_step())
        self.session = Session(replace(spec, n=len(self._programs[0])), observers, rebuild=rebuild, launch=self._launch)
        self.session.start(lambda _: None)
        self.steps.clear()

    @property
    def now(self) -> SimulatedCluster:
        """The newest ranks."""
        return self.clusters[-1]

    def run(self, code: str, **options: Any) -> Any:
        """Run a cell on all ranks; return its result, or what it raises."""
        self.view = View()
        options.setdefault("stalls", NO_STALLS)
        try:
            return self.session.run(code, view=lambda _: self.view, **options)
        except Exception as error:  # noqa: BLE001  the test judges it
            return error

    def at(self, seconds: float, do: Callable[[], object]) -> None:
        """Schedule what is done while a cell runs, by the clock of the newest ranks."""
        self.now.clock.after(seconds, do)

    def _launch(self, spec: ClusterSpec, step: Callable[[str], None], given_up: threading.Event) -> Any:
        assert all(cluster.lost is not None for cluster in self.clusters), "ranks are started while others live"
        step(f"starting {spec.n} ranks")
        if self.clusters:
            self.on_launch(given_up)
        number = len(self.clusters)
        programs = self._programs[min(number, len(self._programs) - 1)]
        self.clusters.append(SimulatedCluster(*programs, number=number + 1))
        self.now.spec = replace(spec, n=len(programs), note="")
        return self.now

    def _note_step(self) -> None:
        step = self.session.describe()["step"]
        if step and self.steps[-1:] != [step]:
            self.steps.append(step)

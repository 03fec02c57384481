"""The kernel's side of a run on simulated ranks: what is released, asked, reported and given up, and when.

Sender, active runs, follower and stall watch are the real ones. Only the ranks, and the clock, are simulated.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from kernel_sides import View, active_runs
from simulated_worlds import SimulatedCluster

from jupyter_ddl import paths
from jupyter_ddl.cluster.channel import Channel
from jupyter_ddl.cluster.host_topologies import HostTopologies
from jupyter_ddl.cluster.simulated_ranks import SimulatedRanks
from jupyter_ddl.cluster.simulated_steps import (
    Collective,
    Compute,
    Die,
    Print,
    Raise,
    Stuck,
    Tidy,
)
from jupyter_ddl.errors import ClusterError, ClusterLost, RankError, RunInterrupted, RunStalled, RunTimedOut
from jupyter_ddl.host.clock import SimulatedClock
from jupyter_ddl.kernel.release_policy import CELL
from jupyter_ddl.kernel.sending import Sender
from jupyter_ddl.protocol.cell_options import CellOptions, StallOptions
from jupyter_ddl.protocol.events import CollectiveStalled, StallReported
from jupyter_ddl.protocol.faults import Remedy
from jupyter_ddl.protocol.rank_answers import RankStacks
from jupyter_ddl.protocol.requests import Describe, LookAtStacks, Ping, Release, RunCell
from jupyter_ddl.runs.store import newest_first
from jupyter_ddl.script.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jupyter_ddl.cluster.simulated_steps import Program
    from jupyter_ddl.kernel.run_follower import Follower
    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.rank_life import RankLost
    from jupyter_ddl.protocol.requests import Request
    from jupyter_ddl.protocol.transport import RankTransport
    from jupyter_ddl.runs.run import Run

FOREVER = Compute()
# What a type checker holds: they are one border.
TRANSPORTS: list[type[RankTransport]] = [Channel, Listener, SimulatedRanks]


@pytest.fixture(autouse=True)
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))


class World:
    """Simulated ranks, and all that a kernel has of them."""

    def __init__(self, *programs: Program, replaces: bool = True) -> None:
        self.cluster = SimulatedCluster(*programs)
        self.clock = self.cluster.clock
        self.losses: list[RankLost] = []
        self.view = View()
        self.runs = active_runs(self.cluster, self._replace, replaces=replaces)
        looks: Any = SimpleNamespace(look=self._look)
        topologies = HostTopologies({}, self.cluster)  # type: ignore[arg-type]
        self.sender = Sender(self.cluster, self.runs, looks, topologies)  # type: ignore[arg-type]

    def run(self, at: dict[float, str] | None = None, code: str = "1", **options: Any) -> Any:
        """Run a cell on all ranks; return what it returns or raises.

        Args:
            code: the cell.
            at: seconds -> what is done then: "interrupt", or what asks for a release.
            options: of the cell.
        """
        follower = self.send(code, **options)
        for seconds, reason in (at or {}).items():
            do = follower.interrupt if reason == "interrupt" else lambda reason=reason: self.runs.release_all(reason)  # type: ignore[misc]
            self.clock.after(seconds, do)
        return ended(follower)

    def send(self, code: str = "1", **options: Any) -> Follower:
        """Send a cell to all ranks."""
        ranks = tuple(range(self.cluster.world_size))
        return self.sender.send(code, ranks, CellOptions(**options), lambda _: self.view, None)

    def times(self, kind: type[Request], tenths: int = 1) -> list[float]:
        """Return when requests of a kind were sent."""
        return [round(at_s, tenths) for at_s, request, _ in self.cluster.requests if isinstance(request, kind)]

    def released(self) -> list[tuple[float, str, list[int]]]:
        """Return when ranks were released, why, and which."""
        return [
            (round(at_s, 1), one.reason, ranks)
            for at_s, one, ranks in self.cluster.requests
            if isinstance(one, Release)
        ]

    @property
    def now_s(self) -> float:
        return round(self.clock.now_s(), 1)

    def _replace(self, lost: RankLost, _runs: Iterable[Run]) -> Remedy:
        self.losses.append(lost)
        return Remedy("restarting")

    def _look(self, ranks: Iterable[int]) -> dict[int, RankStacks]:
        return {rank: RankStacks("look", rank, "simulated", ()) for rank in ranks}


def ended(follower: Follower) -> Any:
    """Follow a run to its end."""
    try:
        return follower.wait()
    except Exception as error:  # noqa: BLE001  the test judges it
        return error


def state() -> str:
    """Return how the newest run is recorded."""
    return next(newest_first()).state


# --- ranks that answer ----------------------------------------------------------------------------------------


def test_ranks_finish_and_their_output_is_theirs() -> None:
    world = World([Print("hello\n"), Compute(2.0), Collective()], [Print("to err\n", "stderr"), Collective()])
    result = world.run()
    assert result.outcome == "finished"
    assert (result.ranks[0].stdout, result.ranks[1].stderr) == ("hello\n", "to err\n")
    assert world.now_s == 2.0
    assert world.released() == []
    assert state() == "finished"


def test_the_same_programs_give_the_same_events() -> None:
    def events() -> list[str]:
        clock, came = SimulatedClock(), list[Any]()
        programs = {0: (Print("a"), Collective(), Raise()), 1: (Compute(1.0), Collective(), Collective("b"))}
        ranks = SimulatedRanks(programs, clock, came.append)
        ranks.send(RunCell("run", "1", (0, 1), False, None), (0, 1))
        clock.advance(10.0)
        return [f"{type(event).__name__} {event.rank} {getattr(event, 'name', '')}" for event in came]

    assert events() == events()
    failed = ["RankFailed 0 ValueError", "RankFailed 1 HorovodInternalError"]
    assert events() == ["OutputChunk 0 ", "CellRaised 0 ", *failed]


def test_ranks_answer_what_ranks_are_asked() -> None:
    clock, came = SimulatedClock(), list[Any]()
    ranks = SimulatedRanks({0: (Stuck(),), 1: (FOREVER,)}, clock, came.append)
    ranks.send(RunCell("run", "1", (0, 1), False, None), (0, 1))
    clock.advance(1.0)
    for request in (Describe(), Ping(), LookAtStacks("look")):
        ranks.send(request, (0, 1), now=True)
    clock.advance(1.0)
    assert [(event.type, event.rank) for event in came] == [("rank_ready", 1), ("rank_alive", 1), ("rank_stacks", 1)]
    came.clear()
    ranks.close()
    ranks.send(Ping(), (1,))
    clock.advance(1.0)
    assert came == []


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_rank_that_raises_ends_the_collectives_of_the_others(n: int) -> None:
    world = World([Raise("KeyError", "'x'")], *([[Collective()]] * (n - 1)))
    error = world.run()
    assert isinstance(error, RankError)
    assert f"Rank 0 of {n} on simulated: KeyError: 'x'" in str(error)
    # None had to be released.
    assert world.released() == []
    assert world.now_s < CELL.grace_s
    assert state() == "failed"


def test_who_is_busy_elsewhere_is_released_after_the_grace_time() -> None:
    world = World([Compute(1.0), Raise()], [FOREVER], [Compute(1.2)])
    error = world.run()
    assert isinstance(error, RankError)
    assert [(one.rank, one.name) for one in error.failures] == [(0, "ValueError")]
    # Rank 2 ended by itself meanwhile. It is asked too: rank 1 may wait in a collective with it.
    [(at_s, reason, ranks)] = world.released()
    assert (reason, ranks) == ("rank 0 raised", [0, 1, 2])
    assert at_s == pytest.approx(1.0 + CELL.grace_s, abs=0.2)
    assert world.times(Ping) == []


def test_ranks_that_all_raise_are_not_released_however_long_a_report_takes() -> None:
    world = World([Raise()], [Raise(report_s=3.0)])
    error = world.run()
    assert isinstance(error, RankError)
    assert [one.rank for one in error.failures] == [0, 1]
    assert world.released() == []
    assert world.now_s == pytest.approx(3.0, abs=0.2)


def test_an_interrupt_releases_all_at_once() -> None:
    world = World([FOREVER], [Collective()])
    assert isinstance(world.run(at={3.0: "interrupt"}), RunInterrupted)
    assert world.released() == [(3.0, "interrupted", [0, 1])]
    assert world.now_s < 3.2
    assert state() == "interrupted"


def test_a_timeout_releases_all() -> None:
    world = World([FOREVER], [FOREVER])
    error = world.run(timeout_s=7.0)
    assert isinstance(error, RunTimedOut)
    [(at_s, reason, ranks)] = world.released()
    assert (reason, ranks) == ("the timeout of 7 s passed", [0, 1])
    assert at_s == pytest.approx(7.0, abs=0.2)


def test_a_release_from_elsewhere_is_named() -> None:
    world = World([FOREVER], [FOREVER])
    error = world.run(at={2.0: "the panel"})
    assert isinstance(error, RunInterrupted)
    assert "was interrupted by the panel after" in str(error)


def test_a_rank_that_tidies_up_has_longer_and_is_waited_for() -> None:
    world = World([Tidy(20.0), FOREVER], [FOREVER])
    assert isinstance(world.run(at={1.0: "interrupt"}), RunInterrupted)
    assert world.now_s == pytest.approx(21.0, abs=0.2)
    assert "rank 0 has not answered its release for 5 s: " in world.view.text
    assert "its code was interrupted, and has not ended yet" in world.view.text
    # Asked once a second for as long as it lasted.
    assert 15 <= len(world.times(Ping)) <= 20


# --- ranks that do not ----------------------------------------------------------------------------------------


def test_who_does_not_answer_is_asked_reported_and_given_up() -> None:
    world = World([Stuck()], [FOREVER])
    error = world.run(at={1.0: "interrupt"})
    assert isinstance(error, ClusterLost)
    assert "the cell was interrupted, and rank 0 did not answer the release within 15 s" in str(error)
    assert [lost.fault.subject for lost in world.losses] == ["release"]
    assert world.now_s == pytest.approx(1.0 + CELL.answer_s, abs=0.5)
    asked, silent, given_up = world.view.text.splitlines()
    assert silent.startswith("jupyter_ddl: rank 0 has not answered for 10 s: ")
    assert asked.startswith("jupyter_ddl: rank 0 has not answered its release for 5 s: its process 4710 waits")
    assert given_up == "jupyter_ddl: rank 0 did not answer in time: all ranks are ended"
    assert state() == "lost"


def test_a_late_answer_is_one() -> None:
    world = World([Stuck(12.0)], [FOREVER])
    assert isinstance(world.run(at={1.0: "interrupt"}), RunInterrupted)
    assert world.losses == []
    assert world.now_s == pytest.approx(12.0, abs=0.2)


def test_where_ranks_are_not_replaced_the_cell_gives_up_and_a_later_answer_frees_them() -> None:
    world = World([Stuck(40.0)], [FOREVER], replaces=False)
    error = world.run(at={1.0: "interrupt"})
    assert isinstance(error, ClusterError)
    assert "Received: nothing from ranks 0 (interrupted)" in str(error)
    assert world.runs.stuck() == "0"
    assert len(world.runs.ids()) == 1
    world.clock.advance(40.0)
    assert world.runs.stuck() is None
    assert world.runs.ids() == []


def test_a_rank_that_dies_ends_the_run_and_is_named() -> None:
    world = World([Print("ready\n"), Compute(2.0), Die()], [Collective()])
    error = world.run()
    assert isinstance(error, ClusterLost)
    assert "rank 0 on simulated was ended by signal 9 (Killed)" in str(error)
    assert world.now_s == pytest.approx(2.0, abs=0.2)
    assert len(world.losses) == 1
    assert world.released() == []


def test_a_rank_that_dies_after_another_raised_is_a_loss() -> None:
    world = World([Raise()], [FOREVER], [Compute(0.3), Die(11)])
    error = world.run()
    assert isinstance(error, ClusterLost)
    assert state() == "lost"


def test_a_frozen_rank_is_reported_and_comes_back() -> None:
    world = World([Compute(1.0), Stuck(12.5), Compute(1.0)], [Compute(3.0)])
    assert world.run().outcome == "finished"
    silent, back = world.view.text.splitlines()
    assert silent.startswith("jupyter_ddl: rank 0 has not answered for 10 s: its process 4710 waits")
    assert back == "jupyter_ddl: rank 0 is back after 13 s"
    assert world.released() == []


def test_a_rank_that_stays_silent_keeps_the_run_until_it_is_interrupted() -> None:
    world = World([Stuck()], [FOREVER])
    error = world.run(at={30.0: "interrupt"})
    assert isinstance(error, ClusterLost)
    assert world.view.text.startswith("jupyter_ddl: rank 0 has not answered for 10 s: its process 4710 waits")
    assert world.now_s == pytest.approx(30.0 + CELL.answer_s, abs=0.5)


def test_time_without_a_core_is_no_silence() -> None:
    world = World([Stuck(50.0)], [FOREVER])
    world.cluster.supervisor.starves = lambda rank: rank == 0
    assert isinstance(world.run(at={1.0: "interrupt"}), RunInterrupted)
    assert world.losses == []


def test_ranks_that_import_have_longer() -> None:
    world = World([Stuck(90.0)], [FOREVER])
    del world.cluster.warm[0]
    assert isinstance(world.run(at={1.0: "interrupt"}), RunInterrupted)
    assert world.losses == []


# --- stalls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "who"), [(2, "rank 0 waits"), (4, "ranks 0, 2-3 wait")])
def test_a_stall_is_reported_and_ends_where_that_was_asked_for(n: int, who: str) -> None:
    waits, hangs = {"": [Collective("a")]}, {"": [FOREVER]}
    world = World(waits, hangs, *[waits] * (n - 2))
    error = world.run(code="", stalls=StallOptions(10.0, "abort"))
    assert isinstance(error, RunStalled)
    assert re.match(r"The cell has stalled for [\d.]+ s: not every rank has entered\n", str(error))
    assert f"\n  a: {who} in it for rank 1\n" in str(error)
    assert str(error).endswith("The ranks were released, as --on-stall abort says.")
    assert [reason for _, reason, _ in world.released()] == ["the cell stalled"]
    assert state() == "stalled"
    assert world.run(code="next").outcome == "finished"


def test_a_stall_that_is_only_reported_goes_on() -> None:
    world = World([Collective("a")], [Compute(60.0), Collective("a")])
    assert world.run(stalls=StallOptions(10.0, "report")).outcome == "finished"
    assert world.now_s == pytest.approx(60.0, abs=0.2)


def test_a_stall_that_lasts_is_reported_once() -> None:
    world = World([Collective("a")], [FOREVER])
    follower = world.send(stalls=StallOptions(10.0, "report"))
    shown: list[Event] = []

    def handle(event: Event) -> None:
        shown.append(event)
        if isinstance(event, StallReported):
            world.clock.after(30.0, follower.interrupt)

    world.view.handle = handle  # type: ignore[method-assign]
    assert isinstance(ended(follower), RunInterrupted)
    assert sum(isinstance(event, StallReported) for event in shown) == 1
    # Horovod repeats itself.
    assert sum(isinstance(event, CollectiveStalled) for event in shown) > 10


def test_ranks_that_are_a_little_apart_are_not_reported() -> None:
    world = World([Collective("a")], [Compute(4.0), Collective("a")])
    assert world.run(stalls=StallOptions(10.0, "abort")).outcome == "finished"
    assert world.released() == []


# --- one kernel after another ---------------------------------------------------------------------------------


def test_a_run_that_another_kernel_began_is_followed_from_where_it_was() -> None:
    world = World([Print("before\n"), Compute(30.0), Print("after\n")], [Compute(20.0)])
    first = world.send()
    # The kernel that began it is killed here: nothing follows, and events come to the next one's active runs.
    for _ in range(10):
        world.clock.advance(0.1)
    runs = active_runs(world.cluster, lambda *_: Remedy("restarting"))
    run = type(first.run)(first.run.folder, first.run.ranks, 2, world.clock)
    runs.resume(run)
    follower = type(first)(run, runs, world.view, None)
    assert ended(follower).outcome == "finished"
    assert world.view.text == "before\nafter\n"


def test_the_next_cell_runs_on_the_same_ranks() -> None:
    world = World([Compute(1.0), Print("again\n"), Collective()], [Collective()])
    for turn in range(1, 4):
        assert world.run().outcome == "finished"
        assert world.view.text == "again\n" * turn

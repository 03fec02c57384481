"""Ranks that are lost are named and replaced, on simulated ranks: what is reported, and when, and what runs again.

Session, lifecycle, rebuilder, setup cells and followers are the real ones. tests/ranks/faults has what only real ranks
show: how a process ends, what mpiexec and the lease make of it, and what is left of it.
"""

from __future__ import annotations

import errno
import os
import random
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kernel_sides import DEADLINE_S, within
from simulated_worlds import NO_STALLS, Worlds

from jupyter_ddl import paths
from jupyter_ddl.cluster.lifecycle import start_cancelled
from jupyter_ddl.cluster.simulated_steps import Collective, Compute, Die, Print, Raise, Step, Stuck, Tidy
from jupyter_ddl.errors import (
    ClusterLost,
    ClusterStartFailed,
    NoCluster,
    RankError,
    RunInterrupted,
    RunTimedOut,
    SetupFailed,
)
from jupyter_ddl.kernel.hub_link import controls
from jupyter_ddl.kernel.release_policy import CELL
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.events import RankFailed
from jupyter_ddl.protocol.faults import RankProcess
from jupyter_ddl.protocol.requests import ReleaseAsked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.cluster.simulated_steps import Program

FOREVER = Compute()
# Cells by their code; cells of other code end at once.
KILLED: Program = {"die": (Compute(1.5), Die()), "stay": (FOREVER,)}
WAITS: Program = {"die": (Collective(),), "stay": (FOREVER,)}
PAIR = (WAITS, KILLED)
DIED = r"rank 1 on simulated was ended by signal 9 \(Killed\)\. "
REPLACED = "\n2 new ranks are being started on the same devices: the next cell waits for them. "


@pytest.fixture(autouse=True)
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))


def lost(worlds: Worlds, code: str = "die") -> str:
    """Run a cell that the ranks do not outlive; return what it raised."""
    error = worlds.run(code)
    assert isinstance(error, ClusterLost), error
    return str(error)


# --- a loss, and what comes after -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize(
    ("signum", "how", "why"),
    [
        (9, "signal 9 (Killed)", "a `kill -9`"),
        (11, "signal 11 (Segmentation fault)", "a crash in C"),
        (6, "signal 6 (Aborted)", "code called abort()"),
        (15, "signal 15 (Terminated)", "a user or a batch system asked it to end."),
        (3, "signal 3 (Quit)", "a user or a batch system asked it to end at once."),
        (1, "signal 1 (Hangup)", "its terminal, or the session that it was started from, was closed."),
        (10, "signal 10 (User defined signal 1)", "a batch system's warning before the walltime"),
        (12, "signal 12 (User defined signal 2)", "a batch system's warning before the walltime"),
    ],
)
def test_a_rank_that_dies_is_named_and_the_next_cell_has_new_ranks(n: int, signum: int, how: str, why: str) -> None:
    last = n - 1
    worlds = Worlds([*[WAITS] * last, {"die": (Compute(1.5), Die(signum))}])
    text = lost(worlds)
    assert text.startswith(
        f"Ranks must live to the end of the cell. Received: rank {last} on simulated was ended by {how}. "
    )
    assert why in text
    count = "1 new rank is" if n == 1 else f"{n} new ranks are"
    assert f"\n{count} being started on the same devices: the next cell waits for them. " in text
    assert worlds.run("next").outcome == "finished"
    assert [cluster.cells for cluster in worlds.clusters] == [["die"], ["next"]]


def test_a_rank_that_gets_no_more_memory_says_so_itself() -> None:
    bad_alloc = Print("terminate called after throwing an instance of 'std::bad_alloc'\n", "stderr")
    worlds = Worlds([WAITS, {"die": (bad_alloc, Compute(0.1), Die(6))}])
    assert "it could get no more memory" in lost(worlds)


def test_setup_cells_run_again_in_order_and_before_any_other_and_the_lost_cell_does_not() -> None:
    worlds = Worlds(PAIR)
    for code in ("first", "second", "first"):
        worlds.run(code, setup=True)
    assert "The variables on the ranks are lost, and 2 setup cells will be run again." in lost(worlds)
    shown: list[str] = []
    report = worlds.session.wait_rebuilt(shown.append) or ""
    pattern = (
        DIED
        + r".*\n2 new ranks were started in [\d.]+ s; the variables of the old ones are lost\. "
        + r"2 setup cells ran again \([\d.]+ s\)\."
    )
    assert re.fullmatch(pattern, report)
    # Once.
    assert worlds.session.wait_rebuilt() is None
    assert worlds.run("next").outcome == "finished"
    assert worlds.clusters[1].cells == ["first", "second", "next"]
    expected = [
        "ending what is left of the old ranks",
        "starting 2 ranks",
        "running setup cell 1 of 2 again",
        "running setup cell 2 of 2 again",
    ]
    assert [step for step in worlds.steps if step != "beginning"] == expected
    # A cell that waits shows those that it sees.
    assert [step for step in ["beginning", *expected] if step in shown] == shown


def test_a_restart_that_no_cell_asked_for_is_reported_by_the_next_cell_once() -> None:
    worlds = Worlds(PAIR, PAIR)
    worlds.run("setup", setup=True)
    told = controls._restart(worlds.session, {})
    assert told.startswith("1 setup cell ran again (")
    assert worlds.session.wait_rebuilt() == told
    assert worlds.session.wait_rebuilt() is None
    # A cell that asks for it shows it itself.
    assert worlds.session.restart().startswith("1 setup cell ran again (")
    assert worlds.session.wait_rebuilt() is None


def test_a_setup_cell_that_has_failed_is_not_remembered() -> None:
    worlds = Worlds([{"bad": (Raise(),)}, *PAIR[1:]])
    assert isinstance(worlds.run("bad", setup=True), RankError)
    lost(worlds)
    worlds.run("next")
    assert worlds.now.cells == ["next"]


def test_an_error_replaces_no_rank() -> None:
    worlds = Worlds([{"raises": (Raise(),)}, {"raises": (Collective(),)}])
    assert isinstance(worlds.run("raises"), RankError)
    assert worlds.run("next").outcome == "finished"
    assert len(worlds.clusters) == 1


def test_where_ranks_are_not_replaced_the_cell_says_what_to_do_and_no_other_runs() -> None:
    worlds = Worlds(PAIR, rebuild=False)
    assert "%ddl restart starts new ones. Logs: " in lost(worlds)
    for _ in range(2):
        assert "rank 1 on simulated was ended by signal 9" in lost(worlds, "next")
    assert len(worlds.clusters) == 1
    worlds.session.restart()
    assert worlds.run("next").outcome == "finished"


# --- setup cells that break -----------------------------------------------------------------------------------


def test_a_setup_cell_that_raises_is_reported_once_and_the_ranks_run() -> None:
    worlds = Worlds(PAIR, [{"second": (Raise("ZeroDivisionError", "division by zero"),)}, {}])
    for code in ("first", "second", "third"):
        worlds.run(code, setup=True)
    lost(worlds)
    error = worlds.run("next")
    assert isinstance(error, SetupFailed)
    assert re.match(
        r"A setup cell must run on new ranks\. Received: setup cell 2 of 3, which begins 'second': .*division by",
        str(error),
        re.DOTALL,
    )
    # Those after it were not run, nor was the cell that heard of it; the next one is.
    assert worlds.run("next").outcome == "finished"
    assert worlds.now.cells == ["first", "second", "next"]


def test_a_setup_cell_that_kills_its_ranks_is_named_to_each_cell_and_does_not_go_round() -> None:
    worlds = Worlds(PAIR, [{"setup": (Die(),)}, {}], PAIR)
    worlds.run("setup", setup=True)
    lost(worlds)
    for _ in range(2):
        error = lost(worlds, "next")
        assert re.match(
            r"A setup cell must leave the ranks alive\. Received: setup cell 1 of 1, which began 'setup': ", error
        )
        assert "rank 0 on simulated was ended by signal 9" in error
        assert error.endswith("To start without setup cells, use %ddl stop and then %ddl start.")
    assert len(worlds.clusters) == 2
    # A restart tries again, and here its setup cell leaves the ranks alive.
    assert worlds.session.restart().startswith("1 setup cell ran again (")
    assert worlds.run("next").outcome == "finished"


def test_a_setup_cell_that_hangs_on_new_ranks_ends_with_a_stop() -> None:
    worlds = Worlds(PAIR, [{"setup": (FOREVER,)}, {}])
    worlds.run("setup", setup=True)
    lost(worlds)
    # Two threads note steps: on a busy machine one that was seen before may be noted behind it.
    while "running setup cell 1 of 1 again" not in worlds.steps:
        threading.Event().wait(0.001)
    within(worlds.session.stop)
    assert isinstance(worlds.run("next"), NoCluster)
    assert all(cluster.lost is not None for cluster in worlds.clusters)


# --- losses at other times ------------------------------------------------------------------------------------


def test_ranks_lost_while_idle_are_replaced_and_once_more_before_a_cell_are_not() -> None:
    worlds = Worlds(PAIR)
    worlds.run("setup", setup=True)
    worlds.now.kill(0)
    report = worlds.session.wait_rebuilt() or ""
    assert report.startswith("rank 0 on simulated was ended by signal 9 (Killed). ")
    assert worlds.session.state is None
    # No cell has run on the new ones: what ends them now may be what ended the old ones.
    worlds.now.kill(0)
    assert worlds.session.state is not None
    assert "so they are not replaced once more: find the cause first" in lost(worlds, "next")
    assert len(worlds.clusters) == 2
    worlds.session.restart()
    assert worlds.run("next").outcome == "finished"
    assert worlds.now.cells == ["setup", "next"]


def test_ranks_lost_again_after_a_cell_are_replaced_again() -> None:
    worlds = Worlds(PAIR)
    for turn in range(1, 5):
        assert REPLACED in lost(worlds)
        assert worlds.run("next").outcome == "finished"
        assert len(worlds.clusters) == turn + 1


def test_a_rank_that_dies_while_the_others_are_released_is_a_loss_like_any_other() -> None:
    worlds = Worlds([{"die": (Tidy(5.0), FOREVER)}, {"die": (FOREVER,)}, {"die": (Compute(2.0), Raise())}])
    worlds.at(4.0, lambda: worlds.now.simulated.die(1, 11))
    assert "rank 1 on simulated was ended by signal 11 (Segmentation fault)" in lost(worlds)
    assert worlds.run("next").outcome == "finished"


def test_a_stop_while_ranks_are_started_leaves_nothing() -> None:
    worlds = Worlds(PAIR)
    begun = threading.Event()

    def hold(given_up: threading.Event) -> None:
        begun.set()
        assert given_up.wait(DEADLINE_S)
        raise start_cancelled()

    worlds.on_launch = hold
    lost(worlds)
    assert begun.wait(DEADLINE_S)
    within(worlds.session.stop)
    assert isinstance(worlds.run("next"), NoCluster)
    assert worlds.session.wait_rebuilt() is None
    assert len(worlds.clusters) == 1


def test_ranks_that_do_not_come_up_are_reported_to_each_cell_until_a_restart() -> None:
    worlds = Worlds(PAIR)

    def fail(_: object) -> None:
        raise ClusterStartFailed("no rank came up")

    worlds.on_launch = fail
    lost(worlds)
    for _ in range(2):
        assert lost(worlds, "next").endswith("\nNew ones did not come up: no rank came up\n%ddl restart tries again.")
    worlds.on_launch = lambda _: None
    worlds.session.restart()
    assert worlds.run("next").outcome == "finished"


def test_the_newest_checkpoint_of_a_lost_training_is_offered(tmp_path: Path) -> None:
    saved = tmp_path / "saved" / "fit-1" / "epoch-3.npz"
    saved.parent.mkdir(parents=True)
    np.savez(saved, weights=np.ones(3))
    worlds = Worlds(PAIR)
    assert isinstance(worlds.run("die", checkpoint=tmp_path / "saved"), ClusterLost)
    report = worlds.session.wait_rebuilt() or ""
    assert report.endswith(f"\nThe newest checkpoint is {saved}: run the cell again to resume from there.")


def test_a_loss_whose_checkpoints_cannot_be_read_ends_the_cell_and_says_so_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path == tmp_path / "saved":
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return stock(path)

    (tmp_path / "saved").mkdir()
    monkeypatch.setattr(Path, "iterdir", iterdir)
    worlds = Worlds(PAIR)
    error = worlds.run("die", checkpoint=tmp_path / "saved")
    assert isinstance(error, ClusterLost)
    assert REPLACED in str(error)
    report = worlds.session.wait_rebuilt() or ""
    assert report.endswith(f"\nThe checkpoints in {tmp_path / 'saved'} cannot be read: Stale file handle.")


# --- ranks that no release ends -------------------------------------------------------------------------------

STUCK = ({"stuck": (Stuck(),)}, {"stuck": (Stuck(),)})


def test_ranks_that_ignore_the_panels_interrupt_are_named_and_replaced() -> None:
    worlds = Worlds(STUCK)
    worlds.now.supervisor.state_of = lambda rank: RankProcess(rank, "answers", 4710 + rank)
    worlds.at(1.0, lambda: worlds.session.interrupt("the panel"))
    text = lost(worlds, "stuck")
    assert "the cell was interrupted by the panel, and ranks 0-1 did not answer the release within 15 s" in text
    assert REPLACED in text
    asked = [line for line in worlds.view.text.splitlines() if "has not answered its release for 5 s: " in line]
    assert len(asked) == 2
    assert "answers, so its main thread is in C or C++ code, or ignores the interrupt" in asked[0]
    assert worlds.view.text.endswith("jupyter_ddl: ranks 0-1 did not answer in time: all ranks are ended\n")
    assert worlds.clusters[0].clock.now_s() == pytest.approx(1.0 + CELL.answer_s, abs=0.5)
    assert worlds.run("next").outcome == "finished"


def test_ranks_that_ignore_a_second_notebooks_interrupt_are_too() -> None:
    worlds = Worlds(STUCK)
    worlds.at(1.0, lambda: asks(worlds))
    error = lost(worlds, "stuck")
    assert "the cell was interrupted by a second notebook, and ranks 0-1 did not answer the release" in error
    assert REPLACED in error


def test_one_rank_that_does_not_answer_after_a_timeout_costs_all_their_variables() -> None:
    worlds = Worlds([{"stuck": (Stuck(),)}, {"stuck": (FOREVER,)}])
    error = worlds.run("stuck", timeout_s=1.0)
    assert isinstance(error, ClusterLost)
    assert str(error).startswith(
        "Ranks must live to the end of the cell. Received: the cell timed out, and rank 0 did not answer the release"
    )
    assert worlds.run("next").outcome == "finished"
    assert len(worlds.clusters) == 2


def test_a_rank_whose_code_catches_the_interrupt_has_longer() -> None:
    worlds = Worlds([{"stuck": (Tidy(600.0), FOREVER)}, {}])
    error = worlds.run("stuck", timeout_s=1.0)
    assert isinstance(error, ClusterLost)
    assert "its code was interrupted, and has not ended yet" in worlds.view.text
    assert worlds.clusters[0].clock.now_s() == pytest.approx(1.0 + CELL.unwind_s, abs=1.0)


# --- interrupts from elsewhere --------------------------------------------------------------------------------


def asks(worlds: Worlds, by: str = "a second notebook") -> None:
    """Release the ranks as another kernel does, which announces it."""
    worlds.now.say(ReleaseAsked("kernel-2", by, worlds.now.simulated.at_s() + 3600.0))


def test_a_second_notebooks_interrupt_ends_what_runs_and_spares_the_next_cell() -> None:
    worlds = Worlds(PAIR)
    for _ in range(3):
        worlds.at(0.7, lambda: asks(worlds))
        error = worlds.run("stay")
        assert isinstance(error, RunInterrupted)
        assert "was interrupted by a second notebook after" in str(error)
        assert worlds.run("next").outcome == "finished"
    assert len(worlds.clusters) == 1


def test_what_this_kernel_announced_itself_and_what_was_asked_before_the_cell_releases_nothing() -> None:
    worlds = Worlds(PAIR)
    worlds.at(0.5, lambda: worlds.now.say(ReleaseAsked("kernel-1", "%ddl interrupt", worlds.now.simulated.at_s())))
    worlds.at(0.6, lambda: worlds.now.say(ReleaseAsked("kernel-2", "a second notebook", 0.0)))
    error = worlds.run("stay", timeout_s=2.0)
    assert isinstance(error, RunTimedOut)


def test_an_interrupt_of_idle_ranks_is_announced_to_the_other_kernels() -> None:
    worlds = Worlds(PAIR)
    worlds.session.interrupt("%ddl interrupt")
    assert worlds.now.announced == ["%ddl interrupt"]
    assert worlds.run("next").outcome == "finished"


# --- many of them ---------------------------------------------------------------------------------------------

# What one rank does -> the error that the cell must end with, as a test on simulated ranks can know it.
FAULTS: dict[str, tuple[tuple[Step, ...], type[Exception] | None]] = {
    "none": ((Print("x\n"), Compute(0.2), Collective()), None),
    "raises": ((Compute(0.3), Raise()), RankError),
    "loops": ((FOREVER,), RunTimedOut),
    "tidies up": ((Tidy(4.0), FOREVER), RunTimedOut),
    "is frozen for a while": ((Stuck(2.0), Collective()), None),
    "is stuck": ((Stuck(),), ClusterLost),
    "dies": ((Compute(0.3), Die()), ClusterLost),
    "crashes": ((Print("x\n", "stderr"), Die(11)), ClusterLost),
}


def test_random_faults_one_after_another() -> None:
    """What `benchmarks.soak` does with real ranks: each cell ends, with the right error, and the next one works."""
    faulty: Program = {name: steps for name, (steps, _) in FAULTS.items()}
    waiting: Program = dict.fromkeys(FAULTS, (Collective(),))
    chance = random.Random(16)
    worlds = Worlds(*([faulty, waiting] if number % 2 else [waiting, faulty] for number in range(100)))
    threads = threading.active_count()
    launches = 1
    for _ in range(150):
        name = chance.choice(list(FAULTS))
        outcome: Any = worlds.run(name, timeout_s=5.0)
        expected = FAULTS[name][1]
        if expected is None:
            assert outcome.outcome == "finished", name
        else:
            assert type(outcome) is expected, (name, outcome)
        launches += expected is ClusterLost
        assert worlds.run("next").outcome == "finished", name
        assert len(worlds.clusters) == launches
        assert worlds.session.busy == []
    # The thread of the last rebuild may be about to end.
    assert threading.active_count() <= threads + 1


def test_no_event_of_lost_ranks_reaches_a_run_on_new_ones() -> None:
    worlds = Worlds(PAIR)
    lost(worlds)
    assert worlds.run("next").outcome == "finished"
    old = worlds.clusters[0]
    follower = worlds.session.submit("stay", options=CellOptions(stalls=NO_STALLS))
    old.say(RankFailed(follower.run.id, 0, "simulated", "ValueError", "late", (), released=False, at_s=5.0))
    assert follower.run.pending == {0, 1}
    follower.interrupt()
    with pytest.raises(RunInterrupted):
        follower.wait()

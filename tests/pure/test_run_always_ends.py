"""Whatever raises in the kernel while a run is followed, the run ends, is recorded as what it was, and is told."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from kernel_sides import RANKS, TestCluster, View, finished, followed, ready, within
from raising import raising

from jupyter_ddl import paths
from jupyter_ddl.errors import ClusterError, ClusterLost, HostUnfit, RankError, RunInterrupted
from jupyter_ddl.host.clock import SimulatedClock
from jupyter_ddl.host.threads import Supervised
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.rebuilder import Rebuilder
from jupyter_ddl.kernel.run_follower import Follower
from jupyter_ddl.kernel.settling import wait_settled
from jupyter_ddl.kernel.setup_cells import SetupCells
from jupyter_ddl.protocol.events import MetricsSample, OutputChunk, RankFailed
from jupyter_ddl.protocol.faults import Facts, Fault, loss_in_words
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.protocol.requests import Release, ReleaseAsked
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.recorder import Recorder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.runs.stragglers import Stragglers
from jupyter_ddl.runs.summary import Summary
from jupyter_ddl.views.metrics_table import MetricsTable
from jupyter_ddl.views.together import Together

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))


class Odd(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError


RAISED = [TypeError("float and str"), Odd(), SystemExit(3), KeyboardInterrupt(), RecursionError(), MemoryError()]


def told_outcome(run: Run) -> str:
    return str(json.loads((run.folder.path / "run.json").read_text())["outcome"])


def finish(cluster: TestCluster, run: Run) -> None:
    cluster.say(OutputChunk(run.id, 0, "stdout", "hello\n"))
    cluster.say(MetricsSample(run.id, 0, time.time(), 1.0, 2**20))
    for rank in RANKS:
        cluster.say(finished(run, rank))


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", ["handle", "tick", "flush"])
def test_a_view_that_raises_is_left_out_and_the_run_goes_on(method: str, error: BaseException) -> None:
    clock, cluster, output, broken = SimulatedClock(), TestCluster(), View(), View()
    setattr(broken, method, raising(error))
    follower, run, runs = followed(cluster, Together(output, broken), clock=clock)
    clock.after(0.3, lambda: finish(cluster, run))
    result = within(follower.wait)
    assert result.outcome == told_outcome(run) == "finished"
    assert "hello\n" in output.text
    assert output.is_flushed
    lines = [line for line in output.text.splitlines() if line.startswith("jupyter_ddl: ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"jupyter_ddl: the cell continues without its View, which raised {type(error).__name__}")
    assert lines[0].endswith(")"), "names the place"
    assert runs.ids() == []


def test_the_output_stays_where_the_table_below_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    cluster, output = TestCluster(), View()
    table = MetricsTable(output)
    table._figures.handle = raising(TypeError("float and str"))  # type: ignore[method-assign]
    follower, run, _ = followed(cluster, table)
    finish(cluster, run)
    assert within(follower.wait).outcome == "finished"
    assert "without its MetricsTable, which raised TypeError: float and str" in output.text
    assert output.is_flushed


SEAMS: dict[str, tuple[type, str]] = {
    "the figures of the run": (Summary, "handle"),
    "the last figures": (Summary, "fields"),
    "the comparison of the ranks": (Stragglers, "handle"),
    "the record": (Recorder, "_is_new"),
}


@pytest.mark.parametrize("what", SEAMS)
def test_what_counts_and_records_may_fail(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, output = TestCluster(), View()
    follower, run, runs = followed(cluster, output)
    owner, name = SEAMS[what]
    if what == "the record":
        # Of samples alone: the ranks' end comes another way in the next test.
        stock = Recorder._is_new
        monkeypatch.setattr(
            owner,
            name,
            lambda self, event: (
                raising(OverflowError("odd"))() if isinstance(event, MetricsSample) else stock(self, event)
            ),
        )
    else:
        monkeypatch.setattr(owner, name, raising(OverflowError("odd")))
    finish(cluster, run)
    assert within(follower.wait).outcome == told_outcome(run) == "finished"
    assert "hello\n" in output.text
    assert runs.ids() == []
    assert "OverflowError: odd" in capsys.readouterr().err


def test_an_event_that_json_cannot_hold_costs_the_record_and_not_the_run() -> None:
    cluster, output = TestCluster(), View()
    follower, run, _ = followed(cluster, output)
    cluster.say(MetricsSample(run.id, 0, time.time(), 1.0, 2**20, metrics={"odd": {1, 2}}))
    finish(cluster, run)
    assert within(follower.wait).outcome == "finished"
    assert "this run is not recorded any more" in output.text
    assert "set is not JSON serializable" in output.text


def test_an_observer_that_raises_costs_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[object] = []
    observers = Observers()
    observers.add(raising(TypeError("the panel")))
    observers.add(heard.append)
    cluster = TestCluster()
    follower, run, _ = followed(cluster, observers=observers)
    finish(cluster, run)
    assert within(follower.wait).outcome == "finished"
    assert run in heard
    assert "TypeError: the panel" in capsys.readouterr().err


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_a_loss_whose_handling_raises_still_ends_the_run(
    error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, cluster = SimulatedClock(), TestCluster()
    follower, run, runs = followed(cluster, on_loss=raising(error), clock=clock)
    lost = RankLost(1, loss_in_words("rank 1 on node-a was ended"), time.time())
    clock.after(0.2, lambda: cluster.say(lost))
    ended = within(follower.wait)
    assert isinstance(ended, ClusterLost)
    assert f"New ones could not be started automatically ({type(error).__name__}" in str(ended)
    assert "%ddl restart starts new ones." in str(ended)
    assert runs.why_lost() == "rank 1 on node-a was ended."
    assert told_outcome(run) == "lost"


def test_where_ranks_are_not_replaced_the_loss_says_from_where_a_training_resumes() -> None:
    clock, cluster = SimulatedClock(), TestCluster()
    follower, run, _ = followed(cluster, replaces=False, clock=clock)
    run.folder.write("model.fit(x)", options={"checkpoint": "/saved/mnist"})
    job = Fault("lost", "job", at_s=5.0, facts=Facts(by="Slurm job 12", outcome="TIMEOUT"))
    clock.after(0.2, lambda: cluster.say(RankLost(None, job, 5.0)))
    ended = within(follower.wait)
    assert isinstance(ended, ClusterLost)
    assert "%ddl submit sends another job" in str(ended)
    assert "Run again on new ranks, the cell resumes from its newest checkpoint in /saved/mnist." in str(ended)


@pytest.mark.parametrize("seam", ["start_new_thread", "launch raises"])
@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), KeyError("odd"), MemoryError()])
def test_a_rebuild_that_cannot_begin_or_fails_is_told_and_waited_for_by_nobody(
    seam: str, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = TestCluster()
    lifecycle, ranks = ready(cluster, Rebuilder(raising(error), SetupCells()))
    run = Run(RunFolder("tests"), RANKS, len(RANKS))
    follower = Follower(run, ranks.runs, None, None)
    ranks.runs.begin(run)
    with monkeypatch.context() as patched:
        if seam == "start_new_thread":
            patched.setattr(Supervised, "start", raising(HostUnfit("Threads.", repr(error), "Restart.")))
        cluster.say(RankLost(1, loss_in_words("rank 1 on node-a was ended"), time.time()))
    ended = within(follower.wait)
    assert isinstance(ended, ClusterLost)
    if seam == "start_new_thread":
        assert "New ones could not be started automatically (HostUnfit: Threads." in str(ended)
        assert wait_settled(lifecycle, lambda _: None) is None
    else:
        problem = within(lambda: wait_settled(lifecycle, lambda _: None))
        assert isinstance(problem, ClusterLost)
        assert f"New ones did not come up: {type(error).__name__}" in str(problem)


@pytest.mark.parametrize("seam", ["release", "ask", "starve", "state_of"])
def test_a_release_comes_to_its_end_whatever_it_looks_at_raises(
    seam: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, cluster, output = SimulatedClock(), TestCluster(), View()
    follower, _, runs = followed(cluster, output, clock=clock)
    monkeypatch.setattr(type(runs), seam, raising(OSError(5, "odd")))
    clock.after(0.2, follower.interrupt)
    ended = within(follower.wait)
    assert isinstance(ended, ClusterLost)
    assert "the cell was interrupted, and ranks 0-1 did not answer the release within" in str(ended)
    assert "rank 0 has not answered its release for 5 s: " in output.text
    assert output.text.count("raised OSError: [Errno 5] odd; the cell continues") == 1


def test_a_follower_that_cannot_have_a_thread_releases_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Any, ranks: Any) -> None:
        if isinstance(request, Release):
            for rank in ranks:
                cluster.say(_released(run, rank, request.reason))

    cluster = TestCluster(answer)
    follower, run, runs = followed(cluster)
    monkeypatch.setattr(threading.Thread, "start", raising(RuntimeError("can't start new thread")))
    with pytest.raises(HostUnfit, match=r"must be able to start threads. Received: can't start new thread, \d+ Python"):
        follower.follow_in_background()
    assert runs.ids() == []
    assert told_outcome(run) == "interrupted"


def test_a_plain_program_prints_the_ranks_traceback_and_a_notebook_shows_it_once() -> None:
    cluster = TestCluster()
    follower, run, _ = followed(cluster)
    lines = ("\x1b[0;31mTraceback\x1b[0m (most recent call last)", "Cell line 3: 1 / 0", "ZeroDivisionError: division")
    cluster.say(finished(run, 0))
    cluster.say(
        RankFailed(
            run.id, 1, "node-a", "ZeroDivisionError", "division", lines, released=False, at_s=time.time(), reason=None
        )
    )
    error = within(follower.wait)
    assert isinstance(error, RankError)
    printed = "".join(traceback.format_exception(error))
    told = "Rank 1 of 2 on node-a\nTraceback (most recent call last)\nCell line 3: 1 / 0\nZeroDivisionError: division"
    assert printed.count(told) == 1
    assert printed.rstrip().endswith("RankError: Rank 1 of 2 on node-a: ZeroDivisionError: division")
    assert "\x1b" not in printed
    shell = InteractiveShell()
    shell.user_ns["error"] = error
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        shell.run_cell("raise error")
    assert shown.getvalue().count("Cell line 3: 1 / 0") == 1


# What another asks for has the same patience and the same end as the stop button.


def _released(run: Run, rank: int, reason: str) -> RankFailed:
    return RankFailed(
        run.id, rank, "node-a", "KeyboardInterrupt", "", (), released=True, at_s=time.time(), reason=reason
    )


@pytest.mark.parametrize("way", ["this kernel", "another kernel"])
def test_a_release_from_elsewhere_gives_up_on_ranks_that_do_not_answer(way: str) -> None:
    clock, cluster, output = SimulatedClock(), TestCluster(), View()
    follower, run, runs = followed(cluster, output, clock=clock)

    def release() -> None:
        if way == "this kernel":
            runs.release_all("the panel")
        else:
            cluster.say(ReleaseAsked("kernel-2", "%ddl interrupt", time.time()))

    clock.after(0.2, release)
    ended = within(follower.wait)
    by = "the panel" if way == "this kernel" else "%ddl interrupt"
    assert isinstance(ended, ClusterLost)
    assert f"the cell was interrupted by {by}, and ranks 0-1 did not answer the release within 15 s" in str(ended)
    assert "jupyter_ddl: rank 1 has not answered its release for 5 s: its process 4711 waits, " in output.text
    assert "jupyter_ddl: ranks 0-1 did not answer in time: all ranks are ended" in output.text
    assert told_outcome(run) == "lost"


def test_where_ranks_are_not_replaced_the_cell_gives_them_up_as_interrupted() -> None:
    clock, cluster = SimulatedClock(), TestCluster()
    follower, run, runs = followed(cluster, replaces=False, clock=clock)
    clock.after(0.2, lambda: runs.release_all("the panel"))
    ended = within(follower.wait)
    assert isinstance(ended, ClusterError)
    assert "Received: nothing from ranks 0-1 (interrupted)" in str(ended)
    assert told_outcome(run) == "interrupted"
    assert runs.stuck() == "0-1"


def test_ranks_that_answer_a_release_from_elsewhere_are_interrupted_by_it() -> None:
    def answer(request: Any, ranks: Any) -> None:
        if isinstance(request, Release) and request.run:
            for rank in ranks:
                cluster.say(_released(run, rank, request.reason))

    clock, cluster = SimulatedClock(), TestCluster(answer)
    follower, run, runs = followed(cluster, clock=clock)
    clock.after(0.2, lambda: runs.release_all("the panel"))
    ended = within(follower.wait)
    assert isinstance(ended, RunInterrupted)
    assert "was interrupted by the panel after" in str(ended)
    # All ranks were this kernel's: no other has to hear of it.
    assert cluster.announced == []


def test_another_kernels_are_told_where_ranks_may_be_at_their_runs() -> None:
    cluster = TestCluster()
    _, run, runs = followed(cluster)
    cluster.say(finished(run, 0))
    runs.end(run)
    run.handle(finished(run, 1))
    runs.release_all("the panel")
    assert cluster.announced == ["the panel"]


@pytest.mark.parametrize("about", ["its own", "a run that began later"])
def test_what_another_kernel_asked_for_does_not_end_what_it_did_not_mean(about: str) -> None:
    cluster = TestCluster()
    follower, run, _ = followed(cluster)
    kernel, at_s = ("kernel-1", time.time()) if about == "its own" else ("kernel-2", run.folder.start_s - 1.0)
    cluster.say(ReleaseAsked(kernel, "the panel", at_s))
    finish(cluster, run)
    assert within(follower.wait).outcome == "finished"
    assert not [request for request in cluster.sent if isinstance(request, Release)]

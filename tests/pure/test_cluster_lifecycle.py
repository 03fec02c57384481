"""Whatever happens to a cluster, in whatever state, and whatever else happens at the same moment: it has one state."""

from __future__ import annotations

import itertools
import logging
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest
from cluster_lab import KILLED, Lab
from kernel_sides import DEADLINE_S, STOPPED, within

from jupyter_ddl.errors import ClusterError, ClusterLost, ClusterStartFailed, NoCluster, RunInterrupted, SetupFailed
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.kernel.cluster_transitions import TRANSITIONS, LifecycleEvent, LifecycleState, state_after
from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.runs.recorder import Recorder
from jupyter_ddl.views.fault import render_remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES = list(LifecycleState)
# What may happen -> the state that it leads to from each state, while the starts that go on are held. None: not before
# the start has ended.
WHILE_HELD = {
    #                               STARTING      READY         RUNNING       REBUILDING    LOST          STOPPED
    "restart":                     ("starting",   "starting",   "starting",   "starting",   "starting",   "starting"),
    "stop":                        ("stopped",    "stopped",    "stopped",    "stopped",    "stopped",    "stopped"),
    "ranks_die":                   ("starting",   "rebuilding", "rebuilding", "rebuilding", "lost",       "stopped"),
    "ranks_are_stopped_elsewhere": ("starting",   "stopped",    "stopped",    "rebuilding", "lost",       "stopped"),
    "run_begins":                  ("starting",   "running",    "running",    "rebuilding", "lost",       "stopped"),
    "runs_end":                    ("starting",   "idle",       "idle",       "rebuilding", "lost",       "stopped"),
    "interrupt":                   ("starting",   "idle",       "running",    "rebuilding", "lost",       "stopped"),
    "start_ends_well":             (None,         "idle",       "running",    None,         "lost",       "stopped"),
    "start_fails":                 (None,         "idle",       "running",    None,         "lost",       "stopped"),
}  # fmt: skip
# The same, once all starts have ended well.
SETTLED = {
    #                               STARTING      READY         RUNNING       REBUILDING    LOST          STOPPED
    "restart":                     ("idle",       "idle",       "idle",       "idle",       "idle",       "idle"),
    "stop":                        ("stopped",    "stopped",    "stopped",    "stopped",    "stopped",    "stopped"),
    "ranks_die":                   ("idle",       "idle",       "idle",       "idle",       "lost",       "stopped"),
    "ranks_are_stopped_elsewhere": ("idle",       "stopped",    "stopped",    "idle",       "lost",       "stopped"),
    "run_begins":                  ("idle",       "running",    "running",    "idle",       "lost",       "stopped"),
    "runs_end":                    ("idle",       "idle",       "idle",       "idle",       "lost",       "stopped"),
    "interrupt":                   ("idle",       "idle",       "idle",       "idle",       "lost",       "stopped"),
    "start_ends_well":             ("idle",       "idle",       "running",    "idle",       "lost",       "stopped"),
    "start_fails":                 ("stopped",    "idle",       "running",    "lost",       "lost",       "stopped"),
}  # fmt: skip
CASES = [
    (state, event, WHILE_HELD[event][column], SETTLED[event][column])
    for event in SETTLED
    for column, state in enumerate(STATES)
]
EVENTS = [*SETTLED, "cell_is_run"]


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    lab.close()


@pytest.mark.parametrize("event", LifecycleEvent)
@pytest.mark.parametrize("state", STATES)
def test_each_event_leads_to_a_state_or_is_refused(state: LifecycleState, event: LifecycleEvent) -> None:
    if TRANSITIONS[event][state] is not None:
        assert state_after(state, event) in STATES
        return
    assert (state, event) == (LifecycleState.STARTING, LifecycleEvent.START)
    rule = (
        "Only one restart can run at a time. Received: a restart while ranks are being ended or started. "
        "Wait for its end."
    )
    with pytest.raises(ClusterError, match=f"^{re.escape(rule)}$"):
        state_after(state, event)


@pytest.mark.parametrize(("state", "event", "held", "settled"), CASES)
def test_what_an_event_leads_to(lab: Lab, state: LifecycleState, event: str, held: str | None, settled: str) -> None:
    lab.bring_into(state)
    lab.is_held = True
    lab.moved.clear()
    lab.in_thread(getattr(lab, event))
    assert lab.moved.wait(DEADLINE_S)
    if held is not None:
        assert lab.state.value == held
    lab.settle()
    assert lab.state.value == settled
    lab.check()


PAIRS = list(itertools.combinations_with_replacement(EVENTS, 2))


@pytest.mark.parametrize("state", STATES)
def test_any_two_events_at_the_same_moment(state: LifecycleState) -> None:
    for first, second in PAIRS:
        lab = Lab()
        lab.bring_into(state)
        lab.is_held = False
        together = threading.Barrier(2, timeout=DEADLINE_S)

        def begin(event: str, lab: Lab = lab, together: threading.Barrier = together) -> None:
            together.wait()
            getattr(lab, event)()

        for event in (first, second):
            lab.in_thread(lambda event=event, begin=begin: begin(event))  # type: ignore[misc]
        lab.settle()
        lab.check()
        if "stop" in (first, second) and "restart" not in (first, second):
            assert lab.state is LifecycleState.STOPPED, (first, second)
        elif {first, second} == {"stop", "restart"}:
            # The restart came after the stop, or was cancelled by it.
            assert lab.state in (LifecycleState.STOPPED, LifecycleState.READY)
        lab.close()


# Moments within a restart.


@pytest.mark.parametrize("event", ["restart", "stop"])
def test_a_cancelled_start_is_over_before_another_begins_and_before_a_stop_returns(lab: Lab, event: str) -> None:
    lab.bring_into(LifecycleState.REBUILDING)
    lab.may_cancel.clear()
    lab.is_held = False
    lab.moved.clear()
    lab.in_thread(getattr(lab, event))
    # Time to go wrong in: nothing is waited for.
    assert not lab.moved.wait(0.1)
    lab.may_cancel.set()
    lab.settle()
    assert lab.state is (LifecycleState.READY if event == "restart" else LifecycleState.STOPPED)
    lab.check()


def test_a_rank_that_dies_while_a_restart_ends_the_old_ones_is_replaced_once(lab: Lab) -> None:
    old = lab.cluster
    lab.run_begins()
    (_, run) = lab.runs[0]
    with old._stop_lock:
        # The restart has come to the old ranks, and waits.
        restart = lab.in_thread(lab.restart)
        with lab.lifecycle.lock:
            assert lab.lifecycle.lock.wait_for(lambda: lab.lifecycle._step == "ending the ranks", DEADLINE_S)
        old.say(KILLED)
    restart.join(DEADLINE_S)
    run.take_what_came()
    assert run.lost is KILLED
    assert (len(lab.launches), lab.state, lab.errors) == (2, LifecycleState.READY, [])
    lab.check()


def test_new_ranks_that_a_setup_cell_ends_are_not_replaced_by_themselves(lab: Lab) -> None:
    def kill() -> None:
        lab.ranks_die()
        raise ClusterLost("they died")

    lab.remember(kill)
    with pytest.raises(ClusterLost, match=r"^A setup cell must leave the ranks alive\. Received: setup cell 1 of 1"):
        lab.restart()
    assert (len(lab.launches), lab.state) == (2, LifecycleState.LOST)
    with pytest.raises(
        ClusterLost, match=r"^Ranks must run\. Received: rank 1 on node-a .*\n%ddl restart tries again\.$"
    ):
        lab.cell_is_run()
    assert render_remedy(lab.session._ranks.runs.remedy) == "%ddl restart tries again."
    lab.check()


def test_new_ranks_that_die_before_they_are_adopted_are_lost(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*_: Any) -> Any:
        cluster = stock(*_)
        cluster.end(KILLED)
        return cluster

    stock = lab.session._launch
    monkeypatch.setattr(lab.session, "_launch", launch)
    lab.restart()
    assert lab.state is LifecycleState.LOST
    lab.check()


def test_a_stop_while_setup_cells_run_cancels_the_restart(lab: Lab) -> None:
    begun = threading.Event()

    def setup() -> None:
        begun.set()
        lab.session._send("1", None, CellOptions()).wait()

    lab.remember(setup)
    lab.in_thread(lab.restart)
    assert begun.wait(DEADLINE_S)
    within(lab.stop)
    lab.settle()
    assert [str(error) for error in lab.errors] == ["The start was cancelled by %ddl stop or %ddl restart."]
    assert isinstance(lab.errors[0], ClusterStartFailed)
    assert lab.state is LifecycleState.STOPPED
    lab.check()


def test_a_disk_that_does_not_answer_keeps_no_thread_from_the_state(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, answers = threading.Event(), threading.Event()

    def handle(*_: Any) -> bool:
        begun.set()
        return answers.wait(DEADLINE_S)

    lab.run_begins()
    ((_, run),) = lab.runs
    monkeypatch.setattr(Recorder, "handle", handle)
    lab.in_thread(lambda: lab.cluster.say(OutputChunk(run.id, 0, "stdout", "hello\n")))
    assert begun.wait(DEADLINE_S)
    assert within(lab.session.describe)["state"] == "running"
    within(lambda: lab.lifecycle.stop("test"))
    assert lab.state is LifecycleState.STOPPED
    answers.set()


# What the next cell hears.


def test_a_setup_cell_that_raises_is_told_once(lab: Lab) -> None:
    def fail() -> None:
        raise RunInterrupted("odd")

    lab.remember(fail)
    lab.ranks_die()
    with pytest.raises(SetupFailed, match=r"^A setup cell must run on new ranks\. Received: setup cell 1 of 1, which"):
        lab.session.wait_rebuilt()
    assert lab.session.wait_rebuilt() is None
    assert lab.state is LifecycleState.READY


def test_ranks_lost_again_before_a_cell_ran_on_them_are_not_replaced(lab: Lab) -> None:
    lab.ranks_die()
    report = lab.session.wait_rebuilt() or ""
    assert report.startswith("rank 1 on node-a ended its own process.\n2 new ranks were started in ")
    assert lab.session.wait_rebuilt() is None
    lab.ranks_die()
    assert lab.state is LifecycleState.LOST
    with pytest.raises(ClusterLost, match="so they are not replaced once more: find the cause first"):
        lab.cell_is_run()
    # A restart begins with a clean slate.
    lab.restart()
    lab.ranks_die()
    lab.session.wait_rebuilt()
    lab.cell_is_run()
    lab.runs_end()
    lab.ranks_die()
    lab.session.wait_rebuilt()
    assert lab.state is LifecycleState.READY


def of_job(outcome: str) -> RankLost:
    fault = Fault("lost", "job", at_s=5.0, facts=Facts(by="Slurm job 12", outcome=outcome))
    return RankLost(None, fault, 5.0)


def test_ranks_whose_job_has_ended_are_not_replaced(lab: Lab) -> None:
    lab.cluster.end(of_job("TIMEOUT"))
    assert lab.state is LifecycleState.LOST
    with pytest.raises(ClusterLost, match=r"(?s)Slurm job 12 reached its time limit.*%ddl submit sends another job"):
        lab.cell_is_run()


def test_ranks_whose_job_is_back_in_its_queue_are_waited_for(lab: Lab) -> None:
    lab.bring_into(LifecycleState.RUNNING)
    lab.cluster.end(of_job("REQUEUED"))
    report = lab.session.wait_rebuilt() or ""
    assert report.startswith("Slurm job 12 was preempted, or its node failed, and it was put back into the queue")
    assert lab.state is LifecycleState.READY


def test_a_rebuild_that_fails_is_told_to_each_cell_until_a_restart(lab: Lab) -> None:
    lab.bring_into(LifecycleState.REBUILDING)
    lab.start_fails()
    for _ in range(2):
        with pytest.raises(ClusterLost, match=r"\nNew ones did not come up: no rank came up\n%ddl restart tries again"):
            lab.cell_is_run()
    assert lab.state is LifecycleState.LOST
    lab.is_held = False
    lab.restart()
    lab.cell_is_run()


def test_a_restart_that_fails_leaves_a_stopped_cluster(lab: Lab) -> None:
    lab.bring_into(LifecycleState.STARTING)
    lab.start_fails()
    lab.settle()
    assert [str(error) for error in lab.errors] == ["no rank came up"]
    with pytest.raises(NoCluster, match="the cluster 'tests' was stopped"):
        lab.cell_is_run()


@pytest.mark.parametrize(
    ("state", "step"), [(LifecycleState.STARTING, ""), (LifecycleState.REBUILDING, " (starting 2 ranks)")]
)
def test_a_cell_that_waits_for_ranks_can_be_interrupted(lab: Lab, state: LifecycleState, step: str) -> None:
    lab.bring_into(state)
    with interrupts_noted() as interrupted:
        interrupted.came = True
        told = f"^New ranks are still being started{re.escape(step)}; the cell was not run\\.$"
        with pytest.raises(RunInterrupted, match=told):
            lab.session.wait_rebuilt()
    assert lab.state is state


def test_what_status_says_and_why_the_ranks_are_gone(lab: Lab) -> None:
    assert (lab.session.state, lab.session.why_lost) == (None, None)
    lab.bring_into(LifecycleState.REBUILDING)
    assert lab.session.state == "new ranks in place of lost ones: starting 2 ranks"
    assert lab.session.why_lost is KILLED.fault
    lab.settle()
    assert lab.session.why_lost is None
    lab.bring_into(LifecycleState.STARTING)
    assert (lab.session.state, lab.session.why_lost) == ("new ranks: starting 2 ranks", None)
    lab.settle()
    lab.bring_into(LifecycleState.LOST)
    assert lab.session.state == "rank 1 on node-a ended its own process."
    assert lab.session.why_lost is KILLED.fault
    lab.stop()
    assert (lab.session.state, lab.session.why_lost) == ("stopped", None)


def test_each_transition_is_logged_with_its_cause(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jupyter_ddl.cluster")
    lab.ranks_die()
    lab.settle()
    lab.cluster.end(STOPPED)
    logged = [re.sub(r"started in [\d.]+ s", "started in 0 s", record.getMessage()) for record in caplog.records]
    assert logged == [
        "tests: lost, idle -> lost: rank 1 on node-a ended its own process.",
        "tests: rebuild, lost -> rebuilding: 2 new ranks replace them",
        "tests: up, rebuilding -> idle: 2 new ranks were started in 0 s",
        "tests: ended, idle -> stopped: stopped",
    ]
    assert lab.lifecycle.last is not None
    assert lab.lifecycle.last.cause == "stopped"

"""How a job that brought ranks is said to have ended, and whose kernel lives; without a scheduler."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest
from fake_scheduler import KILLED, ORDER, FakeScheduler, ending, on_node

from jupyter_ddl.cluster.ending_notes import noted_ending, write_note
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_folder import JobFolder, KernelWatch
from jupyter_ddl.cluster.remote_lease import RemoteLease
from jupyter_ddl.cluster.serving import serve
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.schedulers.scheduler import Job
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.idle_stop import IdleStop
from jupyter_ddl.protocol.rank_life import RankLost
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)


# --- whose kernel lives ----------------------------------------------------------------------------------------------


def test_a_kernel_lives_by_its_lock_or_its_number() -> None:
    folder = JobFolder.create(ORDER)
    folder.beat(0)
    watch = KernelWatch(folder, 0.0)
    assert not watch.is_gone(39.0)
    folder.beat(1)
    assert not watch.is_gone(50.0)
    assert not watch.is_gone(89.0)
    assert watch.is_gone(91.0)
    program = (
        "import sys; from pathlib import Path; from jupyter_ddl.cluster.job_folder import JobFolder\n"
        "JobFolder(Path(sys.argv[1])).hold(); print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", program, str(folder.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"held\n"
        assert not watch.is_gone(500.0)
        kernel.kill()
    assert watch.is_gone(541.0)
    folder.let_go()
    assert KernelWatch(folder, 0.0).is_gone(0.0)


def test_a_job_whose_folder_is_none_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    said = r"A job's program takes the folder of its job\. Received: .*nothing, where no folder is\. %ddl submit sends"
    with pytest.raises(InvalidInput, match=said):
        serve(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match=r"Received: .* No such file or directory: '.*order\.json'\)\. %ddl submit"):
        serve(tmp_path)


def test_a_job_whose_ranks_were_ended_as_idle_ends_with_them(
    slurm: FakeScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle = Fault("stopped", "idle", facts=Facts(by="--idle-stop 30m", seconds=1800.0))
    started, ended = [], []
    cluster = SimpleNamespace(
        listen=lambda _: None, close=lambda: None, lost=RankLost(None, idle, 5.0), stop=lambda: ended.append("stopped")
    )
    monkeypatch.setattr("jupyter_ddl.cluster.starting.start", lambda spec, _: started.append(spec) or cluster)
    monkeypatch.setattr("jupyter_ddl.cluster.gpu_choice.list_gpus", lambda: ())
    folder = JobFolder.create(replace(ORDER, idle_stop="30m", runs=str(tmp_path)))
    folder.write_id("12")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    serve(folder.path)
    assert [spec.idle_stop for spec in started] == [IdleStop(1800.0, "--idle-stop 30m")]
    assert ended == ["stopped"]
    assert noted_ending(folder.path) == replace(idle, at_s=ANY)


# --- how it ended ----------------------------------------------------------------------------------------------------


class Clock:
    """A clock that the test sets."""

    at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def next_of(self, events: Any, timeout_s: float) -> None: ...


def test_the_scheduler_says_first_how_a_job_ended(slurm: FakeScheduler) -> None:
    slurm.answers = [Job("12", "x", "ended", "TIMEOUT")]
    slurm.outcome = "TIMEOUT"
    assert ending(on_node(ending=KILLED), slurm) == "Slurm job 12 reached its time limit."
    slurm.outcome = "PREEMPTED"
    assert ending(on_node(), slurm).startswith("Slurm job 12 was preempted")
    # Its own program's end says less than its folder.
    slurm.outcome = "FAILED"
    assert ending(on_node(ending=KILLED), slurm) == "rank 1 on node-b was ended by signal 9 (Killed)."
    slurm.outcome = None
    assert ending(on_node(ending=KILLED), slurm) == "rank 1 on node-b was ended by signal 9 (Killed)."
    slurm.answers = [Job("12", "x", "waiting")]
    assert ending(on_node(), slurm).startswith("Slurm job 12 was preempted, or its node failed, and it was put back")


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("*** JOB 12 ON a CANCELLED AT T DUE TO PREEMPTION ***\n", "another job took its nodes, and it was put back"),
        ("DUE TO PREEMPTION ***\nthe job is being ended\n", "another job took its nodes, and it was put back"),
        # Of the time before.
        ("DUE TO PREEMPTION ***\nmpiexec 5\nstarting 4 ranks\n", "or its node failed, and it was put back"),
    ],
)
def test_a_job_that_was_preempted_says_so_in_what_it_printed(
    slurm: FakeScheduler, tmp_path: Path, printed: str, why: str
) -> None:
    folder = on_node(folder=tmp_path)
    (tmp_path / "output.log").write_text(printed)
    slurm.answers = [Job("12", "x", "waiting")]
    lease = RemoteLease(folder, "w1", slurm, "12")
    # What stops the ranks removes the cluster's folder, and the job's stays.
    folder.remove()
    assert why in describe(lease.ending())


def test_a_job_that_was_ended_as_idle_says_by_whom(slurm: FakeScheduler, tmp_path: Path) -> None:
    folder = on_node(folder=tmp_path)
    slurm.answers = [Job("12", "x", "ended")]
    lease = RemoteLease(folder, "w1", slurm, "12")
    write_note(tmp_path, "a teacher", 3600.0)
    folder.remove()
    assert describe(lease.ending()) == "stopped by a teacher, after 1 h 00 min without a run"


def test_ranks_that_were_replaced_ended_as_their_world_did(slurm: FakeScheduler) -> None:
    slurm.answers = [Job("12", "x", "running")]
    on_node(ending=KILLED)
    assert ending(on_node("w2"), slurm) == "rank 1 on node-b was ended by signal 9 (Killed)."
    folder = on_node("w2")
    folder.remove()
    assert RemoteLease(folder, "w1").ending().kind == "stopped"
    assert RemoteLease(on_node(), "w1").ending().subject == "lease"


def test_a_lease_has_ended_when_it_is_missed_twice_or_its_job_is_over(
    slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    lease = RemoteLease(on_node(), "w1", slurm, "12", clock)
    assert [lease.has_ended(), lease.has_ended()] == [False, True]
    monkeypatch.setattr(ClusterFolder, "runs", lambda _: True)
    slurm.answers = [Job("12", "x", "running")]
    assert not lease.has_ended()
    clock.at_s = 31.0
    assert not lease.has_ended()
    # A host without power leaves its lock behind.
    slurm.answers = [Job("12", "x", "ended", "NODE_FAIL")]
    clock.at_s = 62.0
    assert lease.has_ended()

"""The jobs that bring ranks, as they are found, listed and shown; without a scheduler."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from fake_scheduler import ORDER, FakeScheduler, job_of, on_node

from jupyter_ddl.cluster import finding, job_list, jobs_known, lease_process, registry, submission
from jupyter_ddl.cluster.batch_job import JobRanks
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_folder import submitted
from jupyter_ddl.cluster.lifecycle import Cluster
from jupyter_ddl.errors import ClusterError, ClusterStartFailed, InvalidInput, NoCluster
from jupyter_ddl.launch.schedulers.scheduler import Job
from jupyter_ddl.protocol.number_texts import time_left
from jupyter_ddl.server import jobs as hub_jobs
from jupyter_ddl.views.job_texts import ended_text, listed_text, waiting_text
from jupyter_ddl.views.jobs_table import JobRow, jobs_table

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.timeout(60)


# --- finding and listing ---------------------------------------------------------------------------------------------


def test_a_cluster_is_found_by_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = on_node()
    (folder.path / "lease.json").write_text('{"host": "node-b"}')
    monkeypatch.setattr(registry, "host_of", lambda path: "node-b" if path == folder.path else None)
    found = finding.of_job("12")
    assert found is not None
    assert found.path == folder.path
    assert finding.named("12").path == folder.path
    assert finding.of_job("12", not_world="w1") is None
    assert finding.of_job("13") is None
    with pytest.raises(InvalidInput, match=r"name='train', which runs already\. %ddl attach train uses it"):
        submission._check_free("train")


def test_jobs_are_listed_and_what_ended_ones_left_is_removed(slurm: FakeScheduler) -> None:
    job_of(slurm)
    slurm.answers = [Job("12", "ddl-train", "waiting", "Priority", ahead=1)]
    assert job_list.table() == (
        "job  name   state                                nodes  time left\n"
        "12   train  waiting (Priority, 1 job before it)"
    )
    slurm.answers = [None]
    left = on_node()
    assert job_list.table() == "No job of yours brings ranks. %ddl submit sends one."
    assert list(submitted()) == []
    assert not left.path.exists()
    with pytest.raises(
        NoCluster, match=r"A job to end must be one that %ddl submit sent\. Received: '12'; known: none"
    ):
        job_list.cancel("12")
    job_of(slurm)
    assert job_list.cancel("12") == "Slurm job 12"
    assert slurm.cancelled == ["12"]


def test_a_list_without_the_table_removes_nothing(slurm: FakeScheduler) -> None:
    assert job_list.waiting_or_running() == []
    job_of(slurm)
    waits = Job("12", "ddl-train", "waiting")
    slurm.answers = [waits, Job("13", "of-somebody-else", "running"), Job("14", "x", "ended")]
    assert job_list.waiting_or_running() == [(ORDER, waits)]
    # A kernel that waits for a job which has ended reads in its folder why.
    slurm.answers = [None]
    assert job_list.waiting_or_running() == []
    assert len(list(submitted())) == 1


def test_the_hub_lists_jobs_and_asks_no_scheduler_where_none_was_submitted(
    slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm.answers = [Job("12", "ddl-train", "waiting", "Priority", ahead=1)]
    with monkeypatch.context() as silent:
        silent.setattr(jobs_known.shutil, "which", lambda _: pytest.fail("nothing is to be looked for"))
        assert hub_jobs.listing() == []
    job_of(slurm)
    text = "Slurm job 12 waits in the queue (Priority), 1 job before it"
    job = {"job": "12", "title": "Slurm job 12", "name": "train", "world_size": 4}
    assert hub_jobs.listing() == [{**job, "state": "waiting", "text": text, "ends_at_s": None}]
    # Where the server runs need be no host that submits.
    monkeypatch.setattr(jobs_known.shutil, "which", lambda _: None)
    assert hub_jobs.listing() == []


def test_a_job_that_no_notebook_uses_says_where_it_is() -> None:
    def text(state: str, nodes: Sequence[str] = ()) -> str:
        return listed_text("PBS job 7", state, "Resources", 0, None, nodes)

    assert text("waiting") == "PBS job 7 waits in the queue (Resources), the next one"
    assert text("running", ["n1", "n2"]) == "PBS job 7 runs on n1, n2"
    assert text("running") == "PBS job 7 runs"
    assert text("ending", ["n1"]) == "PBS job 7 is being ended"


def test_the_table_has_nodes_and_time_left() -> None:
    row = JobRow("7", "a", "running", nodes=("n1", "n2"), ends_at_s=3700.0, attached=True)
    assert jobs_table([row], now_s=100.0).splitlines()[1] == "7    a     running  n1,n2  1 h 00 min  attached"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0 s"), (59.4, "59 s"), (60, "1 min"), (2580, "43 min"), (7500, "2 h 05 min")]
)
def test_time_left_is_short(seconds: float, text: str) -> None:
    assert time_left(seconds) == text


def test_texts_of_a_job() -> None:
    assert waiting_text("Slurm job 1", "waiting", "", 0, None, ()) == "Slurm job 1 waits in the queue, the next one"
    then = time.strftime("%a %d %b at %H:%M", time.localtime(1700000000.0))
    assert waiting_text("Slurm job 1", "waiting", "", None, 1700000000.0, ()).endswith(f", expected to start on {then}")
    now = time.strftime("%H:%M", time.localtime(now_s := time.time()))
    assert waiting_text("Slurm job 1", "waiting", "", 2, now_s, ()).endswith(
        f", 2 jobs before it, expected to start at {now}"
    )
    assert waiting_text("Slurm job 1", "running", "", None, None, ()) == "Slurm job 1 starts"
    assert ended_text("Slurm job 1", "", "") == (
        "A job must run to bring ranks. Received: Slurm job 1 has ended. %ddl submit sends another one."
    )


def test_a_job_that_ran_and_printed_nothing_has_nodes_without_its_folder(slurm: FakeScheduler) -> None:
    job = job_of(slurm)
    slurm.answers = [Job("12", "x", "ended", "FAILED", nodes=("nodea",))]
    with pytest.raises(
        ClusterStartFailed,
        match=rf"A job's nodes must share its folder\. Received: Slurm job 12 has ended \(FAILED\), and nothing that "
        rf"it printed is in {job.folder.path}\. Set JUPYTER_DDL_RUNTIME to a folder that they share",
    ):
        JobRanks(job).launch(job.spec(), lambda _: None, threading.Event())


def test_ranks_that_do_not_end_are_named_unless_their_job_is_over(
    slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(on_node(), None)
    monkeypatch.setattr(ClusterFolder, "runs", lambda _: True)
    monkeypatch.setattr(lease_process, "STOP_TIMEOUT_S", 0.0)
    slurm.answers = [Job("12", "x", "ended", "NODE_FAIL")]
    cluster.stop()
    slurm.answers = [Job("12", "x", "running")]
    with pytest.raises(
        ClusterError, match=r"Ranks on another host end when they are asked to\. Received: 'train' runs"
    ):
        cluster.stop()

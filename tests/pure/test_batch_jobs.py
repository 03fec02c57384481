"""A job that brings ranks: its script, its folder, the wait for it, and how its end is named; without a scheduler."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl import paths
from jupyter_ddl.cluster import batch_job, finding, job_list, jobs_known, lease_process, registry, submission
from jupyter_ddl.cluster.batch_job import BatchJob, JobRanks
from jupyter_ddl.cluster.ending_notes import write_note
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_folder import JobFolder, JobOrder, KernelWatch, submitted
from jupyter_ddl.cluster.lifecycle import Cluster
from jupyter_ddl.cluster.remote_lease import RemoteLease
from jupyter_ddl.cluster.serving import serve
from jupyter_ddl.cluster.spec import ClusterSpec, Served
from jupyter_ddl.cluster.submission import Wanted
from jupyter_ddl.errors import ClusterError, ClusterStartFailed, HostUnfit, InvalidInput, NoCluster
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.hub_link.controls import Controls
from jupyter_ddl.kernel.hub_link.state import State
from jupyter_ddl.kernel.kernel_sessions import KernelSessions
from jupyter_ddl.launch.schedulers import slurm_queue
from jupyter_ddl.launch.schedulers.scheduler import Job, JobRequest
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.hub_messages import Answer, Control
from jupyter_ddl.protocol.number_texts import time_left
from jupyter_ddl.server import jobs as hub_jobs
from jupyter_ddl.views.fault import describe
from jupyter_ddl.views.job_texts import ended_text, listed_text, waiting_text
from jupyter_ddl.views.jobs_table import JobRow, jobs_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.timeout(60)

ORDER = JobOrder("train", 4, "slurm", keep=True, rebuild=True, host="login", runs="/home/me/runs")
REQUEST = JobRequest("ddl-train", 2, 4, "/home/me/out.log", "/home/me", "1:30")
SPEC = ClusterSpec("train", 4, (), 1, {}, keep=False, oversubscribe=False, note="")


@dataclass
class FakeScheduler:
    """A scheduler whose answers the test says."""

    kind: Any = "slurm"
    title: str = "Slurm"
    answers: list[Job | None] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    refuses: str = ""
    outcome: str | None = None

    def script(self, request: JobRequest, command: Sequence[str]) -> str:
        return slurm_queue.script(request, command)

    def submit(self, script: str) -> str:
        assert script.startswith("#!")
        if self.refuses:
            raise ClusterError(self.refuses)
        return "12"

    def job(self, job: str) -> Job | None:
        assert job == "12"
        return self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)

    def jobs(self) -> list[Job]:
        return [job for job in self.answers if job is not None]

    def cancel(self, job: str) -> None:
        if self.refuses:
            raise ClusterError(self.refuses)
        self.cancelled.append(job)

    def end_of(self, job: str) -> str | None:
        assert job == "12"
        return self.outcome

    def place_of_job(self, variables: Any) -> Any: ...
    def launch_options(self, place: Any) -> Any: ...
    def launch_variables(self, place: Any) -> Any: ...
    def on_node(self, place: Any, node: str) -> Any: ...


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{made}/runtime")
        monkeypatch.setenv(paths.RUNS_VARIABLE, f"{made}/runs")
        yield Path(made) / "runtime"


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> FakeScheduler:
    fake = FakeScheduler()
    monkeypatch.setattr(jobs_known, "SCHEDULERS", (fake,))
    monkeypatch.setattr(jobs_known.shutil, "which", lambda command: f"/usr/bin/{command}")
    return fake


def job_of(slurm: FakeScheduler, order: JobOrder = ORDER) -> BatchJob:
    return batch_job.submit(order, lambda folder: replace(REQUEST, output=str(folder.output)), slurm)


# --- Slurm's script and words ----------------------------------------------------------------------------------------


def test_a_script_has_what_was_requested_and_hours_are_hours() -> None:
    request = replace(
        REQUEST, queue="gpu", cores_per_rank=2, gpus_per_node=4, account="abc", options=("--constraint=a100",)
    )
    text = slurm_queue.script(replace(request, setup=("module load cuda",)), ["python", "-m", "it", "/a b"])
    assert text == "\n".join(
        [
            "#!/bin/bash",
            "#SBATCH --job-name=ddl-train",
            "#SBATCH --nodes=2",
            "#SBATCH --ntasks-per-node=4",
            "#SBATCH --output=/home/me/out.log",
            "#SBATCH --chdir=/home/me",
            "#SBATCH --open-mode=append",
            "#SBATCH --time=01:30:00",
            "#SBATCH --partition=gpu",
            "#SBATCH --cpus-per-task=2",
            "#SBATCH --gpus-per-node=4",
            "#SBATCH --account=abc",
            "#SBATCH --constraint=a100",
            "",
            "module load cuda",
            "exec python -m it '/a b'",
            "",
        ]
    )
    with pytest.raises(InvalidInput, match=r"A job's time is HOURS:MINUTES\. Received: '90'\. Write --time 1:30"):
        slurm_queue.script(replace(REQUEST, time="90"), ["it"])


def test_what_squeue_prints_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = {
        "--states=all": "12|PENDING|Priority||1700000000|N/A|main|ddl-a|b\n",
        "--states=PENDING": "9\n11\n12\n",
        "--me": "12|RUNNING|None|node[1-2]|1700000000|1700003600|main|x\n13|CANCELLED|None||N/A|N/A|main|y\n",
    }

    def call(command: list[str], text: str = "") -> str:
        assert text == ""
        return next(answer for option, answer in printed.items() if option in command)

    monkeypatch.setattr(slurm_queue, "_call", call)
    assert slurm_queue.job("12") == Job("12", "ddl-a|b", "waiting", "Priority", (), 2, 1700000000.0, None)
    running, ended = slurm_queue.jobs()
    assert running == Job("12", "x", "running", "", ("node1", "node2"), None, 1700000000.0, 1700003600.0)
    assert (ended.state, ended.reason) == ("ended", "CANCELLED")


def test_slurms_refusal_is_in_its_own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = tmp_path / "sbatch"
    command.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2; exit 1\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"Slurm must take `sbatch`\. Received: sbatch: error: invalid partition"):
        slurm_queue.submit("#!/bin/bash\n")
    with pytest.raises(ClusterError, match=r"Slurm must take `scancel`\. Received: scancel is not on PATH"):
        slurm_queue.cancel("12")


# --- submitting ------------------------------------------------------------------------------------------------------


def test_without_a_scheduler_it_is_said_which_were_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_known.shutil, "which", lambda _: None)
    with pytest.raises(HostUnfit, match=r"Received: none of sbatch \(Slurm\).* on PATH\. Use a kernel on a login node"):
        submission.script(Wanted())
    monkeypatch.setenv("APPTAINER_CONTAINER", "/sifs/a b.sif")
    with pytest.raises(HostUnfit, match=r"PATH in /sifs/a b\.sif\. Start .* with --container '/sifs/a b\.sif'\."):
        jobs_known.scheduler_here()


def test_a_script_is_shown_and_nothing_is_made(slurm: FakeScheduler, runtime: Path) -> None:
    text = submission.script(Wanted(2, 4, time="1:00", name="train"))
    assert "#SBATCH --nodes=2" in text
    assert f"run_module.py jupyter_ddl.cli serve {runtime}/jobs/train-..." in text
    assert slurm.cancelled == []
    assert not (runtime / "jobs").exists()


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (Wanted(nodes=0), r"nodes must be a whole number of at least 1\. Received: nodes=0\. Pass -N 1 or more"),
        (Wanted(ntasks_per_node=0), r"ntasks_per_node must be a whole number"),
        (Wanted(cpus_per_task=0), r"cpus_per_task must be a whole number"),
        (Wanted(options=("a100",)), r"--option takes one option of the scheduler's\. Received: 'a100'"),
        (Wanted(name="a/b"), r"A cluster's name must be"),
    ],
)
def test_what_breaks_a_rule_is_refused(slurm: FakeScheduler, wanted: Wanted, text: str) -> None:
    assert slurm.kind == "slurm"
    with pytest.raises(InvalidInput, match=text):
        submission.submit(wanted)


def test_a_job_that_is_refused_leaves_no_folder(slurm: FakeScheduler) -> None:
    slurm.refuses = "Slurm must take `sbatch`. Received: no"
    with pytest.raises(ClusterError, match="Received: no"):
        submission.submit(Wanted(keep=True))
    assert list(submitted()) == []


def test_a_job_is_known_by_its_number_to_other_notebooks(slurm: FakeScheduler) -> None:
    job = job_of(slurm)
    assert job.spec().served == Served("slurm", "12", str(job.folder.path), "login", rebuild=True)
    found = batch_job.known("12")
    assert found is not None
    assert found.title == "Slurm job 12"
    assert batch_job.known("13") is None
    assert (job.folder.path / "order.json").stat().st_mode & 0o777 == 0o600
    assert job.folder.path.stat().st_mode & 0o777 == 0o700


def test_the_wait_shows_the_queue_and_its_end_is_an_error(
    slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_job, "_ASK_S", 0.0)
    monkeypatch.setattr(batch_job, "_LOOK_S", 0.0)
    job = job_of(slurm)
    job.folder.output.write_text("jupyter ddl: no GPU\n")
    slurm.answers = [
        Job("12", "x", "waiting", "Priority", ahead=2),
        Job("12", "x", "running", nodes=("nodea",)),
        Job("12", "x", "ended", "FAILED"),
    ]
    steps: list[str] = []
    with pytest.raises(
        ClusterStartFailed, match=r"Slurm job 12 has ended \(FAILED\); it printed last:\njupyter ddl: no"
    ):
        JobRanks(job).launch(job.spec(), steps.append, threading.Event())
    assert steps == [
        "Slurm job 12 waits in the queue (Priority), 2 jobs before it",
        "Slurm job 12 runs on nodea: its ranks are being started",
    ]


def test_neither_an_attempt_that_is_given_up_nor_an_interrupt_cancels_it(slurm: FakeScheduler) -> None:
    job = job_of(slurm)
    given_up = threading.Event()
    given_up.set()
    with pytest.raises(ClusterStartFailed, match="The start was cancelled"):
        JobRanks(job).launch(job.spec(), lambda _: None, given_up)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    slurm.answers = [Job("12", "x", "waiting")]
    with pytest.raises(
        ClusterStartFailed, match=r"stays where it is\. %ddl attach 12 waits for it again, %ddl jobs --c"
    ):
        KernelSessions().wait_for(job, interrupt)
    assert slurm.cancelled == []


def test_a_job_that_waits_is_known_to_the_panel_which_ends_it_by_its_scheduler(
    slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = KernelSessions()
    monkeypatch.setattr(current, "_sessions", sessions)
    job = job_of(slurm, replace(ORDER, keep=False))
    slurm.answers = [Job("12", "x", "waiting", "Priority", ahead=2)]
    state = State("k", None)
    seen: list[Any] = []
    answered = threading.Event()

    def look(step: str) -> None:
        # The control is done in a thread: this one is the cell's.
        if "waits" in step and not seen:
            seen.append(state.now().cluster)
            Controls().take(Control("1", "k", "stop", {}), lambda answer: (seen.append(answer), answered.set()))

    with pytest.raises(ClusterStartFailed, match="The start was cancelled"):
        sessions.wait_for(job, look)
    assert answered.wait(20)
    cluster, answer = seen
    assert (cluster["state"], cluster["job"], cluster["world_size"]) == ("starting", "Slurm job 12", 4)
    assert cluster["step"] == "Slurm job 12 waits in the queue (Priority), 2 jobs before it"
    assert answer == Answer("1")
    assert slurm.cancelled == ["12"]
    assert state.now().cluster is None


def test_a_refusal_to_end_a_job_that_waits_reaches_the_panel_in_the_schedulers_words(
    slurm: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = KernelSessions()
    monkeypatch.setattr(current, "_sessions", sessions)
    job = job_of(slurm)
    slurm.answers = [Job("12", "x", "waiting")]
    answers: list[Answer] = []
    answered = threading.Event()

    def stop(_: str) -> None:
        slurm.refuses = "Slurm must take `scancel`. Received: not yours"
        Controls().take(Control("1", "k", "stop", {}), lambda answer: (answers.append(answer), answered.set()))

    with pytest.raises(ClusterStartFailed):
        sessions.wait_for(job, stop)
    assert answered.wait(20)
    assert answers[0].error == "Slurm must take `scancel`. Received: not yours"


def test_a_job_that_has_ended_can_be_cancelled_and_one_that_runs_is_told(slurm: FakeScheduler) -> None:
    job = job_of(slurm)
    slurm.refuses = "Slurm must take `scancel`. Received: Invalid job id specified"
    slurm.answers = [Job("12", "x", "ended", "TIMEOUT")]
    job.cancel()
    slurm.answers = [Job("12", "x", "running")]
    with pytest.raises(ClusterError, match="Invalid job id"):
        job.cancel()


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
    with pytest.raises(InvalidInput, match=r"A job's program takes the folder of its job\. Received: .*nothing"):
        serve(tmp_path / "nothing")


# --- how it ended ----------------------------------------------------------------------------------------------------


class Clock:
    """A clock that the test sets."""

    at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def next_of(self, events: Any, timeout_s: float) -> None: ...


def on_node(world_id: str = "w1", ending: Fault | None = None, folder: Path = Path("/x")) -> ClusterFolder:
    """Make the folder of a cluster on another host, whose lease does not live."""
    made = ClusterFolder("train", registry.here().with_name("node-b-0badcafe"))
    served = Served("slurm", "12", str(folder), "login", rebuild=True)
    made.create(replace(SPEC, served=served), {"world_id": world_id, "kernel_pid": 1})
    if ending is not None:
        made.write_ending(ending)
    return made


KILLED = Fault("lost", "rank", (1,), "node-b", 5.0, facts=Facts(signum=9))


def ending(folder: ClusterFolder, slurm: FakeScheduler) -> str:
    return describe(RemoteLease(folder, "w1", slurm, "12").ending())


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

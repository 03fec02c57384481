"""A job that brings ranks: its script, its folder and the wait for it; without a scheduler."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from fake_scheduler import ORDER, REQUEST, FakeScheduler, job_of

from jupyter_ddl.cluster import batch_job, jobs_known, serving, submission
from jupyter_ddl.cluster.batch_job import JobRanks
from jupyter_ddl.cluster.job_folder import submitted
from jupyter_ddl.cluster.spec import Served
from jupyter_ddl.cluster.submission import Wanted
from jupyter_ddl.errors import ClusterError, ClusterStartFailed, HostUnfit, InvalidInput
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.hub_link.controls import Controls
from jupyter_ddl.kernel.hub_link.state import State
from jupyter_ddl.kernel.kernel_sessions import KernelSessions
from jupyter_ddl.launch.profiles.limits import Allowed
from jupyter_ddl.launch.schedulers import slurm_queue
from jupyter_ddl.launch.schedulers.scheduler import Job
from jupyter_ddl.protocol.hub_messages import Answer, Control

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(60)


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
    said = r"Slurm must take `sbatch`\. Received: sbatch: error: invalid partition\. Change what it names, or ask the "
    with pytest.raises(ClusterError, match=said):
        slurm_queue.submit("#!/bin/bash\n")
    said = (
        r"Slurm must take `scancel`\. Received: scancel is not on PATH\. %ddl jobs lists the jobs that can be ended\."
    )
    with pytest.raises(ClusterError, match=said):
        slurm_queue.cancel("12")
    said = r"Received: squeue is not on PATH\. Use a login node on which `squeue` answers, or ask the site's staff\."
    with pytest.raises(ClusterError, match=said):
        slurm_queue.jobs()


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
        (Wanted(idle_stop="soon"), r"at least 1s, or never\. Received: --idle-stop soon\. Write 45s"),
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


@pytest.mark.usefixtures("runtime")
def test_a_job_has_what_its_profile_allows(
    slurm: FakeScheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    file = tmp_path / "jupyter_ddl.d" / "site.toml"
    file.parent.mkdir()
    limits = '{ranks = 4, clusters = 1, memory_per_rank = "8GB", idle_stop = "1h"}'
    file.write_text(f'[pair]\nlauncher = "slurm"\nlimits = {limits}\n')
    wanted = submission.wanted_of("pair", {"nodes": 2}, name="first", keep=True, rebuild=True)
    submission.submit(wanted)
    (folder,) = submitted()
    # A job ends with its time.
    allowed = Allowed("pair", str(file), ranks=4, memory_per_rank="8GB", clusters=1)
    assert folder.order().allowed == allowed
    spec = serving._spec(folder, "12")
    assert (spec.allowed, spec.idle_stop) == (allowed, None)
    assert spec.limits is not None
    assert "Each may hold 8GB of memory (the profile pair)." in spec.note
    # It is the user's one cluster, while it waits too.
    slurm.answers = [Job("12", "ddl-first", "waiting", "Priority")]
    with pytest.raises(InvalidInput, match=r"at most 1 cluster of a user at a time\. .* running: first \(job 12\)\."):
        submission.submit(replace(wanted, name="second"))
    slurm.answers = [None]
    submission.submit(replace(wanted, name="second"))


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

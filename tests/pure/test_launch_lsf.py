"""LSF's variables and commands, as its documentation shows them: none of it ran here against a real LSF."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from batch_commands import program

from jupyter_ddl.errors import ClusterError, InvalidInput
from jupyter_ddl.host import mpi
from jupyter_ddl.launch import mpi_job
from jupyter_ddl.launch.on_host import on_host
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.launch.schedulers import known, lsf, lsf_queue
from jupyter_ddl.launch.schedulers.scheduler import JobRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LSF = lsf.Lsf()
TWO = (HostSlots("nodea", 2), HostSlots("nodeb", 2))


def answers(folder: Path, monkeypatch: pytest.MonkeyPatch, **record: str) -> None:
    fields = {"JOBID": "12", "JOB_NAME": "ranks", "STAT": "RUN", "EXEC_HOST": "2*nodea:2*nodeb", "TIME_LEFT": "0:59 L"}
    printed = json.dumps({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [{**fields, **record}]})
    program(folder, "bjobs", f"cat <<'END'\n{printed}\nEND")
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("variables", "hosts"),
    [
        ({"LSB_MCPU_HOSTS": "nodea 2 nodeb 2 "}, TWO),
        ({"LSB_HOSTS": "nodea nodea nodeb nodeb"}, TWO),
        # The batch script's host computes nothing.
        ({"LSB_MCPU_HOSTS": "batch1 1 nodea 2 nodeb 2"}, TWO),
        # All have one slot: the first is one of them.
        ({"LSB_HOSTS": "nodea nodeb"}, (HostSlots("nodea", 1), HostSlots("nodeb", 1))),
    ],
)
def test_a_job_is_taken_with_its_slots(variables: Mapping[str, str], hosts: tuple[HostSlots, ...]) -> None:
    place = known.place_of_job({"LSB_JOBID": "12", **variables})
    assert place is not None
    assert (place.kind, place.job, place.hosts) == ("lsf", "12", hosts)


def test_the_file_of_hosts_comes_first(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("batch1\nnodea\nnodea\nnodeb\nnodeb\n")
    place = LSF.place_of_job({"LSB_JOBID": "1", "LSB_DJOB_HOSTFILE": str(tmp_path / "hosts"), "LSB_HOSTS": "other"})
    assert place is not None
    assert place.hosts == TWO


def test_outside_of_a_job_and_on_its_only_host() -> None:
    assert LSF.place_of_job({}) is None
    assert LSF.place_of_job({"LSB_JOBID": "12"}) is None
    assert LSF.place_of_job({"LSB_JOBID": "12", "LSB_HOSTS": "localhost localhost"}) is None


@pytest.mark.parametrize(
    ("variables", "received"),
    [
        ({"LSB_MCPU_HOSTS": "nodea 2 nodeb"}, "LSB_MCPU_HOSTS=nodea 2 nodeb"),
        ({"LSB_MCPU_HOSTS": "nodea two"}, "LSB_MCPU_HOSTS=nodea two"),
        ({"LSB_DJOB_HOSTFILE": "/no/such"}, "LSB_DJOB_HOSTFILE=/no/such"),
    ],
)
def test_variables_that_lsf_does_not_write(variables: Mapping[str, str], received: str) -> None:
    with pytest.raises(InvalidInput, match=rf"as LSF writes them\. Received: {received}"):
        LSF.place_of_job({"LSB_JOBID": "12", **variables})


def test_daemons_are_started_by_blaunch_or_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("lsf", TWO, job="12")
    found = mpi.find_mpi()
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("PRTE_MCA_plm_ssh_agent", "OMPI_MCA_plm_rsh_agent"):
        monkeypatch.delenv(variable, raising=False)
    assert on_host(place, "nodea", "true", connect_s=3)[:1] == ["ssh"]
    assert mpi_job.launch_environment(found, 4, place, mpi_job.Network())["PRTE_MCA_plm_ssh_agent"].startswith("ssh -o")
    program(tmp_path, "blaunch", "true")
    assert on_host(place, "nodea", "true", connect_s=3) == ["blaunch", "-no-shell", "nodea", "/bin/sh", "-c", "true"]
    assert mpi_job.launch_environment(found, 4, place, mpi_job.Network())["PRTE_MCA_plm_ssh_agent"] == "blaunch"
    command = mpi_job.launch_command(found, 4, place, {"OWN": "1"})
    assert "nodea:2,nodeb:2" in command
    assert command[-2:] == ["-x", "OWN"] or "OWN" in command


def test_the_script_of_a_job() -> None:
    request = JobRequest(
        "ranks", 2, 4, "out.txt", "/home/me", "1:30:30", "gpuq", 8, 4, "proj", ("-x",), ("module load cuda",)
    )
    assert LSF.script(request, ["python", "-c", "a b"]).splitlines() == [
        "#!/bin/bash",
        "#BSUB -J ranks",
        "#BSUB -n 8",
        '#BSUB -R "span[ptile=4]"',
        "#BSUB -o out.txt",
        "#BSUB -cwd /home/me",
        '#BSUB -R "affinity[core(8)]"',
        "#BSUB -W 1:31",
        '#BSUB -gpu "num=4"',
        "#BSUB -q gpuq",
        "#BSUB -P proj",
        "#BSUB -x",
        "",
        "module load cuda",
        "exec python -c 'a b'",
    ]


def test_a_job_is_submitted_and_refused_in_lsf_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "bsub", f"cat >{tmp_path}/given; echo 'Job <12> is submitted to queue <normal>.'")
    assert LSF.submit("#!/bin/bash\n") == "12"
    assert (tmp_path / "given").read_text() == "#!/bin/bash\n"
    program(tmp_path, "bsub", "echo 'gpuq: No such queue. Job not submitted.' >&2; exit 255")
    with pytest.raises(ClusterError, match=r"LSF must take `bsub`\. Received: gpuq: No such queue"):
        LSF.submit("")
    program(tmp_path, "bsub", "echo Welcome")
    with pytest.raises(ClusterError, match=r"LSF must name the job that it takes\. Received: Welcome"):
        LSF.submit("")


def test_what_is_told_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(tmp_path, monkeypatch)
    job = LSF.job("12")
    assert job is not None
    assert (job.id, job.name, job.state, job.nodes) == ("12", "ranks", "running", ("nodea", "nodeb"))
    assert job.ends_at_s == pytest.approx(time.time() + 59 * 60, abs=60)
    answers(tmp_path, monkeypatch, STAT="PEND", PEND_REASON="New job is waiting for scheduling;", EXEC_HOST="")
    waiting = LSF.job("12")
    assert waiting is not None
    assert (waiting.state, waiting.reason, waiting.nodes) == ("waiting", "New job is waiting for scheduling;", ())
    assert LSF.jobs() == [waiting]


# The columns of bqueues; PEND counts tasks.
QUEUE = """QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP
gpuq             30  Open:Active       -    -    -    -    22    {pend}    12     0
"""


def queue(folder: Path, pend: int | None, expected: str | None) -> None:
    """Let bjobs and bqueues tell of a queue in which job 12 waits; None where they refuse."""
    waiting = [("9", "PEND", "2"), ("11", "PSUSP", "8"), ("10", "PEND", ""), ("12", "PEND", "4"), ("13", "PEND", "1")]
    shown = [{"JOBID": job, "STAT": stat, "MIN_REQ_PROC": tasks} for job, stat, tasks in waiting]
    (folder / "bjobs").rename(folder / "bjobs-of-a-job")
    refuses = "echo 'Unknown field name' >&2; exit 255"
    start = json.dumps({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [{"ESTIMATED_SIM_START_TIME": expected}]})
    told = refuses if expected is None else f"echo '{start}'"
    others = json.dumps({"COMMAND": "bjobs", "JOBS": 5, "RECORDS": shown})
    program(
        folder,
        "bjobs",
        'case "$*" in\n'
        f"'-json -o estimated_sim_start_time 12') {told};;\n"
        f"'-json -o jobid stat min_req_proc -p -u all -q gpuq') echo '{others}';;\n"
        f'*) exec {folder}/bjobs-of-a-job "$@";;\nesac',
    )
    program(folder, "bqueues", refuses if pend is None else f"cat <<'END'\n{QUEUE.format(pend=pend)}END")


@pytest.mark.parametrize(
    ("pend", "ahead"),
    [
        (8, 2),
        # It counts a job that is shown no more.
        (7, 2),
        # Others' jobs are not shown.
        (30, None),
        (None, None),
    ],
)
def test_a_jobs_place_is_that_in_which_bjobs_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pend: int | None, ahead: int | None
) -> None:
    answers(tmp_path, monkeypatch, STAT="PEND", EXEC_HOST="", QUEUE="gpuq")
    queue(tmp_path, pend, None)
    job = LSF.job("12")
    assert job is not None
    assert (job.ahead, job.starts_at_s) == (ahead, None)


@pytest.mark.parametrize("expected", ["Nov 25 14:02:07 2026", "Nov 25 14:02 2026", "-", ""])
def test_when_lsf_expects_a_job_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: str) -> None:
    answers(tmp_path, monkeypatch, STAT="PEND", EXEC_HOST="", QUEUE="gpuq")
    queue(tmp_path, 8, expected)
    job = LSF.job("12")
    assert job is not None
    at_s = time.mktime((2026, 11, 25, 14, 2, 0, 0, 0, -1))
    assert job.starts_at_s == (at_s if "2026" in expected else None)


def test_a_time_without_a_year_is_the_next_one() -> None:
    now_s = time.mktime((2026, 12, 31, 23, 0, 0, 0, 0, -1))
    assert lsf_queue._next_time("Dec 31 23:30", now_s) == now_s + 1800
    assert lsf_queue._next_time("Dec 31 22:30 L", now_s) == now_s - 1800
    assert lsf_queue._next_time("Jan  1 00:30", now_s) == now_s + 5400


def test_no_job_is_no_error_and_a_silent_lsf_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "bjobs", "echo 'Job <13> is not found' >&2; exit 255")
    assert LSF.job("13") is None
    program(tmp_path, "bjobs", "echo 'No unfinished job found' >&2; exit 255")
    assert LSF.jobs() == []
    program(tmp_path, "bjobs", "echo 'LSF is down. Please wait ...' >&2; exit 255")
    for ask in (LSF.jobs, lambda: LSF.job("12")):
        with pytest.raises(ClusterError, match="LSF is down"):
            ask()
    assert LSF.end_of("12") is None
    program(tmp_path, "bjobs", "echo no JSON")
    with pytest.raises(ClusterError, match=r"LSF must answer `bjobs -json` in JSON\. Received: 'no JSON"):
        LSF.jobs()


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("TERM_OWNER: job killed by owner", "CANCELLED"),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit", "TIMEOUT"),
        ("TERM_PREEMPT: job killed after preemption", "PREEMPTED"),
        ("TERM_SWAP: job killed after reaching LSF swap usage limit", "TERM_SWAP"),
        ("", None),
    ],
)
def test_how_a_job_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str, end: str | None) -> None:
    answers(tmp_path, monkeypatch, STAT="EXIT", EXIT_REASON=reason)
    assert LSF.end_of("12") == end


def test_a_job_is_cancelled_and_a_host_may_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "bkill", f"echo $1 >{tmp_path}/ended")
    LSF.cancel("12")
    assert (tmp_path / "ended").read_text() == "12\n"
    assert LSF.refusal("blaunch: host nodex is not in the job") == "blaunch: host nodex is not in the job"
    assert LSF.refusal("Traceback ...") is None

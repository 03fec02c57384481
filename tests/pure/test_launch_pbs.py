"""PBS's variables and commands, as its documentation shows them: none of it ran here against a real PBS."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from batch_commands import program

from jupyter_ddl.errors import ClusterError, InvalidInput
from jupyter_ddl.launch.place import HostSlots
from jupyter_ddl.launch.schedulers import known, pbs
from jupyter_ddl.launch.schedulers.scheduler import JobRequest

if TYPE_CHECKING:
    from pathlib import Path

ID = "12.server"
PBS = pbs.Pbs()


def record(**changes: object) -> dict[str, object]:
    """Return what `qstat -x -f -F json` tells of a job."""
    return {
        "Job_Name": "ranks",
        "job_state": "R",
        "comment": "Job run at Wed Nov 25 at 02:14 on (nodea:ncpus=2)+(nodeb:ncpus=2)",
        "exec_host": "nodea/0*2+nodeb/1*2",
        "stime": "Wed Nov 25 02:14:03 2026",
        "Resource_List": {"walltime": "01:00:00", "nodect": 2},
        **changes,
    }


def answers(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    printed = json.dumps({"pbs_version": "23.06.06", "Jobs": {ID: record(**changes)}})
    program(folder, "qstat", f"cat <<'END'\n{printed}\nEND")
    program(folder, "qselect", f"echo {ID}")
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.parametrize(
    ("lines", "hosts"),
    [
        ("nodea\nnodea\nnodeb\nnodeb\n", (HostSlots("nodea", 2), HostSlots("nodeb", 2))),
        # Torque's order, and names with a domain.
        ("a.site.edu\nb.site.edu\na.site.edu\n", (HostSlots("a.site.edu", 2), HostSlots("b.site.edu", 1))),
    ],
)
def test_a_job_is_taken_with_its_slots(tmp_path: Path, lines: str, hosts: tuple[HostSlots, ...]) -> None:
    (tmp_path / "nodes").write_text(lines)
    place = known.place_of_job({"PBS_JOBID": ID, "PBS_NODEFILE": str(tmp_path / "nodes")})
    assert place is not None
    assert (place.kind, place.job, place.hosts) == ("pbs", ID, hosts)


def test_outside_of_a_job_and_on_its_only_node(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("localhost\nlocalhost\n")
    assert PBS.place_of_job({}) is None
    assert PBS.place_of_job({"PBS_JOBID": ID}) is None
    assert PBS.place_of_job({"PBS_JOBID": ID, "PBS_NODEFILE": str(tmp_path / "nodes")}) is None


def test_a_file_of_nodes_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"in its file of nodes\. Received: PBS_NODEFILE=.*No such file.*Unset PBS"):
        PBS.place_of_job({"PBS_JOBID": ID, "PBS_NODEFILE": str(tmp_path / "none")})


def test_the_script_of_a_job() -> None:
    request = JobRequest(
        "ranks", 2, 4, "out.txt", "/home/me/my work", "1:30", "gpuq", 8, 4, "proj", ("-m n",), ("module load cuda",)
    )
    assert PBS.script(request, ["python", "-c", "a b"]).splitlines() == [
        "#!/bin/bash",
        "#PBS -N ranks",
        "#PBS -l select=2:ncpus=32:mpiprocs=4:ngpus=4",
        "#PBS -o out.txt",
        "#PBS -j oe",
        "#PBS -l walltime=01:30:00",
        "#PBS -q gpuq",
        "#PBS -A proj",
        "#PBS -m n",
        "",
        "cd '/home/me/my work' || exit 1",
        "module load cuda",
        "exec python -c 'a b'",
    ]
    with pytest.raises(InvalidInput, match=r"A job's time is HOURS:MINUTES\. Received: 'long'"):
        PBS.script(JobRequest("a", 1, 1, "o", ".", "long"), ["true"])


def test_a_job_is_submitted_and_refused_in_pbs_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "qsub", f"cat >{tmp_path}/given; echo {ID}")
    assert PBS.submit("#!/bin/bash\n") == ID
    assert (tmp_path / "given").read_text() == "#!/bin/bash\n"
    program(tmp_path, "qsub", "echo 'qsub: Unknown queue' >&2; exit 170")
    with pytest.raises(ClusterError, match=r"PBS must take `qsub`\. Received: qsub: Unknown queue"):
        PBS.submit("")


def test_what_is_told_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(tmp_path, monkeypatch)
    job = PBS.job(ID)
    assert job is not None
    assert (job.id, job.name, job.state, job.nodes) == (ID, "ranks", "running", ("nodea", "nodeb"))
    assert job.starts_at_s is not None
    assert job.ends_at_s == job.starts_at_s + 3600
    assert PBS.jobs() == [job]
    answers(
        tmp_path, monkeypatch, job_state="Q", comment="Not Running: Insufficient amount of resource: ncpus", stime=None
    )
    waiting = PBS.job(ID)
    assert waiting is not None
    assert (waiting.state, waiting.reason, waiting.ends_at_s) == (
        "waiting",
        "Not Running: Insufficient amount of resource: ncpus",
        None,
    )


# As `qstat -T -w` prints it: running jobs first, then by the estimated start, those without one last.
TABLE = """
server:
                                                                             Est
                                                                 Req'd  Req'd   Start
Job ID          Username Queue    Jobname         SessID NDS TSK Memory Time  S Time
--------------- -------- -------- --------------- ------ --- --- ------ ----- - -----
7.server        ann      gpuq     other           123455   2  16    --  01:00 R --
15.server       ann      gpuq     other               --   2  16    --  01:00 Q Today 15:34
9.server        bob      gpuq     A Q 12              --   2  16    --  01:00 Q Wed Feb 10 2027 15:34
12.server       me       gpuq     ranks               --   2  16    --  01:00 Q Fe 10
13.server       me       gpuq     held                --   2  16    --  01:00 H --
8.server        me       gpuq     late                --   2  16    --  01:00 Q ?
"""


def queue(folder: Path, table: str | None) -> None:
    """Let `qstat -T` print a table, or refuse; any other call of qstat stays as it is."""
    (folder / "qstat").rename(folder / "qstat-of-a-job")
    said = "echo 'qstat: Unauthorized Request' >&2; exit 159" if table is None else f"cat <<'END'\n{table}\nEND"
    test = '[ "$1 $2 $3" = "-T -w gpuq" ]'
    program(folder, "qstat", f'{test} || exec {folder}/qstat-of-a-job "$@"\n{said}')


@pytest.mark.parametrize(
    ("start", "table", "ahead", "is_expected"),
    [
        ("Wed Nov 25 23:10:00 2026", TABLE, 2, True),
        ("Wed Nov 25 23:10:00 2026", TABLE.replace("12.server", "14.server"), None, True),
        ("Wed Nov 25 23:10:00 2026", None, None, True),
        ("UNKNOWN", TABLE, None, False),
        (None, TABLE, None, False),
    ],
)
def test_a_jobs_place_is_that_of_its_estimated_start(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    start: str | None,
    table: str | None,
    ahead: int | None,
    is_expected: bool,
) -> None:
    changes: dict[str, object] = {"job_state": "Q", "queue": "gpuq", "stime": None, "exec_host": None}
    if start is not None:
        changes["estimated"] = {"exec_vnode": "(nodea:ncpus=2)+(nodeb:ncpus=2)", "start_time": start}
    answers(tmp_path, monkeypatch, **changes)
    queue(tmp_path, table)
    job = PBS.job(ID)
    assert job is not None
    assert job.ahead == ahead
    assert (job.starts_at_s is not None) == is_expected


def test_a_job_that_runs_has_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(tmp_path, monkeypatch, estimated={"start_time": "Wed Nov 25 02:20:00 2026"}, queue="gpuq")
    queue(tmp_path, TABLE)
    job = PBS.job(ID)
    assert job is not None
    assert job.ahead is None
    assert job.ends_at_s == (job.starts_at_s or 0) + 3600


def test_an_unknown_job_is_none_and_a_silent_server_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "qstat", "echo 'qstat: Unknown Job Id 13.server' >&2; exit 153")
    assert PBS.job("13.server") is None
    program(tmp_path, "qstat", "echo 'Connection refused' >&2; exit 111")
    with pytest.raises(ClusterError, match="Connection refused"):
        PBS.job(ID)
    assert PBS.end_of(ID) is None
    program(tmp_path, "qstat", "echo no JSON")
    with pytest.raises(ClusterError, match=r"PBS must answer `qstat -F json` in JSON\. Received: 'no JSON"):
        PBS.job(ID)


@pytest.mark.parametrize(
    ("status", "used", "end"),
    [
        (271, "00:10:00", "CANCELLED"),
        (265, "00:10:00", "CANCELLED"),
        (271, "01:00:02", "TIMEOUT"),
        (0, "00:10:00", None),
        (1, "01:00:02", None),
    ],
)
def test_how_a_job_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, used: str, end: str | None
) -> None:
    answers(tmp_path, monkeypatch, job_state="F", Exit_status=status, resources_used={"walltime": used})
    assert PBS.end_of(ID) == end


def test_a_job_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "qdel", f"echo $1 >{tmp_path}/ended")
    PBS.cancel(ID)
    assert (tmp_path / "ended").read_text() == f"{ID}\n"

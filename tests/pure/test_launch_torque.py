"""Torque's form of PBS, as its source and manuals show it: none of it ran here against a real Torque."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from batch_commands import program

from jupyter_ddl import paths
from jupyter_ddl.engine import devices
from jupyter_ddl.export import scripts
from jupyter_ddl.export.order import ExportFolder
from jupyter_ddl.host import mpi
from jupyter_ddl.host.topology import Gpu
from jupyter_ddl.launch import mpi_job
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.launch.schedulers import known, pbs, torque
from jupyter_ddl.launch.schedulers.scheduler import JobRequest

if TYPE_CHECKING:
    from pathlib import Path

PBS = pbs.Pbs()
ID = "12.server"
VERSION = "echo 'Version: 6.1.3' >&2; echo 'Commit: 69e0e4b' >&2"
REQUEST = JobRequest("ranks", 2, 4, "out.txt", "/home/me", "1:30", "gpuq", 8, 4, "proj", ("-m n",), ("module load a",))
# What `qstat -f -1` prints: one line an attribute, times as ctime writes them.
RECORD = """Job Id: 12.server
    Job_Name = ranks
    Job_Owner = me@login.site.edu
    resources_used.walltime = {used}
    job_state = {state}
    queue = gpuq
    exec_host = nodea/0-3+nodeb/0-3
    Resource_List.nodes = 2:ppn=4:gpus=4
    Resource_List.walltime = 01:00:00
    comment = Job started on Wed Nov 25 at 02:14
    exit_status = {status}
    start_time = Wed Nov 25 02:14:03 2026

"""
OTHER = RECORD.format(used="00:00:10", state="C", status=0).replace("12.server", "11.server")


@pytest.fixture(autouse=True)
def qsub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program(tmp_path, "qsub", f'[ "$1" = --version ] || exit 9\n{VERSION}')


def answers(folder: Path, state: str = "R", used: str = "00:10:00", status: int = 0) -> None:
    said = RECORD.format(state=state, used=used, status=status)
    program(
        folder,
        "qstat",
        f"case \"$*\" in\n'-f -1 12.server') cat <<'END'\n{said}\nEND\n;;\n"
        f"'-f -1 11.server 12.server') cat <<'END'\n{OTHER}{said}\nEND\n;;\n"
        '*) echo "qstat: Unknown Job Id Error $3" >&2; exit 153;;\nesac',
    )
    program(folder, "qselect", "echo 11.server; echo 12.server")


@pytest.mark.parametrize(
    ("prints", "is_torque"),
    [
        (VERSION, True),
        # Torque 2.
        ("echo 'version: 2.4.16' >&2", True),
        ("echo 'pbs_version = 23.06.06'", False),
        ("echo 'qsub: unrecognized option' >&2; exit 1", False),
    ],
)
def test_torque_is_known_by_its_version(tmp_path: Path, prints: str, is_torque: bool) -> None:
    program(tmp_path, "qsub", prints)
    assert torque.is_here() == is_torque


def test_without_qsub_there_is_no_torque(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert not torque.is_here()


def test_the_script_of_a_job() -> None:
    assert PBS.script(REQUEST, ["python", "-c", "a b"]).splitlines() == [
        "#!/bin/bash",
        "#PBS -N ranks",
        "#PBS -l nodes=2:ppn=32:gpus=4",
        "#PBS -o out.txt",
        "#PBS -j oe",
        "#PBS -l walltime=01:30:00",
        "#PBS -q gpuq",
        "#PBS -A proj",
        "#PBS -m n",
        "",
        "cd /home/me || exit 1",
        "export JUPYTER_DDL_RANKS_PER_NODE=4",
        "module load a",
        "exec python -c 'a b'",
    ]
    assert "#PBS -l nodes=1:ppn=2\n" in PBS.script(JobRequest("a", 1, 2, "o", "."), ["true"])


def test_the_script_of_a_sweep(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path / "export")
    text = scripts.batch_script(folder, PBS, REQUEST, 3)
    assert "#PBS -t 0-2" in text.splitlines()
    assert "-J 0-2" not in text
    assert scripts.output_of(folder, PBS, 3) == str(folder.path)
    assert scripts.point_of({"PBS_ARRAYID": "2"}) == 2
    program(tmp_path, "qsub", "echo 'pbs_version = 23.06.06'")
    assert "#PBS -J 0-2" in scripts.batch_script(folder, PBS, REQUEST, 3).splitlines()


def test_what_is_told_of_a_job(tmp_path: Path) -> None:
    answers(tmp_path)
    job = PBS.job(ID)
    assert job is not None
    assert (job.id, job.name, job.state, job.nodes) == (ID, "ranks", "running", ("nodea", "nodeb"))
    assert job.ends_at_s == (job.starts_at_s or 0) + 3600
    # Torque's qselect names the ended one too.
    assert PBS.jobs() == [job]
    assert PBS.job("13.server") is None
    answers(tmp_path, state="Q")
    waiting = PBS.job(ID)
    assert waiting is not None
    assert (waiting.state, waiting.ahead, waiting.ends_at_s) == ("waiting", None, None)


@pytest.mark.parametrize(
    ("status", "used", "end"),
    [
        (271, "00:10:00", "CANCELLED"),
        (271, "01:00:02", "TIMEOUT"),
        (-11, "01:00:02", "TIMEOUT"),
        (-10, "00:10:00", "OUT_OF_MEMORY"),
        (0, "00:10:00", None),
    ],
)
def test_how_a_job_ended(tmp_path: Path, status: int, used: str, end: str | None) -> None:
    answers(tmp_path, state="C", used=used, status=status)
    assert PBS.end_of(ID) == end


def job_of(folder: Path, gpus: str | None, **more: str) -> dict[str, str]:
    """Return the variables of a job of two nodes with four processors each, and make its files."""
    (folder / "nodes").write_text("nodea.site.edu\n" * 4 + "nodeb.site.edu\n" * 4)
    if gpus is not None:
        (folder / "gpus").write_text(gpus)
    named = {"PBS_JOBID": ID, "PBS_NODEFILE": str(folder / "nodes"), "PBS_GPUFILE": str(folder / "gpus")}
    return {**named, "PBS_VERSION": "TORQUE-6.1.3", **more}


GPUS = "nodea-gpu0\nnodea-gpu3\nnodeb-gpu1\nnodeb-gpu2\n"


@pytest.mark.parametrize(
    ("gpus", "more", "slots"),
    [
        (None, {}, 4),
        ("", {}, 4),
        # One rank a GPU.
        (GPUS, {}, 2),
        # Our own job's script says it.
        (GPUS, {"JUPYTER_DDL_RANKS_PER_NODE": "1"}, 1),
        (None, {"JUPYTER_DDL_RANKS_PER_NODE": "2"}, 2),
        (None, {"JUPYTER_DDL_RANKS_PER_NODE": "many"}, 4),
    ],
)
def test_a_job_is_taken_with_its_slots(tmp_path: Path, gpus: str | None, more: dict[str, str], slots: int) -> None:
    place = known.place_of_job(job_of(tmp_path, gpus, **more))
    assert place is not None
    assert place.hosts == (HostSlots("nodea.site.edu", slots), HostSlots("nodeb.site.edu", slots))


def gpu(index: int) -> Gpu:
    return Gpu(index, f"GPU-{index}", "NVIDIA H100", 80 << 30, mig=False)


def test_ranks_take_the_gpus_of_their_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in job_of(tmp_path, f"{GPUS}no line of Torque's\n").items():
        monkeypatch.setenv(name, value)
    place = Place("pbs", (HostSlots("nodea", 2), HostSlots("nodeb", 2)), job=ID)
    found = mpi.find_mpi()
    variables = mpi_job.launch_environment(found, 4, place, mpi_job.Network())
    assert json.loads(variables[paths.JOB_GPUS_VARIABLE]) == {"nodea": ["0", "3"], "nodeb": ["1", "2"]}
    assert paths.JOB_GPUS_VARIABLE in mpi_job.launch_command(found, 4, place, variables)

    monkeypatch.setenv(paths.JOB_GPUS_VARIABLE, variables[paths.JOB_GPUS_VARIABLE])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "list_gpus", lambda: tuple(gpu(index) for index in range(4)))
    monkeypatch.setattr("socket.gethostname", lambda: "nodea.site.edu")
    assert devices.of_this_host(2, oversubscribe=False) == [gpu(0).device, gpu(3).device]
    # The site shows a job its own GPUs alone, numbered again.
    monkeypatch.setattr(devices, "list_gpus", lambda: tuple(gpu(index) for index in range(2)))
    assert devices.of_this_host(2, oversubscribe=False) == [gpu(0).device, gpu(1).device]
    # A host that the file does not name.
    monkeypatch.setattr("socket.gethostname", lambda: "other")
    monkeypatch.setattr(devices, "list_gpus", lambda: tuple(gpu(index) for index in range(4)))
    assert len(devices.of_this_host(4, oversubscribe=False)) == 4

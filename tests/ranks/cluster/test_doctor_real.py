"""The doctor, and build-horovod's look around, on the MPI, TensorFlow and Horovod that are really here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from ranks.kernel import Kernel

from jupyter_ddl.doctor.allreduce import check_allreduce
from jupyter_ddl.host.mpi import find_mpi
from jupyter_ddl.paths import HOROVOD_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

COMMAND = "import sys; from jupyter_ddl.cli import main; sys.exit(main())"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


# All of TensorFlow that a look at what is installed needs: its import costs 4.5 s.
SMALL_TENSORFLOW = """
__version__ = "2.18.0"
class version: GIT_VERSION = "v2.18.0"
class sysconfig: get_build_info, get_compile_flags = dict, list
class test: is_built_with_cuda = bool
"""


@pytest.fixture
def small_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a TensorFlow without CUDA that is imported at once."""
    (tmp_path / "tensorflow.py").write_text(SMALL_TENSORFLOW)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


@pytest.fixture
def broken_horovod(small_tensorflow: None, tmp_path: Path) -> Path:
    """A folder with a Horovod that does not import, as one is after TensorFlow was upgraded."""
    (tmp_path / "horovod").mkdir()
    (tmp_path / "horovod" / "__init__.py").write_text("raise ImportError('undefined symbol: _ZN10tensorflow')\n")
    return tmp_path


def test_all_is_well_here() -> None:
    finished = run("doctor", "--json")
    report = json.loads(finished.stdout)
    problems = [check for check in report["checks"] if check["status"] == "problem"]
    assert not problems
    assert finished.returncode == 0
    assert report["ok"] is True
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["Horovod"]["facts"]["mpi"] is True
    assert "2 ranks on" in checks["Allreduce"]["text"]


@pytest.mark.slow
def test_a_second_notebook_asks_while_ranks_run(notebook: Kernel) -> None:
    busy = notebook.run("import time; time.sleep(2); rank", "--async")
    assert busy.error is None
    second = Kernel()
    try:
        told = second.execute("%ddl doctor", timeout_s=120)
    finally:
        second.stop()
    assert told.error is None
    assert re.search(r"ok +Clusters +.*\bnotebook-2 \(2 ranks on cores\)", told.text)
    assert re.search(r"ok +Allreduce +2 ranks on CPU cores summed a tensor", told.text)
    assert "No problems: cells can train." in told.text
    assert notebook.run("rank + 1").error is None


def test_a_broken_horovod_is_a_problem_with_a_remedy(broken_horovod: Path) -> None:
    finished = run("doctor", **{HOROVOD_VARIABLE: str(broken_horovod)})
    assert finished.returncode == 1
    assert "problem  Horovod        cannot be imported: ImportError: undefined symbol" in finished.stdout
    assert "-> Run: jupyter ddl build-horovod" in finished.stdout
    assert "problem  Allreduce      not run" in finished.stdout
    assert finished.stdout.endswith("2 problems.\n")


def test_ranks_that_fail_are_told_by_their_error(broken_horovod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOROVOD_VARIABLE, str(broken_horovod))
    check = check_allreduce(find_mpi(), gpus=())
    assert check.status == "problem"
    assert "ImportError: undefined symbol: _ZN10tensorflow" in check.text


def test_ranks_that_hang_are_ended() -> None:
    check = check_allreduce(find_mpi(), gpus=(), timeout_s=0.5)
    assert check.status == "problem"
    assert check.text == "2 ranks on CPU cores did not finish in 0.5 s"
    assert not [child for child in psutil.Process().children(recursive=True) if "mpi" in child.name()]


@pytest.mark.slow
def test_a_horovod_that_works_is_left_alone() -> None:
    finished = run("build-horovod", "--gpu", "none")
    assert finished.returncode == 0
    assert "works and is left alone (TensorFlow" in finished.stdout


def test_nccl_without_cuda_is_refused_with_all_that_it_takes(small_tensorflow: None, tmp_path: Path) -> None:
    nowhere = str(tmp_path)
    finished = run("build-horovod", "--gpu", "nccl", "--force", CUDA_HOME=nowhere, NCCL_HOME=nowhere, PATH=nowhere)
    assert finished.returncode == 1
    assert finished.stderr.startswith("jupyter ddl: --gpu nccl takes a TensorFlow built for CUDA, nvcc, and NCCL.")
    assert "nvcc (install the CUDA toolkit" in finished.stderr


def test_an_environment_without_mpi(tmp_path: Path) -> None:
    finished = run("build-horovod", JUPYTER_DDL_MPIEXEC=str(tmp_path / "mpiexec"))
    assert finished.returncode == 1
    assert "JUPYTER_DDL_MPIEXEC must name an executable file." in finished.stderr

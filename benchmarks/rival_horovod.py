"""Stock Horovod on the last TensorFlow that it supports, in a virtual environment of its own.

It is made on first use, in jupyter_ddl's cache folder, and takes minutes: TensorFlow's download, Horovod's compilation.
Horovod is built from the same sdist, with the same compiler, options and MPI as ours, but unedited.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.training_sides import Environment
from jupyter_ddl import paths
from jupyter_ddl.horovod_build.sdist import VERSION
from jupyter_ddl.horovod_build.toolchain import BUILD_PACKAGES
from jupyter_ddl.horovod_build.wheel import compile_jobs
from jupyter_ddl.host import mpi
from jupyter_ddl.host.cores import memory_limit_bytes, usable_cores
from jupyter_ddl.host.private_folders import private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TENSORFLOW = "2.15.1"
PYTHONS = ("python3.11", "python3.10", "python3.9")
"""Those that this TensorFlow has wheels for."""

_BUILD = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITHOUT_GLOO": "1",
    "HOROVOD_WITHOUT_NVTX": "1",
}


class NotAvailable(Exception):
    """This machine cannot have it; the text says why."""


def environment() -> Environment:
    """Return the environment, made if it is not there yet.

    Raises:
        NotAvailable: there is no Python for it, or a step of making it failed.
    """
    name, python = _find_python()
    ours = mpi.find_mpi()
    bench = private_folder(paths.cache_dir() / "bench", variable=paths.CACHE_VARIABLE)
    folder = bench / f"horovod-{VERSION}-tensorflow-{TENSORFLOW}-{name}-{ours.flavour}-{ours.version}-{ours.source}"
    # Written last: a folder without it was left half made.
    complete = folder / "complete"
    if not complete.exists():
        _make(folder, python, ours)
        complete.touch()
    return Environment(folder / "bin" / "python", _mpi_of(folder, ours))


def _find_python() -> tuple[str, str]:
    """Return the first of PYTHONS that is here and can make virtual environments, by name and place."""
    for name in PYTHONS:
        own = f"python{sys.version_info.major}.{sys.version_info.minor}" == name
        found = sys.executable if own else shutil.which(name)
        # A version manager leaves names on PATH behind which there is nothing.
        works = found and subprocess.run([found, "-c", "import ensurepip"], capture_output=True, check=False)
        if found and works and works.returncode == 0:
            return name, found
    raise NotAvailable(f"TensorFlow {TENSORFLOW} takes one of {', '.join(PYTHONS)}, and none is on PATH")


def _make(folder: Path, python: str, ours: mpi.Mpi) -> None:
    log = folder.parent / f"{folder.name}.log"
    print(f"  making {folder} (once; some minutes; log: {log})", file=sys.stderr, flush=True)
    log.unlink(missing_ok=True)
    _step([python, "-m", "venv", "--clear", str(folder)], log)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    # A system's MPI serves both; pip's belongs to one environment.
    wheel = [f"{ours.flavour}=={ours.version}"] if ours.source == "wheel" else []
    # TensorFlow for CPUs only: the same code without half a gigabyte for GPUs.
    _step([*pip, f"tensorflow-cpu=={TENSORFLOW}", "cloudpickle", "psutil", "pyyaml", "mpi4py", *wheel], log)
    _step([*pip, *BUILD_PACKAGES, "cmake<4"], log)
    folders = [str(folder / "bin"), str(ours.mpiexec.parent), os.environ.get("PATH", os.defpath)]
    variables = {
        **_BUILD,
        "PATH": os.pathsep.join(folders),
        "MAKEFLAGS": f"-j{compile_jobs(usable_cores(), memory_limit_bytes())}",
    }
    build = ["--verbose", "--no-build-isolation", "--no-deps", "--no-binary", "horovod", f"horovod=={VERSION}"]
    _step([*pip, *build], log, variables)


def _step(command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None) -> None:
    """Run one step; what it prints goes into the log.

    Raises:
        NotAvailable: it failed.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    with log.open("a") as sink:
        step = subprocess.run(
            command, env={**kept, **(variables or {})}, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, check=False
        )
    if step.returncode:
        raise NotAvailable(f"`{' '.join(command)}` failed; {log} says why")


def _mpi_of(folder: Path, ours: mpi.Mpi) -> mpi.Mpi:
    """Return the MPI that Horovod was built with there: a system's, or the copy of pip's in the folder."""
    if ours.source == "system" or ours.library is None:
        return ours
    inside = ours.library.relative_to(Path(sys.prefix))
    return replace(ours, mpiexec=folder / "bin" / "mpiexec", mpicxx=None, library=folder / inside)

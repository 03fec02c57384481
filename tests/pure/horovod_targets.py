"""Targets of a Horovod build for the tests: what would be found on a machine with Open MPI, and maybe CUDA."""

from __future__ import annotations

from pathlib import Path

from jupyter_ddl.horovod_build.facts import HorovodFacts, TensorFlowFacts
from jupyter_ddl.horovod_build.nccl import Cuda, Nccl, Nvcc
from jupyter_ddl.horovod_build.target import Target
from jupyter_ddl.host.mpi import Mpi

CUDA = Cuda(
    Nvcc(Path("/opt/cuda"), "12.5", (80, 90)),
    Nccl(Path("/opt/nccl/include"), Path("/opt/nccl/lib/libnccl.so"), "2.27.3"),
)


def make_tensorflow(version: str = "2.21.0", *, cuda_version: str | None = None) -> TensorFlowFacts:
    return TensorFlowFacts(version, f"v{version}", ("-D_GLIBCXX_USE_CXX11_ABI=1", "--std=c++17"), cuda_version)


def make_mpi(version: str = "5.0.11", *, mpicxx: bool = True, library: str | None = "/opt/mpi/lib/libmpi.so.40") -> Mpi:
    return Mpi(
        mpiexec=Path("/opt/mpi/bin/mpiexec"),
        mpicxx=Path("/opt/mpi/bin/mpicxx") if mpicxx else None,
        flavour="openmpi",
        version=version,
        source="system",
        library=Path(library) if library else None,
    )


def make_target(
    tensorflow_version: str = "2.21.0",
    mpi_version: str = "5.0.11",
    *,
    cuda: Cuda | None = None,
    folder: Path | None = None,
    library: str = "/opt/mpi/lib/libmpi.so.40",
) -> Target:
    return Target(make_tensorflow(tensorflow_version), make_mpi(mpi_version, library=library), cuda, folder)


def make_horovod(
    version: str = "0.28.1",
    *,
    mpi: bool = True,
    nccl: bool = False,
    mpi_library: str | None = "/opt/mpi/lib/libmpi.so.40.30.7",
    tensorflow: str | None = "2.21.0",
) -> HorovodFacts:
    library = Path(mpi_library) if mpi_library else None
    return HorovodFacts(version, Path("/opt/site-packages"), mpi, nccl, library, tensorflow)

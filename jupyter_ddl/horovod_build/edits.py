"""What Horovod 0.28.1's sources need before they compile against TensorFlow 2.16 and newer.

Each edit replaces a text that must be there exactly as written: sources that differ are refused, not half patched.
Counting up `PATCH_VERSION` makes every cached wheel stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PATCH_VERSION = 4

MPICXX_VARIABLE = "JUPYTER_DDL_MPICXX"
"""The environment variable through which the edited CMakeLists.txt is told which MPI to build with."""
NCCL_VARIABLE = "JUPYTER_DDL_NCCL"
"""The same for NCCL's library, in FindNCCL.cmake."""


@dataclass(frozen=True)
class Edit:
    """One replacement in one file of the sources.

    Attributes:
        path: the file, relative to the root of the sources.
        old: the text to replace; it must occur exactly once.
        new: what stands there afterwards.
        why: what goes wrong without it.
    """

    path: str
    old: str
    new: str
    why: str


EDITS: tuple[Edit, ...] = (
    Edit(
        path="horovod/tensorflow/CMakeLists.txt",
        old='list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        new="",
        why="The XLA kernels include headers that TensorFlow moved in 2.16 and no longer ships in full.",
    ),
    Edit(
        path="CMakeLists.txt",
        old="    find_package(MPI ${MPI_REQUIRED})\n",
        new=f'    set(MPI_CXX_COMPILER "$ENV{{{MPICXX_VARIABLE}}}" CACHE FILEPATH "of the MPI that starts the ranks")\n'
        "    find_package(MPI ${MPI_REQUIRED})\n",
        why="CMake would take the first mpicxx on PATH, which need not be the MPI whose mpiexec starts the ranks.",
    ),
    Edit(
        path="cmake/Modules/FindNCCL.cmake",
        old="find_library(NCCL_LIBRARY\n        NAMES ${NCCL_LIBNAME}\n",
        new=f'set(NCCL_LIBRARY "$ENV{{{NCCL_VARIABLE}}}" CACHE FILEPATH "libnccl")\n'
        "find_library(NCCL_LIBRARY\n        NAMES ${NCCL_LIBNAME}\n",
        why="pip's NCCL has libnccl.so.2 alone, and CMake looks for libnccl.so.",
    ),
    Edit(
        path="horovod/tensorflow/mpi_ops.cc",
        old="""\
// Forward declaration of AsGpuStreamValue
namespace stream_executor {
namespace gpu {
GpuStreamHandle AsGpuStreamValue(Stream* stream);
} // namespace stream_executor
} // namespace gpu
#if TENSORFLOW_VERSION >= 2011000000
#include "tensorflow/compiler/xla/stream_executor/stream.h"
#else
#include "tensorflow/stream_executor/stream.h"
#endif // TENSORFLOW_VERSION >= 2011000000
""",
        new="""\
#include "xla/stream_executor/stream.h"
namespace stream_executor {
namespace gpu {
inline GpuStreamHandle AsGpuStreamValue(Stream* stream) {
  return static_cast<GpuStreamHandle>(stream->platform_specific_handle().stream);
}
} // namespace gpu
} // namespace stream_executor
""",
        why="TensorFlow no longer has AsGpuStreamValue, and stream.h moved; the stream itself says its CUDA handle.",
    ),
    Edit(
        path="horovod/tensorflow/mpi_ops.cc",
        old="""\
REGISTER_OP("HorovodJoin")
    .Output("output: int32")
""",
        new="""\
REGISTER_OP("HorovodJoin")
    .SetIsStateful()
    .Output("output: int32")
""",
        why="TensorFlow keeps the answer of an operation without inputs: the second hvd.join() would not wait (2.21).",
    ),
    Edit(
        path="horovod/common/parameter_manager.cc",
        old="""\
    ResetBayes();
  } else {
    Eigen::VectorXd v = TunableParameter::BestValue();
""",
        new="""\
    ResetBayes();
  } else if (fixed_values_.find(variable) == fixed_values_.end()) {
    Eigen::VectorXd v = TunableParameter::BestValue();
""",
        why="With HOROVOD_CYCLE_TIME and HOROVOD_FUSION_THRESHOLD set, the second hvd.init() of a process writes past "
        "a vector's end, and with the first alone it sets the other to 1 MB; ranks initialise Horovod for each cell.",
    ),
    Edit(
        path="horovod/common/operations.cc",
        old="""\
    horovod_global.shut_down = false;
    horovod_global.initialization_done = false;
  }
""",
        new="""\
    horovod_global.initialization_done = false;
    horovod_global.shut_down = false;
  }
""",
        why="Between the two, a Horovod that had ended took a collective, which then waited for ever: TensorFlow folds "
        "one of constants in a thread of its own, and once more after it has failed.",
    ),
)


def apply(sources: Path, edits: Sequence[Edit] = EDITS) -> None:
    """Apply the edits to unpacked sources, in place.

    Args:
        sources: the root of the unpacked sdist.
        edits: what to replace.

    Raises:
        BuildError: a file lacks the text that an edit replaces, or has it more than once.
    """
    for edit in edits:
        file = sources / edit.path
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        found = text.count(edit.old)
        if found != 1:
            raise BuildError(
                f"An edit's text must stand exactly once in Horovod's {edit.path}.",
                f"it stands there {found} times: {edit.old.strip().splitlines()[0]!r}",
                "Upgrade jupyter_ddl: these are not the Horovod sources that it was written for.",
            )
        file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")

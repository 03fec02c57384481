"""Edits Horovod 0.28.1's sources so that they compile against TensorFlow 2.16 and newer, and shut down safely.

Each edit replaces a text that must be there exactly as written: sources that differ are refused, not half patched.
Counting up `PATCH_VERSION` makes every cached wheel stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import BuildError
from jupyter_ddl.paths import MPICXX_VARIABLE, NCCL_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PATCH_VERSION = 7


@dataclass(frozen=True)
class Edit:
    """One replacement in one file of the sources.

    Attributes:
        path: the file, relative to the root of the sources.
        old: the text to replace; it must occur exactly once.
        new: the replacement.
        why: what goes wrong without it.
    """

    path: str
    old: str
    new: str
    why: str


_CLOSED_QUEUE = (
    "A thread that found Horovod running just before it ended, and looked for its end just after all was over, queued "
    "a collective that no thread took: one of about 1,000 shutdowns beside a thread that runs collectives hung it."
)
_HALF_ADDED = (
    "A process set that only some ranks have added was negotiated about at the end of Horovod, with ranks that know "
    "nothing of it: horovod_shutdown never came back where a cell had waited in add_process_set for the others."
)
_MISSED_END = (
    "It looks every millisecond, and where the whole shutdown falls between two looks it waited for ever; the process "
    "set it looked at is gone by then, too."
)
_CUT_JOIN = (
    "A rank whose hvd.join() was cut short stayed joined in the next life of Horovod: it took part in the first "
    "collective with a tensor that was gone, and ended with signal 11; and the coordinator waited for too few ranks."
)
_FLAGS = "CMAKE_CXX_FLAGS_RELWITHDEBINFO"
_OPTIMIZED = f'string(REPLACE "-O2" "-O3" {_FLAGS} "${{{_FLAGS}}}")\n'
EDITS: tuple[Edit, ...] = (
    Edit(
        path="horovod/tensorflow/CMakeLists.txt",
        old='list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        new="",
        why="The XLA kernels include headers that TensorFlow moved in 2.16 and no longer ships in full.",
    ),
    Edit(
        path="horovod/tensorflow/CMakeLists.txt",
        old="add_library(${TF_TARGET_LIB} SHARED ${SOURCES} ${TF_SOURCES})\n",
        new="add_library(${TF_TARGET_LIB} SHARED ${TF_SOURCES} ${SOURCES})\n",
        why="make compiles in this order, and one core waited at the end for mpi_ops.cc, the longest of all.",
    ),
    Edit(
        path="CMakeLists.txt",
        old=_OPTIMIZED,
        new=f'{_OPTIMIZED}string(REPLACE "-g " "" {_FLAGS} "${{{_FLAGS}}}")\n',
        why="Debugging information was nine tenths of the library, and a part of the time that it compiles.",
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
    Edit(
        path="horovod/common/tensor_queue.h",
        old="""\
  TensorQueue() = default;
""",
        new="""\
  TensorQueue() = default;
  void Open() {
    std::lock_guard<std::mutex> guard(mutex_);
    is_closed_ = false;
  }
""",
        why=_CLOSED_QUEUE,
    ),
    Edit(
        path="horovod/common/tensor_queue.h",
        old="""\
  mutable std::mutex mutex_;
""",
        new="""\
  mutable std::mutex mutex_;
  bool is_closed_ = false;
""",
        why=_CLOSED_QUEUE,
    ),
    Edit(
        path="horovod/common/tensor_queue.cc",
        old="""\
  std::lock_guard<std::mutex> guard(mutex_);
  if (tensor_table_.find(e.tensor_name) != tensor_table_.end()) {
""",
        new="""\
  std::lock_guard<std::mutex> guard(mutex_);
  if (is_closed_) {
    return SHUT_DOWN_ERROR;
  }
  if (tensor_table_.find(e.tensor_name) != tensor_table_.end()) {
""",
        why=_CLOSED_QUEUE,
    ),
    Edit(
        path="horovod/common/tensor_queue.cc",
        old="""\
  std::lock_guard<std::mutex> guard(mutex_);

  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (tensor_table_""",
        new="""\
  std::lock_guard<std::mutex> guard(mutex_);
  if (is_closed_) {
    return SHUT_DOWN_ERROR;
  }

  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (tensor_table_""",
        why=_CLOSED_QUEUE,
    ),
    Edit(
        path="horovod/common/tensor_queue.cc",
        old="""\
  std::lock_guard<std::mutex> guard(mutex_);
  for (auto& e : tensor_table_) {
""",
        new="""\
  std::lock_guard<std::mutex> guard(mutex_);
  is_closed_ = true;
  for (auto& e : tensor_table_) {
""",
        why=_CLOSED_QUEUE,
    ),
    Edit(
        path="horovod/common/process_set.cc",
        old="""\
  Get(0).Initialize(global_context);
""",
        new="""\
  Get(0).tensor_queue.Open();
  Get(0).joined = false;
  Get(0).joined_size = 0;
  Get(0).last_joined_rank = -1;
  Get(0).Initialize(global_context);
""",
        why=f"{_CLOSED_QUEUE} {_CUT_JOIN}",
    ),
    Edit(
        path="horovod/common/process_set.cc",
        old="""\
    LOG(TRACE, Get(0).controller->GetRank())
        << "Finalizing ProcessSetTable, process set id: " << id;
""",
        new="""\
    if (!Get(id).initialization_done) {
      DeregisterProcessSet(id);
      continue;
    }
    LOG(TRACE, Get(0).controller->GetRank())
        << "Finalizing ProcessSetTable, process set id: " << id;
""",
        why=_HALF_ADDED,
    ),
    Edit(
        path="horovod/common/operations.cc",
        old="""\
    if (process_set->initialization_done) {
      return id;
    }
    if (horovod_global.shut_down) {
      return HOROVOD_PROCESS_SET_ERROR_SHUTDOWN;
    }
""",
        new="""\
    if (horovod_global.shut_down || !horovod_global.initialization_done) {
      return HOROVOD_PROCESS_SET_ERROR_SHUTDOWN;
    }
    {
      std::lock_guard<std::recursive_mutex> table_lock(
          horovod_global.process_set_table.mutex);
      if (!horovod_global.process_set_table.Contains(id)) {
        return HOROVOD_PROCESS_SET_ERROR_SHUTDOWN;
      }
      if (horovod_global.process_set_table.Get(id).initialization_done) {
        return id;
      }
    }
""",
        why=_MISSED_END,
    ),
    Edit(
        path="horovod/common/operations.cc",
        old="""\
      return process_set_id;
    }
    if (horovod_global.shut_down) {
      return HOROVOD_PROCESS_SET_ERROR_SHUTDOWN;
    }
""",
        new="""\
      return process_set_id;
    }
    if (horovod_global.shut_down || !horovod_global.initialization_done) {
      return HOROVOD_PROCESS_SET_ERROR_SHUTDOWN;
    }
""",
        why=_MISSED_END,
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

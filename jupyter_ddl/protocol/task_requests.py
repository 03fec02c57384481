"""Defines what `jupyter_ddl.parallel_backend` asks of a rank that serves joblib's tasks, and the rank's answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jupyter_ddl.protocol.codec import Int64, Wire


@dataclass(frozen=True)
class RunTask(Wire):
    """Run the task that is pickled in the message's buffer, in the cell that serves tasks; answer with TaskEnded.

    It may come before that cell has begun.

    Attributes:
        serving: identifies the cell, which has it too.
        task: the task's number.
    """

    type: ClassVar[str] = "run_task"
    serving: str
    task: Int64


@dataclass(frozen=True)
class KeepArray(Wire):
    """Keep the message's buffer in a file of the host, which tasks on all of its ranks read.

    Where that fails, it is answered with TaskEnded, for the task -1.

    Attributes:
        serving: as of RunTask.
        folder: where, in the folder of temporary files.
        name: the file's.
    """

    type: ClassVar[str] = "keep_array"
    serving: str
    folder: str
    name: str


@dataclass(frozen=True)
class DropArrays(Wire):
    """Remove the large arrays of tasks from the host.

    Attributes:
        folder: as of KeepArray.
    """

    type: ClassVar[str] = "drop_arrays"
    folder: str


@dataclass(frozen=True)
class EndTasks(Wire):
    """End the cell that serves tasks, when it has run those that came before.

    Attributes:
        serving: the cell, as of RunTask.
    """

    type: ClassVar[str] = "end_tasks"
    serving: str


@dataclass(frozen=True)
class TaskEnded(Wire):
    """A rank's answer to RunTask, with what the task returned, or raised, pickled in the message's buffer.

    Attributes:
        serving: as of RunTask.
        task: which; -1 where an array could not be kept.
        rank: whose answer.
        traceback: of what the task raised, on the rank; None where it returned.
    """

    type: ClassVar[str] = "task_ended"
    serving: str
    task: Int64
    rank: Int64
    traceback: str | None = None

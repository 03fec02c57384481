"""Makes the script that runs an export: a batch job, an array of them for a sweep, or a plain one for this host."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_ddl.host import run_module
from jupyter_ddl.launch.schedulers import torque

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_ddl.export.order import ExportFolder
    from jupyter_ddl.launch.schedulers.scheduler import JobRequest, Scheduler


@dataclass(frozen=True)
class _Array:
    """How a scheduler is asked for an array of jobs.

    Attributes:
        with_points: adds to a request what makes it an array of this many.
        variable: has the number of a job within it.
        first: the number of the first job.
        output: what the name of the file of a job's output has in place of its number; empty where the scheduler names
            the files itself, and takes a folder.
    """

    with_points: Callable[[JobRequest, int], JobRequest]
    variable: str
    first: int
    output: str


def _with_option(option: str) -> Callable[[JobRequest, int], JobRequest]:
    return lambda request, count: replace(request, options=(*request.options, option.format(last=count - 1)))


_TORQUE = "torque"
# Sources: sbatch(1), --array; PBS Professional 2022 User's Guide, 9.4; Torque's qsub(1B), -t; LSF 10.1, "Job arrays".
ARRAYS: Mapping[str, _Array] = {
    "slurm": _Array(_with_option("--array=0-{last}"), "SLURM_ARRAY_TASK_ID", 0, "-%a"),
    "pbs": _Array(_with_option("-J 0-{last}"), "PBS_ARRAY_INDEX", 0, ""),
    _TORQUE: _Array(_with_option(torque.ARRAY_OPTION), torque.ARRAY_VARIABLE, 0, ""),
    "lsf": _Array(
        lambda request, count: replace(request, name=f'"{request.name}[1-{count}]"'), "LSB_JOBINDEX", 1, "-%I"
    ),
}


def point_of(variables: Mapping[str, str]) -> int:
    """Return which point of a sweep a job is for, by its variables; 0 in one that is no part of an array."""
    for array in ARRAYS.values():
        text = variables.get(array.variable, "")
        if text.isascii() and text.isdigit():
            return max(0, int(text) - array.first)
    return 0


def output_of(folder: ExportFolder, scheduler: Scheduler, count: int) -> str:
    """Return the file, or the folder, of what the jobs print."""
    array = _array_of(scheduler)
    if count > 1 and not array.output:
        return str(folder.path)
    return str(folder.path / f"job{array.output if count > 1 else ''}.log")


def batch_script(folder: ExportFolder, scheduler: Scheduler, request: JobRequest, count: int) -> str:
    """Return the script of the job, or of the array of jobs, that runs an export.

    Args:
        folder: of the export.
        scheduler: takes it.
        request: what is asked for.
        count: the points of the sweep; 1 without.

    Raises:
        InvalidInput: the request breaks a rule.
    """
    asked = _array_of(scheduler).with_points(request, count) if count > 1 else request
    return scheduler.script(asked, _command(folder))


def _array_of(scheduler: Scheduler) -> _Array:
    return ARRAYS[_TORQUE if scheduler.kind == "pbs" and torque.is_here() else scheduler.kind]


def plain_script(folder: ExportFolder, count: int, setup: Sequence[str] = ()) -> str:
    """Return a script that runs an export on this host, one point after the other.

    It ends with the status of the last one that failed.
    """
    lines = ["#!/bin/bash", "# Made by jupyter ddl export.", *setup]
    command = shlex.join(_command(folder))
    if count == 1:
        return "\n".join([*lines, f"exec {command}", ""])
    loop = f'for point in $(seq 0 {count - 1}); do\n    {command} --point "$point" || status=$?\ndone'
    return "\n".join([*lines, "status=0", loop, "exit $status", ""])


def _command(folder: ExportFolder) -> Sequence[str]:
    return run_module.command("jupyter_ddl.cli", "execute", str(folder.path))

"""Torque's own form of PBS: how it is known, how resources are requested, and what its jobs and nodes are called.

Torque has PBS's commands and most of its variables. It takes `-l nodes=2:ppn=4:gpus=4` and no `select`, arrays by `-t`,
and prints no JSON. Checked against its source and recordings, not against a Torque that runs.
Source: adaptivecomputing/torque 6.1: doc/man1/qsub.1.in, doc/man1/qstat.1.in, src/cmds/qsub_functions.c (--version),
src/cmds/qstat.c (-f -1), src/resmom/start_exec.c (PBS_GPUFILE).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.launch.schedulers.job_nodes import ranks_per_node_of
from jupyter_ddl.launch.schedulers.queue_commands import all_that_prints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.schedulers.scheduler import JobRequest

GPU_FILE = "PBS_GPUFILE"
ARRAY_OPTION, ARRAY_VARIABLE = "-t 0-{last}", "PBS_ARRAYID"
_FILE_BYTES = 1 << 20
# "Version: 6.1.3" and "Commit: ..." where PBS prints "pbs_version = 23.06.06".
_VERSION = re.compile(r"^version: ", re.IGNORECASE | re.MULTILINE)
_JOB = re.compile(r"Job Id: (\S+)")
_ATTRIBUTE = re.compile(r" +([A-Za-z_][\w.]*) = (.*)")
_GPU = re.compile(r"(\S+)-gpu(\d{1,5})")
# Torque's attributes, and PBS's names for them.
_NAMES = {"start_time": "stime", "exit_status": "Exit_status"}
# The limits that Torque says it has ended a job for. Source: src/include/pbs_job.h, JOB_EXEC_OVERLIMIT_*.
ENDS = {"-10": "OUT_OF_MEMORY", "-11": "TIMEOUT", "-12": "TIMEOUT"}


def is_here() -> bool:
    """Return whether this machine's `qsub` is Torque's."""
    return _VERSION.search(all_that_prints(["qsub", "--version"])) is not None


def resources(request: JobRequest) -> str:
    """Return what `-l` takes for a job's nodes: Torque counts processors, and knows no ranks."""
    cores = request.ranks_per_node * (request.cores_per_rank or 1)
    gpus = f":gpus={request.gpus_per_node}" if request.gpus_per_node else ""
    return f"nodes={request.nodes}:ppn={cores}{gpus}"


def slots_on(host: str, lines: int, variables: Mapping[str, str]) -> int:
    """Return how many ranks a node of a job takes.

    Args:
        host: the node's name, as the file of nodes has it.
        lines: that it has there: one for each processor.
        variables: of the job.
    """
    said = ranks_per_node_of(variables)
    if said is not None:
        return min(said, lines)
    gpus = len(gpus_of(variables).get(short(host), ()))
    return min(gpus, lines) if gpus else lines


def gpus_of(variables: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the indices of a job's GPUs on each node, by the first part of its name; none without a file of them."""
    name = variables.get(GPU_FILE, "")
    if not name:
        return {}
    try:
        with Path(name).open(encoding="utf-8") as file:
            lines = file.read(_FILE_BYTES).split()
    except (OSError, UnicodeDecodeError):
        # A job without GPUs has none.
        return {}
    found: dict[str, list[str]] = {}
    for line in lines:
        if (gpu := _GPU.fullmatch(line)) is not None:
            found.setdefault(short(gpu[1]), []).append(gpu[2])
    return found


def short(host: str) -> str:
    """Return a host's name without its domain."""
    return host.partition(".")[0]


def records(printed: str) -> dict[str, dict[str, Any]]:
    """Return the jobs in what `qstat -f -1` printed, with the names that PBS's JSON has."""
    found: dict[str, dict[str, Any]] = {}
    record: dict[str, Any] = {}
    for line in printed.splitlines():
        if (head := _JOB.match(line)) is not None:
            record = found.setdefault(head[1], {})
        elif (attribute := _ATTRIBUTE.fullmatch(line)) is not None:
            table, _, name = attribute[1].partition(".")
            if name:
                record.setdefault(table, {})[name] = attribute[2]
            else:
                record[_NAMES.get(table, table)] = attribute[2]
    return found

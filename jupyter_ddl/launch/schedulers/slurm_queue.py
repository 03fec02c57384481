"""Slurm's queue: the script of a job, and sbatch, squeue and scancel.

Source: sbatch(1), squeue(1), scancel(1) of Slurm 22.05.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.launch.schedulers.node_names import expanded
from jupyter_ddl.launch.schedulers.queue_commands import call, wall_time
from jupyter_ddl.launch.schedulers.scheduler import Job

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.launch.schedulers.scheduler import JobRequest, State

# A job's name may hold anything, so it is the last field.
_FIELDS = "%i|%T|%r|%N|%S|%e|%P|%j"
_STATES: dict[str, State] = {
    "PENDING": "waiting",
    "REQUEUED": "waiting",
    "REQUEUE_HOLD": "waiting",
    "SPECIAL_EXIT": "waiting",
    "CONFIGURING": "waiting",
    "RUNNING": "running",
    "SUSPENDED": "running",
    "STOPPED": "running",
    "COMPLETING": "ending",
}


def script(request: JobRequest, command: Sequence[str]) -> str:
    """Return the script of a job that runs a command on its first node.

    Raises:
        InvalidInput: the time is not HOURS:MINUTES.
    """
    options = [
        f"--job-name={request.name}",
        f"--nodes={request.nodes}",
        f"--ntasks-per-node={request.ranks_per_node}",
        f"--output={request.output}",
        f"--chdir={request.folder}",
        # Of several lines that name a file the last counts: no other is opened after a requeue.
        "--open-mode=append",
    ]
    limit = wall_time(request)
    given = {
        "time": None if limit is None else "{:02d}:{:02d}:{:02d}".format(*limit),
        "partition": request.queue,
        "cpus-per-task": request.cores_per_rank,
        "gpus-per-node": request.gpus_per_node or None,
        "account": request.account,
    }
    options += [f"--{name}={value}" for name, value in given.items() if value is not None]
    lines = [f"#SBATCH {option}" for option in (*options, *request.options)]
    return "\n".join(["#!/bin/bash", *lines, "", *request.setup, f"exec {shlex.join(command)}", ""])


def submit(text: str) -> str:
    """Submit a job by its script; return its number.

    Raises:
        ClusterError: Slurm refuses it.
    """
    printed = _call(["sbatch", "--parsable"], text)
    return printed.strip().partition(";")[0]


def job(number: str) -> Job | None:
    """Return what Slurm knows of a job; None where it knows it no more.

    Raises:
        ClusterError: Slurm does not answer.
    """
    try:
        printed = _call(["squeue", "--noheader", "--states=all", f"--jobs={number}", f"--format={_FIELDS}"])
    except ClusterError as error:
        if "Invalid job id" in str(error):
            return None
        raise
    found = _jobs(printed)
    return found[0] if found else None


def jobs() -> list[Job]:
    """Return this user's jobs that wait or run.

    Raises:
        ClusterError: Slurm does not answer.
    """
    return _jobs(_call(["squeue", "--noheader", "--me", f"--format={_FIELDS}"]))


def cancel(number: str) -> None:
    """End a job, or take it from the queue.

    Raises:
        ClusterError: Slurm refuses.
    """
    _call(["scancel", number])


def _call(command: list[str], text: str = "") -> str:
    # Seconds since the epoch, and not a time in the site's zone and format.
    return call("Slurm", command, text, {"SLURM_TIME_FORMAT": "%s"})


def _jobs(printed: str) -> list[Job]:
    rows = [line.split("|", 7) for line in printed.splitlines()]
    return [_job(*row) for row in rows if len(row) == len(_FIELDS.split("|"))]


def _job(number: str, word: str, reason: str, nodes: str, start: str, end: str, partition: str, name: str) -> Job:
    state = _STATES.get(word, "ended")
    is_over = state in ("ending", "ended")
    return Job(
        number,
        name,
        state,
        word if is_over else "" if reason == "None" else reason,
        tuple(expanded(nodes)) if nodes and "(null)" not in nodes else (),
        _ahead(number, partition) if state == "waiting" else None,
        _seconds(start),
        _seconds(end) if state == "running" else None,
    )


def _ahead(number: str, partition: str) -> int | None:
    """Return how many jobs wait before one in its partition, by their priorities."""
    asked = _call(
        ["squeue", "--noheader", "--states=PENDING", f"--partition={partition}", "--sort=-p,i", "--format=%i"]
    )
    waiting = asked.split()
    return waiting.index(number) if number in waiting else None


def _seconds(text: str) -> float | None:
    return float(text) if text.isdecimal() else None

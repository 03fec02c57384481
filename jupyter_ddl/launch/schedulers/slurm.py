"""Slurm: the allocation that this process is in, and how a job of it ended.

`salloc` and `sbatch` describe the allocation; a step (`srun --pty`, batchspawner) has variables of the same names that
describe only itself, so what a step cannot change is preferred: `SLURM_JOB_*` and the options of the job.
Source: salloc(1) and srun(1), OUTPUT ENVIRONMENT VARIABLES.
"""

from __future__ import annotations

import re
import subprocess
import time
from typing import TYPE_CHECKING

from jupyter_ddl.launch.place import HostSlots
from jupyter_ddl.launch.schedulers import slurm_queue
from jupyter_ddl.launch.schedulers.job_nodes import job_place
from jupyter_ddl.launch.schedulers.node_names import NODES, expanded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.place import Kind, Place
    from jupyter_ddl.launch.schedulers.scheduler import Job, JobRequest

JOB = "SLURM_JOB_ID"
_ALIVE = ("CONFIGURING", "PENDING", "RUNNING", "SUSPENDED", "COMPLETED")
_ANSWER_S = 5.0
ENDING = "COMPLETING"
_ENDS_S = 10.0
_POLL_S = 0.25
# "2(x3),1" stands for 2, 2, 2, 1.
_COUNT = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")
_MOST_NODES = 100_000


class Slurm:
    """Slurm, by `srun` and `scontrol`."""

    kind: Kind = "slurm"
    title = "Slurm"

    def place_of_job(self, variables: Mapping[str, str]) -> Place | None:
        """Return the nodes of the allocation and how many tasks each takes; None outside of one, or on its only node.

        Raises:
            InvalidInput: the variables are not as Slurm writes them.
        """
        job, listed = variables.get(JOB, ""), variables.get(NODES, "")
        if not job or not listed:
            return None
        nodes = expanded(listed)
        tasks = _tasks_per_node(variables, len(nodes))
        return job_place(self.kind, job, tuple(HostSlots(*one) for one in zip(nodes, tasks, strict=True)))

    def agent(self, place: Place) -> None:
        """Return None: mpiexec reads the variables, and Slurm starts its daemons, with all variables."""

    def launch_variables(self, place: Place) -> dict[str, str]:
        """Return the variables by which mpiexec sees the whole allocation, also from within a step of it.

        Steps that are started within a step wait for it to end, unless they may overlap (Slurm 20.11 and later).
        """
        return {
            "SLURM_NTASKS": str(place.slots),
            "SLURM_NNODES": str(len(place.hosts)),
            "SLURM_NODELIST": ",".join(one.host for one in place.hosts),
            "SLURM_TASKS_PER_NODE": ",".join(str(one.slots) for one in place.hosts),
            "SLURM_OVERLAP": "1",
        }

    def on_node(self, place: Place, node: str) -> list[str]:
        """Return what to write before a command so that it runs once on a node of the allocation."""
        assert place.job is not None
        one = ["--nodes=1", "--ntasks=1", f"--nodelist={node}", "--cpus-per-task=1", "--cpu-bind=none"]
        # The survey uses no MPI, and a plugin for it could fail.
        return ["srun", f"--jobid={place.job}", "--overlap", "--mpi=none", "--export=ALL", "--quiet", *one]

    def script(self, request: JobRequest, command: Sequence[str]) -> str:
        """Return the script of a job that runs a command on its first node."""
        return slurm_queue.script(request, command)

    def submit(self, script: str) -> str:
        """Submit a job; return its number."""
        return slurm_queue.submit(script)

    def job(self, job: str) -> Job | None:
        """Return what Slurm knows of a job, for some minutes also after its end."""
        return slurm_queue.job(job)

    def jobs(self) -> Sequence[Job]:
        """Return this user's jobs that wait or run."""
        return slurm_queue.jobs()

    def cancel(self, job: str) -> None:
        """End a job, or take it from the queue."""
        slurm_queue.cancel(job)

    def refusal(self, said: str) -> str | None:
        """Return the line in which srun refuses; an error of the program that it ran is none."""
        is_own = "srun: error:" in said and "Traceback" not in said
        return next(line for line in said.splitlines() if "srun: error:" in line) if is_own else None

    def end_of(self, job: str) -> str | None:
        """Return the state in which Slurm ended a job, e.g. "CANCELLED" or "TIMEOUT"; None where it did not.

        A job that is being ended shows the reason only when its last process is gone, for which this waits some
        seconds. Slurm keeps what it knows of an ended job for some minutes.
        Source: scontrol(1), sacct(1), JOB STATE CODES.
        """
        deadline_s = time.monotonic() + _ENDS_S
        while (state := _state_of(job)) == ENDING and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        return None if state in _ALIVE else state


def _state_of(job: str) -> str | None:
    try:
        asked = subprocess.run(
            ["scontrol", "--oneliner", "show", "job", job],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWER_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        # Not on this node, or its controller is down.
        return None
    found = re.search(r"\bJobState=([A-Z_]+)", asked.stdout)
    return None if found is None else found[1]


def _tasks_per_node(variables: Mapping[str, str], nodes: int) -> list[int]:
    is_step = "SLURM_STEP_ID" in variables or "SLURM_STEPID" in variables
    if not is_step and (counts := _counts(variables.get("SLURM_TASKS_PER_NODE", ""), nodes)):
        return counts
    if counts := _counts(variables.get("SLURM_NTASKS_PER_NODE", ""), 1):
        return counts * nodes
    cores = _counts(variables.get("SLURM_JOB_CPUS_PER_NODE", ""), nodes) or [1] * nodes
    (per_task,) = _counts(variables.get("SLURM_CPUS_PER_TASK", ""), 1) or [1]
    return [max(1, count // per_task) for count in cores]


def _counts(text: str, wanted: int) -> list[int]:
    """Return the numbers in "2(x3),1"; none where they are not as many as wanted, or not above 0."""
    found = [_COUNT.fullmatch(part) for part in text.split(",")]
    counts = [int(one[1]) for one in found if one is not None for _ in range(min(int(one[2] or 1), _MOST_NODES))]
    return counts if None not in found and len(counts) == wanted and min(counts) > 0 else []

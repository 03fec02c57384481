"""PBS (OpenPBS, PBS Pro, Torque): the job that this process is in, by its variables and its file of nodes.

The file has a line for each slot: `select=2:mpiprocs=4` gives each node four. Torque's has one for each processor of
`nodes=2:ppn=4`: there a node takes a rank for each GPU that the job has on it, or as many as our own job's script says.
MPI's daemons are started over SSH, since the MPI that pip installs has no part for PBS's own way.
Source: PBS Professional User's Guide, "Environment Variables"; qsub(1B) of Torque.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.host_list import read_hostfile
from jupyter_ddl.launch.place import HostSlots
from jupyter_ddl.launch.schedulers import pbs_queue, torque
from jupyter_ddl.launch.schedulers.job_nodes import job_place
from jupyter_ddl.paths import JOB_GPUS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.place import Kind, Place
    from jupyter_ddl.launch.schedulers.scheduler import Job, JobRequest

JOB = "PBS_JOBID"
NODE_FILE = "PBS_NODEFILE"


class Pbs:
    """PBS, with SSH between the nodes of a job."""

    kind: Kind = "pbs"
    title = "PBS"

    def place_of_job(self, variables: Mapping[str, str]) -> Place | None:
        """Return the nodes of the job and how many ranks each takes; None outside of one, or on its only node.

        Raises:
            InvalidInput: its file of nodes cannot be read.
        """
        job, nodes = variables.get(JOB, ""), variables.get(NODE_FILE, "")
        if not job or not nodes:
            return None
        try:
            hosts = read_hostfile(Path(nodes))
        except InvalidInput as error:
            raise InvalidInput(
                "A PBS job's nodes must be in its file of nodes.",
                f"{NODE_FILE}={nodes}: {error.received}",
                f"Unset {JOB} to start ranks on this host, or name the hosts with -H.",
            ) from error
        return job_place(
            self.kind,
            job,
            tuple(HostSlots(one.host, torque.slots_on(one.host, one.slots, variables)) for one in hosts),
        )

    def agent(self, place: Place) -> str:
        """Return SSH, over which MPI starts its daemons."""
        return place.ssh

    def launch_variables(self, place: Place) -> dict[str, str]:  # noqa: ARG002  mpiexec gets the nodes by name
        """Return the job's GPUs on each node where Torque names them, for the ranks; mpiexec gets the nodes by name."""
        gpus = torque.gpus_of(os.environ)
        return {JOB_GPUS_VARIABLE: json.dumps(gpus)} if gpus else {}

    def on_node(self, place: Place, node: str) -> None:
        """Return None: a node is reached over SSH."""

    def refusal(self, said: str) -> None:
        """Return None: SSH says what is wrong."""

    def script(self, request: JobRequest, command: Sequence[str]) -> str:
        """Return the script of a job that runs a command on its first node."""
        return pbs_queue.script(request, command)

    def submit(self, script: str) -> str:
        """Submit a job; return its id."""
        return pbs_queue.submit(script)

    def job(self, job: str) -> Job | None:
        """Return what PBS knows of a job, also after its end where the site keeps that."""
        return pbs_queue.job(job)

    def jobs(self) -> Sequence[Job]:
        """Return this user's jobs that wait or run."""
        return pbs_queue.jobs()

    def cancel(self, job: str) -> None:
        """End a job, or take it from the queue."""
        pbs_queue.cancel(job)

    def end_of(self, job: str) -> str | None:
        """Return how PBS ended a job, in Slurm's word for it; None where it did not, or that is not known."""
        return pbs_queue.end_of(job)

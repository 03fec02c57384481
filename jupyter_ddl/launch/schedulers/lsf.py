"""LSF: the job that this process is in, by its variables and its file of hosts.

The MPI that pip installs knows nothing of LSF, and would start all ranks on the host of the batch script: it gets the
hosts by name, and starts its daemons by `blaunch`, LSF's own remote shell, or SSH where there is none. Where a
profile or `--launcher` says so, jsrun starts the ranks (`launch.jsrun`).
Source: IBM Spectrum LSF 10.1, "Environment variables set for job execution"; blaunch command reference.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.host_list import read_hostfile
from jupyter_ddl.launch.place import JSRUN, HostSlots
from jupyter_ddl.launch.schedulers import lsf_queue
from jupyter_ddl.launch.schedulers.job_nodes import job_place, ranks_per_node_of
from jupyter_ddl.paths import LAUNCHER_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.place import Kind, Place
    from jupyter_ddl.launch.schedulers.scheduler import Job, JobRequest

JOB = "LSB_JOBID"
BLAUNCH = "blaunch"
HOST_FILE, COUNTED, LISTED = "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"


class Lsf:
    """LSF, with blaunch or SSH between the hosts of a job."""

    kind: Kind = "lsf"
    title = "LSF"

    def place_of_job(self, variables: Mapping[str, str]) -> Place | None:
        """Return the hosts of the job and how many ranks each takes; None outside of one, or on its only host.

        Raises:
            InvalidInput: the variables are not as LSF writes them.
        """
        job = variables.get(JOB, "")
        if not job:
            return None
        hosts = _without_launch_host(_hosts(variables))
        each = ranks_per_node_of(variables)
        if each is not None:
            hosts = tuple(HostSlots(one.host, min(each, one.slots)) for one in hosts)
        place = job_place(self.kind, job, hosts) if hosts else None
        is_by_jsrun = place is not None and variables.get(LAUNCHER_VARIABLE) == JSRUN
        return replace(place, launcher=JSRUN) if place is not None and is_by_jsrun else place

    def agent(self, place: Place) -> str:
        """Return blaunch where it is there, else SSH."""
        return BLAUNCH if shutil.which(BLAUNCH) else place.ssh

    def launch_variables(self, place: Place) -> dict[str, str]:  # noqa: ARG002  mpiexec gets the hosts by name
        """Return none: mpiexec gets the hosts by name."""
        return {}

    def on_node(self, place: Place, node: str) -> list[str] | None:  # noqa: ARG002  a job reaches only its own hosts
        """Return what to write before a command so that it runs once on a host of the job; None for SSH."""
        return [BLAUNCH, "-no-shell", node] if shutil.which(BLAUNCH) else None

    def refusal(self, said: str) -> str | None:
        """Return the line in which blaunch refuses."""
        return next((line for line in said.splitlines() if "blaunch:" in line or "lsb_launch" in line), None)

    def script(self, request: JobRequest, command: Sequence[str]) -> str:
        """Return the script of a job that runs a command on its first host."""
        return lsf_queue.script(request, command)

    def submit(self, script: str) -> str:
        """Submit a job; return its number."""
        return lsf_queue.submit(script)

    def job(self, job: str) -> Job | None:
        """Return what LSF knows of a job, for an hour or so also after its end."""
        return lsf_queue.job(job)

    def jobs(self) -> Sequence[Job]:
        """Return this user's jobs that wait or run."""
        return lsf_queue.jobs()

    def cancel(self, job: str) -> None:
        """End a job, or take it from the queue."""
        lsf_queue.cancel(job)

    def end_of(self, job: str) -> str | None:
        """Return how LSF ended a job, in Slurm's word for it; None where it did not, or that is not known."""
        return lsf_queue.end_of(job)


def _hosts(variables: Mapping[str, str]) -> tuple[HostSlots, ...]:
    """Return the hosts with their slots, from the first of LSF's three ways to say them that is there."""
    if file := variables.get(HOST_FILE, ""):
        try:
            return read_hostfile(Path(file))
        except InvalidInput as error:
            raise _unreadable(f"{HOST_FILE}={file}: {error.received}") from error
    if counted := variables.get(COUNTED, "").split():
        names, counts = counted[::2], counted[1::2]
        if len(names) != len(counts) or not all(count.isdecimal() and int(count) > 0 for count in counts):
            raise _unreadable(f"{COUNTED}={variables[COUNTED][:200]}")
        return tuple(HostSlots(name, int(count)) for name, count in zip(names, counts, strict=True))
    listed = variables.get(LISTED, "").split()
    return tuple(HostSlots(name, listed.count(name)) for name in dict.fromkeys(listed))


def _without_launch_host(hosts: tuple[HostSlots, ...]) -> tuple[HostSlots, ...]:
    """Return the hosts without the one that only runs the batch script: the first, with one slot, before larger ones.

    Source: horovod/runner/util/lsf.py, 0.28.1; ORNL's Summit user guide, "Launch and login nodes".
    """
    first, *others = hosts or (None,)
    is_launch_host = first is not None and first.slots == 1 and others and min(one.slots for one in others) > 1
    return tuple(others) if is_launch_host else hosts


def _unreadable(received: str) -> InvalidInput:
    return InvalidInput(
        "LSF's variables must be as LSF writes them.",
        received,
        f"Unset {JOB} to start ranks on this host, or name the hosts with -H.",
    )

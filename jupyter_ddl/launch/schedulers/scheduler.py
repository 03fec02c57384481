"""Defines what a batch scheduler does for us, in words that are the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from jupyter_ddl.launch.place import MPIEXEC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.place import Kind, Launcher, Place

State = Literal["waiting", "running", "ending", "ended"]


@dataclass(frozen=True)
class Job:
    """What a scheduler says of a job.

    Attributes:
        id: as the scheduler names it.
        name: as its owner named it.
        state: in our words.
        reason: why it waits or how it ended, in the scheduler's words, e.g. "Priority" or "CANCELLED"; empty where it
            says nothing.
        nodes: where it runs; empty before.
        ahead: the jobs that wait in its queue before it; None where that is not known.
        starts_at_s: when it started, or is expected to, in seconds since the epoch; None where that is not known.
        ends_at_s: when its wall time is over, likewise.
    """

    id: str
    name: str
    state: State
    reason: str = ""
    nodes: tuple[str, ...] = ()
    ahead: int | None = None
    starts_at_s: float | None = None
    ends_at_s: float | None = None


@dataclass(frozen=True)
class JobRequest:
    """What a job is asked for with.

    Attributes:
        name: of the job.
        nodes: how many.
        ranks_per_node: the tasks on each.
        time: the wall time as HOURS:MINUTES or HOURS:MINUTES:SECONDS; None for the queue's own.
        queue: the partition or queue; None for the site's own.
        cores_per_rank: None for the site's own.
        gpus_per_node: 0 for none.
        account: to be charged; None for the user's own.
        options: the scheduler's own, each as one line of the script has it, e.g. "--constraint=a100".
        output: the file for what the job prints.
        folder: in which it works.
        setup: lines of shell before the program, e.g. "module load cuda".
        launcher: what starts the ranks in it: "mpiexec", or LSF's "jsrun".
    """

    name: str
    nodes: int
    ranks_per_node: int
    output: str
    folder: str
    time: str | None = None
    queue: str | None = None
    cores_per_rank: int | None = None
    gpus_per_node: int = 0
    account: str | None = None
    options: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    launcher: Launcher = MPIEXEC


class Scheduler(Protocol):
    """One kind of batch scheduler, asked by its own commands."""

    @property
    def kind(self) -> Kind:
        """Of the places in its jobs."""
        ...

    @property
    def title(self) -> str:
        """Its name in messages, e.g. "Slurm"."""
        ...

    def place_of_job(self, variables: Mapping[str, str]) -> Place | None:
        """Return the nodes of the job that a process with these variables is in, and how many ranks each takes.

        None outside of one, or where its only node is this host.

        Raises:
            InvalidInput: the variables are not as the scheduler writes them.
        """
        ...

    def agent(self, place: Place) -> str | None:
        """Return the remote shell by which MPI starts its daemons on the nodes of a job, e.g. "ssh".

        None where MPI asks the scheduler itself: it then finds the nodes too, and all variables reach the ranks.
        """
        ...

    def launch_variables(self, place: Place) -> Mapping[str, str]:
        """Return the variables that mpiexec needs to see the whole job."""
        ...

    def on_node(self, place: Place, node: str) -> Sequence[str] | None:
        """Return what to write before a command so that it runs once on a node of the job; None for SSH."""
        ...

    def refusal(self, said: str) -> str | None:
        """Return the line of an output in which the scheduler refused to run a command on a node; None without one."""
        ...

    def script(self, request: JobRequest, command: Sequence[str]) -> str:
        """Return the script of a job that runs a command on its first node.

        Raises:
            InvalidInput: the request breaks a rule.
        """
        ...

    def submit(self, script: str) -> str:
        """Submit a job; return its id.

        Raises:
            ClusterError: the scheduler refuses it.
        """
        ...

    def job(self, job: str) -> Job | None:
        """Return what is known of a job; None where the scheduler does not know it (any more).

        Raises:
            ClusterError: the scheduler does not answer.
        """
        ...

    def jobs(self) -> Sequence[Job]:
        """Return this user's jobs that wait or run.

        Raises:
            ClusterError: the scheduler does not answer.
        """
        ...

    def cancel(self, job: str) -> None:
        """End a job, or take it from the queue.

        Raises:
            ClusterError: the scheduler refuses.
        """
        ...

    def end_of(self, job: str) -> str | None:
        """Return how the scheduler ended a job, in its own word; None where it did not, or that is not known."""
        ...

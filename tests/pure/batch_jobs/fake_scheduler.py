"""A scheduler whose answers a test says, what is submitted to it, and what its jobs leave behind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster import batch_job, registry
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_folder import JobOrder
from jupyter_ddl.cluster.remote_lease import RemoteLease
from jupyter_ddl.cluster.spec import ClusterSpec, Served
from jupyter_ddl.errors import ClusterError
from jupyter_ddl.launch.schedulers import slurm_queue
from jupyter_ddl.launch.schedulers.scheduler import Job, JobRequest
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.cluster.batch_job import BatchJob


ORDER = JobOrder("train", 4, "slurm", keep=True, rebuild=True, host="login", runs="/home/me/runs")
REQUEST = JobRequest("ddl-train", 2, 4, "/home/me/out.log", "/home/me", "1:30")
SPEC = ClusterSpec("train", 4, (), 1, {}, keep=False, oversubscribe=False, note="")


@dataclass
class FakeScheduler:
    """A scheduler whose answers the test says."""

    kind: Any = "slurm"
    title: str = "Slurm"
    answers: list[Job | None] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    refuses: str = ""
    outcome: str | None = None

    def script(self, request: JobRequest, command: Sequence[str]) -> str:
        return slurm_queue.script(request, command)

    def submit(self, script: str) -> str:
        assert script.startswith("#!")
        if self.refuses:
            raise ClusterError(self.refuses)
        return "12"

    def job(self, job: str) -> Job | None:
        assert job == "12"
        return self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)

    def jobs(self) -> list[Job]:
        return [job for job in self.answers if job is not None]

    def cancel(self, job: str) -> None:
        if self.refuses:
            raise ClusterError(self.refuses)
        self.cancelled.append(job)

    def end_of(self, job: str) -> str | None:
        assert job == "12"
        return self.outcome

    def place_of_job(self, variables: Any) -> Any: ...
    def launch_options(self, place: Any) -> Any: ...
    def launch_variables(self, place: Any) -> Any: ...
    def on_node(self, place: Any, node: str) -> Any: ...


def job_of(slurm: FakeScheduler, order: JobOrder = ORDER) -> BatchJob:
    return batch_job.submit(order, lambda folder: replace(REQUEST, output=str(folder.output)), slurm)


def on_node(world_id: str = "w1", ending: Fault | None = None, folder: Path = Path("/x")) -> ClusterFolder:
    """Make the folder of a cluster on another host, whose lease does not live."""
    made = ClusterFolder("train", registry.here().with_name("node-b-0badcafe"))
    served = Served("slurm", "12", str(folder), "login", rebuild=True)
    made.create(replace(SPEC, served=served), {"world_id": world_id, "kernel_pid": 1})
    if ending is not None:
        made.write_ending(ending)
    return made


KILLED = Fault("lost", "rank", (1,), "node-b", 5.0, facts=Facts(signum=9))


def ending(folder: ClusterFolder, slurm: FakeScheduler) -> str:
    return describe(RemoteLease(folder, "w1", slurm, "12").ending())

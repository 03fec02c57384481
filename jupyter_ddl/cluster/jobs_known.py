"""Finds the scheduler of a cluster's job, and the one of this machine.

Runs on: kernel, a terminal, and a job's program.
"""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.launch.container import image_here
from jupyter_ddl.launch.schedulers.known import SCHEDULERS, scheduler_of

if TYPE_CHECKING:
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.launch.schedulers.scheduler import Scheduler

# The command by which each takes a job.
SUBMITS = {"slurm": "sbatch", "pbs": "qsub", "lsf": "bsub"}


def scheduler_named(kind: str) -> Scheduler | None:
    """Return the scheduler of a kind; None for one that this version does not know."""
    return next((one for one in SCHEDULERS if one.kind == kind), None)


def scheduler_here() -> Scheduler:
    """Return the scheduler whose commands are on this machine.

    Raises:
        HostUnfit: there is none.
    """
    found = next((one for one in SCHEDULERS if shutil.which(SUBMITS[one.kind])), None)
    if found is not None:
        return found
    looked_for = ", ".join(f"{SUBMITS[one.kind]} ({one.title})" for one in SCHEDULERS)
    image = image_here()
    raise HostUnfit(
        "A job is submitted by the commands of a batch scheduler.",
        f"none of {looked_for} on PATH{'' if image is None else f' in {image}'}",
        "Use a kernel on a login node of the cluster, or add the folder of its commands to PATH."
        if image is None
        else f"Start JupyterLab outside of the image, and the job's ranks with --container {shlex.quote(image)}.",
    )


def job_of(spec: ClusterSpec) -> tuple[Scheduler | None, str | None]:
    """Return the scheduler and the number of the job that a cluster's ranks are in; None for each without one."""
    if spec.served is not None:
        return scheduler_named(spec.served.scheduler), spec.served.job
    return scheduler_of(spec.place), spec.place.job

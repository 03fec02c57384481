"""The schedulers that are known, by the kind of their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.launch.schedulers import lsf, pbs, slurm
from jupyter_ddl.launch.schedulers.lsf import Lsf
from jupyter_ddl.launch.schedulers.pbs import Pbs
from jupyter_ddl.launch.schedulers.slurm import Slurm

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.place import Place
    from jupyter_ddl.launch.schedulers.scheduler import Scheduler

SCHEDULERS: tuple[Scheduler, ...] = (Slurm(), Pbs(), Lsf())


def scheduler_of(place: Place) -> Scheduler | None:
    """Return the scheduler whose job a place is in; None without a job."""
    return next((one for one in SCHEDULERS if one.kind == place.kind), None)


def reached_by_ssh(place: Place) -> bool:
    """Return whether a command gets onto the hosts of a place over SSH, and not by a scheduler."""
    scheduler = scheduler_of(place)
    return scheduler is None or scheduler.agent(place) == place.ssh


def is_in_job(variables: Mapping[str, str]) -> bool:
    """Return whether a process with these variables is in a batch job, of one node or more."""
    return any(variables.get(name) for name in (slurm.JOB, pbs.JOB, lsf.JOB))


def place_of_job(variables: Mapping[str, str]) -> Place | None:
    """Return the nodes of the job that a process with these variables is in; None outside of one, or on its only node.

    Raises:
        InvalidInput: the variables are not as the scheduler writes them.
    """
    places = (one.place_of_job(variables) for one in SCHEDULERS)
    return next((place for place in places if place is not None), None)

"""Makes a batch job of what the user requested, checks it, and submits it.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from jupyter_ddl import paths
from jupyter_ddl.cluster import batch_job, finding, job_list, start_claims
from jupyter_ddl.cluster.jobs_known import scheduler_here
from jupyter_ddl.cluster.planning import DEFAULT_NAME, check_count, checked_name
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.launch.container import checked_image
from jupyter_ddl.launch.place import JSRUN, MPIEXEC, Launcher
from jupyter_ddl.launch.profiles.job_defaults import job_options
from jupyter_ddl.launch.profiles.limits import allowed_by
from jupyter_ddl.launch.profiles.reading import profile_named
from jupyter_ddl.launch.schedulers.scheduler import JobRequest
from jupyter_ddl.protocol.idle_stop import idle_stop_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.cluster.batch_job import BatchJob
    from jupyter_ddl.cluster.job_folder import JobOrder
    from jupyter_ddl.launch.profiles.limits import Allowed


@dataclass(frozen=True)
class Wanted:
    """What the user requested, as `jupyter_ddl.submit` takes it, and what the profile allows; None without one."""

    nodes: int = 1
    ntasks_per_node: int = 1
    time: str | None = None
    name: str | None = None
    partition: str | None = None
    account: str | None = None
    gpus_per_node: int = 0
    cpus_per_task: int | None = None
    options: tuple[str, ...] = ()
    keep: bool = False
    rebuild: bool = True
    setup: tuple[str, ...] = ()
    container: str | None = None
    launcher: Launcher = MPIEXEC
    idle_stop: str | None = None
    allowed: Allowed | None = None

    @property
    def ranks(self) -> int:
        """In all."""
        return self.nodes * self.ntasks_per_node

    def request(self, name: str, output: Path | str, folder: Path | None = None) -> JobRequest:
        """Return what is asked of the scheduler.

        Args:
            name: the cluster's, or the notebook's.
            output: the file of what the job prints.
            folder: in which it works; by default this process's.
        """
        return JobRequest(
            f"ddl-{name}",
            self.nodes,
            self.ntasks_per_node,
            str(output),
            str(folder or Path.cwd()),
            self.time,
            self.partition,
            self.cpus_per_task,
            self.gpus_per_node,
            self.account,
            self.options,
            self.setup,
            self.launcher,
        )


def wanted_of(
    profile: str | None,
    given: Mapping[str, Any],
    *,
    name: str | None,
    keep: bool,
    rebuild: bool,
    idle_stop: str | None = None,
) -> Wanted:
    """Return what the user requested, with what a profile says where nothing was given.

    Args:
        profile: its name; None for none.
        given: fields of `Wanted`, by their names; None for what was not given.
        name: the cluster's; None for the usual one.
        keep: let the job outlive this kernel.
        rebuild: replace lost ranks in the job.
        idle_stop: end the job after so long without a run.

    Raises:
        InvalidInput: there is no such profile, its launcher sends no jobs, or more is requested than it allows.
    """
    named = None if profile is None else profile_named(profile)
    fields = {key: value for key, value in given.items() if value is not None}
    if named is not None:
        # A job has its own end, its time.
        fields = job_options(named, fields) | {"allowed": replace(allowed_by(named), idle_stop=None)}
    return Wanted(**fields, name=name, keep=keep, rebuild=rebuild, idle_stop=idle_stop)


def submit(wanted: Wanted) -> BatchJob:
    """Submit a job that brings ranks.

    Raises:
        InvalidInput: an argument breaks a rule, a cluster that runs has the name, or as many run or wait as the
            profile allows.
        HostUnfit: no scheduler's commands are on this machine.
        ClusterError: the scheduler refuses the job.
    """
    order, scheduler = _order(wanted), scheduler_here()
    _check_free(order.name)
    # The scheduler lists the job from then on.
    with start_claims.claimed(wanted.allowed, start_claims.of_job(order.name), _running_or_waiting):
        # The ranks record there what they print.
        private_folder(paths.runs_dir(), variable=paths.RUNS_VARIABLE)
        return batch_job.submit(order, lambda folder: wanted.request(order.name, folder.output), scheduler)


def script(wanted: Wanted) -> str:
    """Return the script of the job that `submit` would send.

    Raises:
        InvalidInput: an argument breaks a rule.
        HostUnfit: no scheduler's commands are on this machine.
    """
    from jupyter_ddl.cluster.job_folder import JobFolder

    order = _order(wanted)
    folder = JobFolder(paths.jobs_dir() / f"{order.name}-...")
    return batch_job.script(wanted.request(order.name, folder.output), folder, scheduler_here())


def _order(wanted: Wanted) -> JobOrder:
    name = checked_name(DEFAULT_NAME if wanted.name is None else wanted.name)
    check_wanted(wanted)
    check_launcher(wanted, scheduler_here().kind)
    order = batch_job.order_of(name, wanted.ranks, scheduler_here(), keep=wanted.keep, rebuild=wanted.rebuild)
    order = replace(order, idle_stop=wanted.idle_stop, allowed=wanted.allowed)
    return order if wanted.container is None else replace(order, container=checked_image(wanted.container))


def check_wanted(wanted: Wanted) -> None:
    """Check what was requested of a job.

    Raises:
        InvalidInput: it breaks a rule.
    """
    check_count("nodes", wanted.nodes, "Pass -N 1 or more.")
    if wanted.idle_stop is not None:
        idle_stop_of(wanted.idle_stop, f"--idle-stop {wanted.idle_stop}")
    check_count("ntasks_per_node", wanted.ntasks_per_node, "Pass --ntasks-per-node 1 or more.")
    if wanted.cpus_per_task is not None:
        check_count("cpus_per_task", wanted.cpus_per_task, "Pass --cpus-per-task 1 or more, or leave it out.")
    for name in ("partition", "account"):
        value = getattr(wanted, name)
        if value is not None and not (value and value.isprintable()):
            # Each is a line of the job's script; what follows a line break there would be run.
            raise InvalidInput(f"--{name} takes one name.", repr(value), "Leave it out for the site's own.")
    for option in wanted.options:
        if not option.startswith("-") or "\n" in option:
            raise InvalidInput(
                "--option takes one option of the scheduler's.", repr(option), "Write --option '--constraint=a100'."
            )


def check_launcher(wanted: Wanted, kind: str) -> None:
    """Check that a scheduler's jobs have what starts the ranks.

    Raises:
        InvalidInput: it is not known, or jsrun, which is LSF's.
    """
    if wanted.launcher not in get_args(Launcher) or (wanted.launcher == JSRUN and kind != "lsf"):
        raise InvalidInput(
            "Ranks are started by mpiexec, or in a job of LSF by jsrun.",
            f"--launcher {wanted.launcher} in a job of {kind}",
            "Leave it out for mpiexec.",
        )


def _running_or_waiting() -> dict[str, str]:
    """Return this user's clusters: those that run, and those whose job has not brought them yet."""
    running = start_claims.running()
    to_come = {
        f"job {job.id}": f"{order.name} (job {job.id})"
        for order, job in job_list.waiting_or_running()
        # One of its name may run on another host.
        if order.name not in running.values() or finding.of_job(job.id) is None
    }
    return running | to_come


def _check_free(name: str) -> None:
    taken = next((folder for folder in finding.running() if folder.name == name), None)
    if taken is not None:
        raise InvalidInput(
            "A cluster's name is its own.",
            f"name={name!r}, which runs already",
            f"%ddl attach {name} uses it, --name starts another.",
        )

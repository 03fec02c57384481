"""Starts sessions and attaches them to clusters; keeps the one that the magics use.

    session = jupyter_ddl.start(n=2)
    ...
    session.stop()

Runs on: kernel.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import submission
from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.cluster.submission import wanted_of
from jupyter_ddl.kernel import exported
from jupyter_ddl.kernel.kernel_sessions import KernelSessions
from jupyter_ddl.kernel.rebuild_choice import checked_rebuild
from jupyter_ddl.launch.place_options import place_of
from jupyter_ddl.launch.profiles.limits import idle_stop_in
from jupyter_ddl.launch.profiles.site_limits import allowed_at
from jupyter_ddl.launch.profiles.start_options import StartOptions, profile_of, with_profile
from jupyter_ddl.paths import SKLEARN_VARIABLE
from jupyter_ddl.protocol.frameworks import AUTO, check_installed, imported
from jupyter_ddl.protocol.standby import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_ddl.cluster.submission import Wanted
    from jupyter_ddl.kernel.rebuild_choice import Rebuild
    from jupyter_ddl.kernel.session import Session


# One for the process: `jupyter_ddl.start` and the magics share it.
_sessions = KernelSessions()


def sessions() -> KernelSessions:
    """Return the sessions of this kernel."""
    return _sessions


def start(
    n: int | None = None,
    *,
    gpus: Sequence[str | int] | str | None = None,
    threads: int | None = None,
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    keep: bool = False,
    oversubscribe: bool = False,
    hosts: str | None = None,
    hostfile: str | None = None,
    ssh: str | None = None,
    interface: str | None = None,
    local: bool = False,
    container: str | None = None,
    profile: str | None = None,
    launcher: str | None = None,
    rebuild: Rebuild = True,
    framework: str = AUTO,
    standby: str = NEVER,
    idle_stop: str | None = None,
    keep_variables: bool = False,
    sklearn: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Session:
    """Start a cluster and return its session when every rank is ready.

    Args:
        n: ranks; by default one per GPU, and with no GPU one per two physical cores, at least 2.
        gpus: the GPUs to use, as CUDA_VISIBLE_DEVICES writes them, e.g. "0,1"; "none" for the cores; by default all.
        threads: TensorFlow's threads on each rank; by default the rank's share of the cores.
        name: the cluster's name, by default "default".
        env: environment variables of the ranks, set before TensorFlow is imported.
        keep: let the ranks outlive this process, for `attach` to find.
        oversubscribe: let several ranks, or clusters, share a GPU.
        hosts: where the ranks go, e.g. "nodea:2,nodeb:2"; by default to the nodes of the batch job that this kernel is
            in, else to this host.
        hostfile: the same as a file, with lines such as `nodea slots=2`.
        ssh: the command that reaches them, e.g. "ssh -p 2222".
        interface: the network interface of this host by which all hosts reach each other, e.g. "ib0", or its address;
            by default the one on the route to them.
        local: start them on this host, also within a batch job.
        container: run them in this image of Apptainer's or Singularity's, e.g. "ddl.sif".
        profile: of a site's or a user's file; what is given here wins over what it says. By default the one called
            "default", where a file has it, and nothing else says where the ranks go.
        launcher: what starts them in a job of LSF: "jsrun", or "mpiexec", the default.
        rebuild: replace lost ranks without being asked; "shrink": without a host that was lost, with fewer ranks.
        framework: what the ranks import before the first cell: "tensorflow", "torch", "jax" or "none"; by default what
            this process has imported, else what is installed.
        standby: "auto" to have other ranks import and wait, where memory allows, to take the place of these when they
            are lost or restarted; `%ddl start` does.
        idle_stop: end the ranks after so long without a run, with this process or without: "45s", "30m", "2h", "1d", or
            "never"; by default as the profile, or the variable, says.
        keep_variables: before that, save what cells defined there and can be pickled; `Session.restart` loads it.
        sklearn: what accelerates scikit-learn on the ranks: "intelex" (scikit-learn-intelex), "cuml", or "none".
        progress: called with a sentence at each step.

    Raises:
        InvalidInput: an argument breaks a rule.
        HostUnfit: ranks cannot start on a host.
        ClusterStartFailed: a rank did not come up.

    Example:
        >>> session = jupyter_ddl.start(n=2)
        >>> result = session.run("print(rank, world_size)")
        >>> session.stop()
    """
    chosen_env = dict(env or {}) if sklearn is None else {**(env or {}), SKLEARN_VARIABLE: sklearn}
    given = StartOptions(n, threads, chosen_env, hosts, hostfile, ssh, local, container, launcher)
    named = profile_of(profile, given)
    job = exported.job()
    if job is None:
        options = given if named is None else with_profile(named, given)
    else:
        options, name = exported.options_in_job(job, named, given), exported.name_in_job(job, name)
        # A job ends with its notebook's last cell.
        keep, interface, idle_stop = False, None, NEVER
    place = place_of(
        options.hosts,
        options.hostfile,
        options.ssh,
        interface,
        local=options.local,
        container=options.container,
        launcher=options.launcher,
    )
    chosen = imported(sys.modules) if framework == AUTO else framework
    # Elsewhere, and with a path of their own, ranks may have what this Python lacks.
    if place.is_here and place.container is None and "PYTHONPATH" not in (options.env or {}):
        check_installed(chosen)
    allowed = allowed_at(named, place)
    ends = idle_stop_in(named, idle_stop, allowed)
    given_first = options.n, gpus, options.threads, name, options.env, keep, oversubscribe, place, chosen, standby, ends
    if allowed is not None and job is not None:
        allowed = replace(allowed, idle_stop=None)
    spec = plan(*given_first, keep_variables=keep_variables, allowed=allowed)
    return _sessions.start(spec, progress, rebuild=checked_rebuild(rebuild))


def attach(name: str = "default", progress: Callable[[str], None] = lambda _: None) -> Session:
    """Return a session on a cluster that already runs, its ranks' variables intact.

    Args:
        name: the cluster's, or the number of the batch job that brings it; one that still waits is waited for.
        progress: called with a sentence at each step.

    Raises:
        NoCluster: none of that name runs on this host, or on one other.
        ClusterStartFailed: the job has ended.

    Example:
        >>> first = jupyter_ddl.start(n=2, name="training", keep=True)
        >>> first.push({"rate": 0.1})
        >>> first.detach()
        >>> session = jupyter_ddl.attach("training")
        >>> session.pull("rate")
        {0: 0.1, 1: 0.1}
        >>> session.stop()
    """
    return _sessions.attach(name, progress)


def submit(
    nodes: int | None = None,
    ntasks_per_node: int | None = None,
    *,
    time: str | None = None,
    name: str | None = None,
    partition: str | None = None,
    account: str | None = None,
    gpus_per_node: int | None = None,
    cpus_per_task: int | None = None,
    options: Sequence[str] = (),
    container: str | None = None,
    launcher: str | None = None,
    keep: bool = False,
    rebuild: bool = True,
    idle_stop: str | None = None,
    profile: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Session:
    """Submit a batch job that brings ranks, wait for it, and return the session on them.

    The job ends with this kernel, unless it is to be kept.

    Args:
        nodes: how many; by default 1.
        ntasks_per_node: ranks on each; by default 1.
        time: the job's wall time as HOURS:MINUTES; by default the queue's own.
        name: the cluster's name, by default "default".
        partition: the partition or queue; by default the site's own.
        account: to be charged.
        gpus_per_node: GPUs on each node.
        cpus_per_task: cores for each rank.
        options: the scheduler's own, e.g. ["--constraint=a100"].
        container: run the ranks in this image of Apptainer's or Singularity's.
        launcher: what starts them in a job of LSF: "jsrun", or "mpiexec", the default.
        keep: let the job outlive this kernel, for `attach` to find.
        rebuild: replace lost ranks, in the job, without being asked.
        idle_stop: end the job after so long without a run, with this kernel or without: "45s", "30m", "2h", "1d".
        profile: of a site's or a user's file; what is given here wins over what it says.
        progress: called with a sentence at each step, and while the job waits with its place in the queue.

    Raises:
        InvalidInput: an argument breaks a rule.
        HostUnfit: no scheduler's commands are on this machine.
        ClusterError: the scheduler refuses the job.
        ClusterStartFailed: the job has ended, or an interrupt came; then the job stays.

    Example:
        >>> session = jupyter_ddl.submit(nodes=2, ntasks_per_node=2, time="1:00")
        >>> session.stop()
    """
    wanted = wanted_of(
        profile,
        {
            "nodes": nodes,
            "ntasks_per_node": ntasks_per_node,
            "time": time,
            "partition": partition,
            "account": account,
            "gpus_per_node": gpus_per_node,
            "cpus_per_task": cpus_per_task,
            "container": container,
            "launcher": launcher,
            "options": tuple(options),
        },
        name=name,
        keep=keep,
        rebuild=rebuild,
        idle_stop=idle_stop,
    )
    return submitted(wanted, progress)


def submitted(wanted: Wanted, progress: Callable[[str], None]) -> Session:
    """Return the session on the ranks of a job that is wanted; in an exported notebook's job, on that one's ranks.

    Raises:
        as `submit`.
    """
    if exported.job() is not None:
        return start(
            wanted.ranks,
            name=wanted.name,
            container=wanted.container,
            profile=None if wanted.allowed is None else wanted.allowed.profile,
            rebuild=wanted.rebuild,
            progress=progress,
        )
    return _sessions.wait_for(submission.submit(wanted), progress)


def current() -> Session:
    """Return the session that the magics use: the one started or attached to last.

    Raises:
        NoCluster: there is none.
    """
    return _sessions.current()

"""Defines a profile: its keys, and their types."""

from __future__ import annotations

from typing import Literal

import msgspec

Launcher = Literal["local", "hosts", "slurm", "pbs", "lsf"]
DEFAULT = "default"
"""The name of the profile that a start takes which names none."""
SUBMITS: tuple[Launcher, ...] = ("slurm", "pbs", "lsf")


class Defaults(msgspec.Struct, frozen=True, kw_only=True):
    """What is taken where the user gives nothing.

    Attributes:
        ranks: of a start.
        threads: TensorFlow's on each rank.
        nodes: of a job; the next ones likewise.
        ntasks_per_node: the ranks on each node.
        cpus_per_task: the cores of each rank.
        gpus_per_node: the GPUs of each node.
        time: the wall time, as "HOURS:MINUTES" or "HOURS:MINUTES:SECONDS".
        partition: or queue.
        account: which is charged.
        idle_stop: after how long without a run the ranks of a start are ended, as "30m"; or "never".
    """

    ranks: int | None = None
    threads: int | None = None
    nodes: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    gpus_per_node: int | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    idle_stop: str | None = None


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a profile allows; None where it says nothing.

    Attributes:
        ranks: of a start or a job.
        nodes: likewise.
        time: of a job, written as in `Defaults`.
        clusters: of a user at a time, scripts and exported notebooks among them.
        idle_stop: the longest time without a run before the ranks of a start are ended, as "2h".
        memory_per_rank: what each rank of a start or a script may hold, with all that it starts, as "8GB".
        gpus: how the ranks of a start or a script get the GPUs of their host: "own" for one each that no other rank
            has, "shared" for a share of the memory of one.
        gpu_memory_per_rank: that share, with "shared".
    """

    ranks: int | None = None
    nodes: int | None = None
    time: str | None = None
    clusters: int | None = None
    idle_stop: str | None = None
    memory_per_rank: str | None = None
    gpus: Literal["own", "shared"] | None = None
    gpu_memory_per_rank: str | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A place with a name.

    Attributes:
        description: one line, for lists.
        launcher: how ranks get there.
        mpi_launcher: what starts them in a job of LSF: "mpiexec" or "jsrun".
        options: the scheduler's own, each as a line of a job's script has it, e.g. "--constraint=a100".
        hosts: with "hosts": as `-H` takes them.
        hostfile: or a file of them.
        ssh: the command that reaches them.
        modules: what `module load` loads for the ranks.
        setup: lines of shell after it.
        environment: variables of the ranks.
        container: the image that the ranks run in.
        interface: the network interface, or the network as "10.1.0.0/16", that MPI is kept to.
        defaults: what is taken where the user gives nothing.
        limits: the most that is allowed.
    """

    description: str = ""
    launcher: Launcher = "local"
    mpi_launcher: Literal["mpiexec", "jsrun"] = "mpiexec"
    options: tuple[str, ...] = ()
    hosts: str | None = None
    hostfile: str | None = None
    ssh: str | None = None
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    container: str | None = None
    interface: str | None = None
    defaults: Defaults = Defaults()
    limits: Limits = Limits()


class Named(msgspec.Struct, frozen=True):
    """A profile with its name, and the file that it is in."""

    name: str
    file: str
    profile: Profile

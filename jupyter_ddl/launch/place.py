"""Where the ranks of a cluster are: on this host, on hosts that SSH reaches, or on the nodes of a batch job."""

from __future__ import annotations

import socket
from dataclasses import dataclass, replace
from typing import Any, Literal

Kind = Literal["local", "hosts", "slurm", "pbs", "lsf"]
# What starts the ranks.
Launcher = Literal["mpiexec", "jsrun"]
MPIEXEC: Launcher = "mpiexec"
JSRUN: Launcher = "jsrun"
DEFAULT_SSH = "ssh"


@dataclass(frozen=True)
class HostSlots:
    """A host, by the name with which it was given, and how many ranks it takes."""

    host: str
    slots: int


@dataclass(frozen=True)
class Place:
    """Where ranks are.

    Attributes:
        kind: "local" for this host, "hosts" for those in `hosts` over SSH, else the batch scheduler whose job has them.
        hosts: in the order in which they get their ranks; empty for this host.
        ssh: the command that reaches a host, with its options, e.g. "ssh -p 2222 -l me".
        job: the scheduler's number of the job; None without one.
        container: the image in which ranks run, by its path on every host; None for the kernel's own environment.
        is_inside: the kernel is in that image too: MPI's daemons on other hosts start in it, and the hosts need no MPI.
        interface: the network interface of this host, or its address, by which the hosts reach each other and this
            one, e.g. "ib0"; None for the one on the route to them.
        launcher: what starts the ranks: "mpiexec", or "jsrun" in a job of LSF.
        through_ssh: the hosts cannot connect to the kernel's: what holds the ranks is on the first of them.
    """

    kind: Kind = "local"
    hosts: tuple[HostSlots, ...] = ()
    ssh: str = DEFAULT_SSH
    job: str | None = None
    container: str | None = None
    is_inside: bool = False
    interface: str | None = None
    launcher: Launcher = MPIEXEC
    through_ssh: bool = False

    @property
    def is_here(self) -> bool:
        """Whether all ranks are on this host."""
        return self.kind == "local"

    @property
    def image_for_ranks(self) -> str | None:
        """The image in which each rank's command starts; None where there is none, or what starts ranks is in it."""
        return None if self.is_inside else self.container

    @property
    def slots(self) -> int:
        """How many ranks the hosts take in all; 0 for this host, whose devices decide."""
        return sum(one.slots for one in self.hosts)

    def by_names(self, n: int) -> Place:
        """Return the place with its hosts named: this host too, whose image is looked at as that of any other.

        Args:
            n: the ranks.
        """
        return replace(self, hosts=(HostSlots(socket.gethostname(), n),)) if self.is_here else self

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Place:
        """Return the place that `dataclasses.asdict` made a record of."""
        return cls(**{**record, "hosts": tuple(HostSlots(**one) for one in record["hosts"])})


HERE = Place()

"""Slurm on the rig: its controller on `login`, two nodes of four cores. Debian's `slurm-wlm` and `munge`."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from systems.rig import ADDRESSES, NODES, Rig, end

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY_S = 60.0
# No cgroups, and cores that are not there: the nodes are processes of this machine. A job in `urgent` takes the nodes
# of one in `again`, which goes back into the queue, or in `once`, which does not.
_SETTINGS = """
ClusterName=rig
SlurmctldHost=login({login})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
NodeName=nodea NodeAddr={nodea} CPUs=4 RealMemory=4000
NodeName=nodeb NodeAddr={nodeb} CPUs=4 RealMemory=4000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=DEFAULT Nodes=nodea,nodeb MaxTime=60 State=UP
PartitionName=main Default=YES PreemptMode=OFF
PartitionName=again PreemptMode=REQUEUE
PartitionName=once PreemptMode=CANCEL
PartitionName=urgent PriorityTier=2 PreemptMode=OFF
"""


class Slurm:
    """A Slurm that runs on the rig's hosts.

    Attributes:
        variables: for what calls its commands.
    """

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.folder = rig.folder / "slurm"
        self.variables = {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def call(self, command: str) -> str:
        """Run one of Slurm's commands on the login node; return what it printed."""
        return self.rig.on("login", f"SLURM_CONF={self.folder}/slurm.conf {command}")

    @contextmanager
    def urgent_job(self) -> Iterator[None]:
        """Let a job of the partition `urgent` take both nodes for the length of the block."""
        job = self.call("sbatch --parsable -p urgent -N2 --exclusive -o /dev/null --wrap 'sleep 600'").strip()
        try:
            yield
        finally:
            self.call(f"scancel {job}")

    def within(self, *options: str) -> tuple[str, ...]:
        """Return what to write before a command so that it runs on the login node, beside an allocation of its own."""
        return (*self.rig.enter("login"), "salloc", "--quiet", *options)

    def write(self) -> None:
        self.folder.mkdir()
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(_SETTINGS.format(folder=self.folder, **ADDRESSES))
        (self.folder / "cgroup.conf").write_text("IgnoreSystemd=yes\nCgroupAutomount=no\n")
        (self.folder / "munge.key").write_bytes(b"r" * 1024)
        (self.folder / "munge.key").chmod(0o600)

    def wait_up(self) -> None:
        deadline_s = time.monotonic() + _READY_S
        while "idle" not in (states := self.call("sinfo -h -o %T || true")) or len(states.split()) > 1:
            assert time.monotonic() < deadline_s, states + "".join(
                log.read_text() for log in sorted(self.folder.glob("*.log"))
            )
            time.sleep(0.2)


@contextmanager
def slurm(rig: Rig) -> Iterator[Slurm]:
    """Bring Slurm up for the length of the block."""
    missing = [name for name in ("slurmctld", "slurmd", "munged", "srun") if not shutil.which(name)]
    if missing:
        pytest.skip(f"a batch system takes slurm-wlm and munge: there is no {', '.join(missing)}")
    made = Slurm(rig)
    made.write()
    folder = made.folder
    munged = (
        *("munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket"),
        *(f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munge.seed", f"--log-file={folder}/munged.log"),
    )
    programs = [("login", munged), ("login", ("slurmctld", "-D"))]
    programs += [(node, ("slurmd", "-D", "-N", node)) for node in NODES]
    running = []
    try:
        for host, program in programs:
            log = (folder / f"{host}-{program[0]}.log").open("wb")
            with log:
                running.append(
                    subprocess.Popen(
                        [*rig.enter(host), "setpriv", "--pdeathsig", "KILL", "env", *_as_words(made), *program],
                        stdout=log,
                        stderr=log,
                        stdin=subprocess.DEVNULL,
                    )
                )
        made.wait_up()
        yield made
    finally:
        for process in running:
            end(process)


def _as_words(made: Slurm) -> list[str]:
    return [f"{name}={value}" for name, value in made.variables.items()]

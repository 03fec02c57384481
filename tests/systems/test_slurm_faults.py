"""What ends ranks in a job of a real Slurm is named with its host, and leaves nothing on any node."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest
from ranks.kernels import KernelError, eventually, kernel
from systems.rig import NODES, environment, kill_at_once
from systems.test_preemption import left_on_nodes
from systems.test_slurm import IN_A_COLLECTIVE, kernel_in
from systems.test_submit import PLACES, SUBMIT, on_login

if TYPE_CHECKING:
    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems, pytest.mark.slow, pytest.mark.timeout(400)]

STARTS = "import jupyter_ddl\ns = jupyter_ddl.start()"


@pytest.mark.parametrize("way", ["salloc", "sbatch"])
def test_a_rank_that_is_killed_on_the_second_node_is_named_with_it(slurm: Slurm, way: str) -> None:
    with kernel_in(slurm) if way == "salloc" else on_login(slurm) as login:
        login.do(STARTS if way == "salloc" else SUBMIT.format(""))
        host, pid = login.do(f"run = s.submit({IN_A_COLLECTIVE!r})\nanswer = s.ranks[3].host, s.ranks[3].pid")
        assert host == "nodeb"
        slurm.rig.on("nodeb", f"kill -9 {pid}")
        with pytest.raises(KernelError, match=r"Received: rank 3 on nodeb was ended by signal 9 \(Killed\)"):
            login.do("run.wait()")
        if way == "salloc":
            login.do(PLACES)
        login.do("s.stop()")
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)
    assert eventually(lambda: slurm.call("squeue -h") == "", 60), slurm.call("squeue")


@pytest.mark.parametrize("way", ["salloc", "sbatch"])
def test_a_job_that_is_cancelled_leaves_nothing_on_its_nodes(slurm: Slurm, way: str) -> None:
    with kernel_in(slurm) if way == "salloc" else on_login(slurm) as login:
        login.do(STARTS if way == "salloc" else SUBMIT.format(""))
        job = login.do(f"run = s.submit({IN_A_COLLECTIVE!r})\nanswer = s.note.split()[2].rstrip(':')")
        slurm.call(f"scancel {job}")
        with pytest.raises(KernelError, match=rf"Slurm job {job} was cancelled"):
            login.do("run.wait()")
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)


def test_an_allocation_whose_time_is_over_says_so(slurm: Slurm) -> None:
    variables = {**environment(slurm.rig), **slurm.variables}
    with kernel(variables, within=slurm.within("-N", "2", "--ntasks-per-node=2", "--time=1")) as login:
        login.do(STARTS)
        job = login.do("answer = s.note.split()[2].rstrip(':')")
        with pytest.raises(KernelError, match=rf"(?s)Slurm job {job} reached its time limit\..*%ddl submit"):
            login.do(f"s.run({IN_A_COLLECTIVE!r})")
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)


@pytest.mark.parametrize("way", ["salloc", "sbatch"])
def test_a_kill_of_everything_leaves_nothing_on_its_nodes(slurm: Slurm, way: str) -> None:
    with kernel_in(slurm) if way == "salloc" else on_login(slurm) as login:
        login.do(STARTS if way == "salloc" else SUBMIT.format(""))
        login.send(f"s.run({IN_A_COLLECTIVE!r})")
        assert eventually(lambda: len(left_on_nodes(slurm)) > 10)
        on_nodes = [one for node in NODES for one in slurm.rig.processes(node)]
        kill_at_once(one for one in {*on_nodes, *login.descendants()} if is_ours(one))
        assert eventually(lambda: not login.descendants())
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)
    slurm.call("scancel --user=root")
    assert eventually(lambda: slurm.call("squeue -h") == "", 60), slurm.call("squeue")


def is_ours(process: psutil.Process) -> bool:
    """Return whether a process is none of Slurm's, of the rig's, and no witness."""
    with suppress(psutil.NoSuchProcess):
        line = " ".join(process.cmdline())
        is_rigs = process.name() in ("sshd", "slurmd", "slurmctld", "munged", "slurmstepd", "setpriv")
        return bool(line) and not is_rigs and "jupyter_ddl.cluster.witness" not in line
    return False

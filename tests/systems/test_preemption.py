"""A batch job of a real Slurm whose nodes another job takes: named as that, nothing is left, and ranks come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import NODES, environment
from systems.test_slurm import IN_A_COLLECTIVE
from systems.test_submit import ON_BOTH, PLACES, SUBMIT, on_login, processes_on_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems, pytest.mark.timeout(400)]


@pytest.fixture
def login(slurm: Slurm) -> Iterator[Kernel]:
    with on_login(slurm) as other:
        yield other
    assert eventually(lambda: slurm.call("squeue -h") == "", 60), slurm.call("squeue")


def left_on_nodes(slurm: Slurm) -> list[str]:
    """Return our processes, and what lies in the temporary folders and the shared memory of the nodes."""
    listed = "ls -A /tmp /dev/shm | grep -v : || true"
    return processes_on_nodes(slurm) + [one for node in NODES for one in slurm.rig.on(node, listed).split()]


def submit(login: Kernel, partition: str, more: str = "") -> str:
    login.do(SUBMIT.format(f", partition={partition!r}{more}"))
    return login.do(f"run = s.submit({IN_A_COLLECTIVE!r})\nanswer = s.job")


@pytest.mark.slow
def test_a_job_that_is_preempted_and_requeued_says_so_and_brings_its_ranks_again(slurm: Slurm, login: Kernel) -> None:
    job = submit(login, "again")
    with slurm.urgent_job():
        back = (
            r"was preempted: another job took its nodes, and it was put back into the queue\.\nIts ranks are waited for"
        )
        with pytest.raises(KernelError, match=rf"Slurm job {job} {back}"):
            login.do("run.wait()")
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)
    # Slurm waits two minutes before it starts one again.
    slurm.call(f"scontrol update jobid={job} StartTime=now")
    assert login.do(PLACES) == ON_BOTH
    assert login.do("answer = s.job") == job
    login.do("s.stop()")
    assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)


@pytest.mark.slow
def test_a_job_that_is_requeued_and_not_waited_for_gives_its_ranks_to_a_restart(slurm: Slurm, login: Kernel) -> None:
    job = submit(login, "again", ", rebuild=False")
    said = rf"(?s)Slurm job {job} was preempted: .*%ddl restart starts new ones"
    with slurm.urgent_job(), pytest.raises(KernelError, match=said):
        login.do("run.wait()")
    slurm.call(f"scontrol update jobid={job} StartTime=now")
    login.do("s.restart()")
    assert login.do(PLACES) == ON_BOTH
    assert login.do("answer = s.job") == job
    login.do("s.stop()")


@pytest.mark.slow
def test_a_job_that_is_preempted_for_good_says_so_and_how_to_get_another(slurm: Slurm, login: Kernel) -> None:
    job = submit(login, "once")
    with slurm.urgent_job():
        with pytest.raises(KernelError, match=rf"(?s)Slurm job {job} was preempted: another.*%ddl submit"):
            login.do("run.wait()")
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)


def test_an_allocation_that_is_preempted_is_named_as_that(slurm: Slurm) -> None:
    variables = {**environment(slurm.rig), **slurm.variables}
    within = slurm.within("-p", "again", "-N", "2", "--ntasks-per-node=2")
    with kernel(variables, within=within) as beside:
        beside.do("import jupyter_ddl\ns = jupyter_ddl.start()")
        job = beside.do(f"import os\nrun = s.submit({IN_A_COLLECTIVE!r})\nanswer = os.environ['SLURM_JOB_ID']")
        with slurm.urgent_job():
            with pytest.raises(KernelError, match=rf"Slurm job {job} was preempted"):
                beside.do("run.wait()")
            assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)

"""Ranks on the nodes of a real Slurm's allocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import environment
from systems.test_hosts_apart import OWN_FOLDERS, log_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

PLACES = """
s.run('''
import socket, horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
where = socket.gethostname(), hvd.local_rank(), float(hvd.allreduce(tf.constant(rank + 1.0), op=hvd.Sum))
''')
answer = s.pull('where')
"""
ON_BOTH = {"0": ["nodea", 0, 10.0], "1": ["nodea", 1, 10.0], "2": ["nodeb", 0, 10.0], "3": ["nodeb", 1, 10.0]}
IN_A_COLLECTIVE = """
import time
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
while True:
    hvd.allreduce(tf.ones(1))
    time.sleep(0.01)
"""


def kernel_in(slurm: Slurm, *step: str) -> AbstractContextManager[Kernel]:
    """Return a kernel beside an allocation of two nodes of two tasks each, or within a step of it."""
    variables = {**environment(slurm.rig), **slurm.variables}
    return kernel(variables, within=(*slurm.within("-N", "2", "--ntasks-per-node=2"), *step))


@pytest.fixture
def login(slurm: Slurm) -> Iterator[Kernel]:
    with kernel_in(slurm) as other:
        yield other


def test_an_allocation_is_taken_and_told(login: Kernel) -> None:
    login.do("import jupyter_ddl\ns = jupyter_ddl.start()")
    job = login.do("import os\nanswer = os.environ['SLURM_JOB_ID']")
    assert login.do("answer = s.note") == f"Slurm job {job}: 2 nodes (nodea, nodeb), 4 ranks."
    assert login.do(PLACES) == ON_BOTH
    # The end of the wall time, in seconds: the partition's is an hour.
    assert eventually(lambda: 0 < (login.do("answer = s.wall_time.left_s()") or 0) <= 3600)
    login.do("s.stop()")


@pytest.mark.slow
def test_beside_an_allocation_ranks_stay_on_this_host_where_asked(login: Kernel) -> None:
    login.do("import jupyter_ddl\ns = jupyter_ddl.start(n=2, local=True)\ns.run('import socket')")
    login.do("s.run('where = socket.gethostname()')")
    assert login.do("answer = s.pull('where')") == {"0": "login", "1": "login"}
    login.do("s.stop()")


def test_a_kernel_within_a_step_takes_the_whole_allocation(slurm: Slurm) -> None:
    with kernel_in(slurm, "srun", "-N1", "-n1") as inside:
        assert inside.do("import socket\nanswer = socket.gethostname()") == "nodea"
        inside.do("import jupyter_ddl\ns = jupyter_ddl.start()")
        assert inside.do(PLACES) == ON_BOTH
        inside.do("s.stop()")


@pytest.mark.slow
def test_the_nodes_of_an_allocation_need_not_share_a_folder(slurm: Slurm) -> None:
    variables = {**environment(slurm.rig, **OWN_FOLDERS), **slurm.variables}
    with kernel(variables, within=slurm.within("-N", "2", "--ntasks-per-node=2")) as login:
        login.do("import jupyter_ddl\ns = jupyter_ddl.start()")
        assert "No folder of runs is shared with nodea, nodeb" in login.do("answer = s.note")
        assert login.do(PLACES) == ON_BOTH
        login.do("s.run('print(\"line\", rank)')")
        assert eventually(lambda: log_of(slurm.rig, 3) == "line 3\n")
        login.do("s.stop()")


def test_a_job_that_is_cancelled_is_told_as_that(slurm: Slurm, login: Kernel) -> None:
    login.do("import jupyter_ddl\ns = jupyter_ddl.start(rebuild=False)")
    job = login.do("import os\nanswer = os.environ['SLURM_JOB_ID']")
    login.do(f"run = s.submit({IN_A_COLLECTIVE!r})")
    slurm.call(f"scancel {job}")
    with pytest.raises(KernelError, match=rf"Received: Slurm job {job} was cancelled"):
        login.do("run.wait()")
    assert eventually(lambda: slurm.call("squeue -h") == "")

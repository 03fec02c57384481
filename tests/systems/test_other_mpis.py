"""Ranks on two hosts by MPICH and by Intel MPI, where these are installed apart from this Python's own MPI.

`DDL_TEST_MPICH` and `DDL_TEST_INTEL_MPI` name their mpiexec, e.g. of a virtual environment with the wheel `mpich` or
`impi-rt`. Horovod is built for one MPI, so mpi4py sums here.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import environment
from systems.test_hosts import left_on, processes_of

from jupyter_ddl.paths import MPIEXEC_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from systems.batch import Slurm
    from systems.rig import Rig

pytestmark = [pytest.mark.mpi, pytest.mark.systems, pytest.mark.slow]

# UCX, which MPICH's wheel has, takes the rig's hosts for one, and their memory for shared: they have one kernel.
IN_THE_RIG = {"UCX_TLS": "self,tcp"}
MPIS = {
    "MPICH": "DDL_TEST_MPICH",
    "Intel": "DDL_TEST_INTEL_MPI",
}
PLACES = """
s.run('''
import os, socket
from mpi4py import MPI
library = MPI.Get_library_version()
where = socket.gethostname(), int(os.environ["MPI_LOCALRANKID"]), MPI.COMM_WORLD.allreduce(rank + 1)
''')
assert all(NAME in said for said in s.pull('library').values()), s.pull('library')
answer = s.pull('where')
"""
ON_BOTH = {"0": ["nodea", 0, 10], "1": ["nodea", 1, 10], "2": ["nodeb", 0, 10], "3": ["nodeb", 1, 10]}
IN_A_COLLECTIVE = """
import time
from mpi4py import MPI
while True:
    MPI.COMM_WORLD.allreduce(1)
    time.sleep(0.01)
"""


@pytest.fixture(params=MPIS)
def variables(request: pytest.FixtureRequest, hosts: Rig) -> dict[str, str]:
    """Return the variables of a kernel that takes the MPI."""
    variable = MPIS[request.param]
    mpiexec = os.environ.get(variable)
    if not mpiexec:
        pytest.skip(f"{request.param} is not installed, or {variable} does not name its mpiexec")
    return dict(environment(hosts, **IN_THE_RIG, **{MPIEXEC_VARIABLE: mpiexec, "MPI": request.param}))


@pytest.fixture
def login(hosts: Rig, variables: dict[str, str]) -> Iterator[Kernel]:
    with kernel(variables, within=hosts.enter("login")) as other:
        yield other


def start(hosts: Rig) -> str:
    return f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea:2,nodeb:2', ssh={hosts.ssh!r}, rebuild=False)"


def sums_on_both(inside: Kernel) -> None:
    assert inside.do("import os\nNAME = os.environ['MPI']" + PLACES) == ON_BOTH


def names_a_killed_rank(inside: Kernel, hosts: Rig) -> None:
    pid = inside.do(f"run = s.submit({IN_A_COLLECTIVE!r})\nanswer = s.ranks[2].pid")
    hosts.on("nodeb", f"sleep 2; kill -9 {pid}")
    with pytest.raises(KernelError, match=r"Received: rank 2 on nodeb was ended by signal 9 \(Killed\)"):
        inside.do("run.wait()")


def test_over_ssh_they_sum_and_stop_and_leave_nothing(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts))
    sums_on_both(login)
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def test_over_ssh_a_killed_rank_is_named(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts))
    names_a_killed_rank(login, hosts)
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def test_over_ssh_a_killed_kernel_leaves_nothing(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts))
    login.send(f"s.run({IN_A_COLLECTIVE!r})")
    login.inside.kill()
    assert eventually(lambda: not login.descendants())
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def test_in_a_slurm_job_they_sum_and_a_killed_rank_is_named(slurm: Slurm, variables: dict[str, str]) -> None:
    with kernel({**variables, **slurm.variables}, within=slurm.within("-N", "2", "--ntasks-per-node=2")) as inside:
        inside.do("import jupyter_ddl\ns = jupyter_ddl.start(rebuild=False)")
        sums_on_both(inside)
        names_a_killed_rank(inside, slurm.rig)
        inside.do("s.stop()")
    assert eventually(lambda: left_on(slurm.rig) == ""), left_on(slurm.rig)

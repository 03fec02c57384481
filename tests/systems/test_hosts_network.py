"""Which network the ranks of several hosts use: the one on the route to them, or the one that is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, kernel
from systems.rig import Rig, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mpi, pytest.mark.systems]


@pytest.fixture
def login(hosts: Rig) -> Iterator[Kernel]:
    """A kernel on the login node."""
    with kernel(dict(environment(hosts)), within=hosts.enter("login")) as other:
        yield other


@pytest.mark.slow
def test_hosts_that_are_known_by_ipv6_alone(hosts: Rig, login: Kernel) -> None:
    login.do(f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea6:1,nodeb6:1', ssh={hosts.ssh!r})")
    login.do("s.run('from mpi4py import MPI\\nsum = MPI.COMM_WORLD.allreduce(rank)')")
    assert login.do("answer = s.pull('sum')") == {"0": 1, "1": 1}
    login.do("s.stop()")

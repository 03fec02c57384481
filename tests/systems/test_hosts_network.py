"""Which network the ranks of several hosts use: the one on the route to them, or the one that is set."""

from __future__ import annotations

import re

import pytest
from ranks.kernels import Kernel, KernelError
from systems.rig import NODES, Rig, second_address
from systems.test_hosts import beyond_loopback

pytestmark = [pytest.mark.mpi, pytest.mark.systems]


def peers(hosts: Rig, host: str) -> set[str]:
    """Return the addresses of other hosts to which Python's processes and MPI's daemons there are connected."""
    lines = [line.split() for line in hosts.on(host, "ss -Htnp state established").splitlines()]
    ours = [words[3] for words in lines if re.search('"(python|prted)', words[4])]
    return {address.rpartition(":")[0] for address in ours} - {"127.0.0.1"}


def test_an_interface_that_is_set_carries_all(hosts: Rig, login: Kernel) -> None:
    begin = f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea:1,nodeb:1', ssh={hosts.ssh!r}, interface="
    with pytest.raises(KernelError, match=r"Received: 'ib0'\. There are: lo \(127\.0\.0\.1.*eth1 \(10\.88\.0\.10"):
        login.do(f"{begin}'ib0')")
    login.do(f"{begin}'eth1')")
    login.do("s.run('from mpi4py import MPI\\nsum = MPI.COMM_WORLD.allreduce(rank)')")
    listening = {at.rpartition(":")[0] for program, _, at in beyond_loopback(hosts, "login") if program == "python"}
    assert listening == {second_address("login")}
    for node, other in zip(NODES, reversed(NODES), strict=True):
        assert peers(hosts, node) <= {second_address("login"), second_address(other)}
        assert second_address("login") in peers(hosts, node)
    login.do("s.stop()")


@pytest.mark.slow
def test_hosts_that_are_known_by_ipv6_alone(hosts: Rig, login: Kernel) -> None:
    login.do(f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea6:1,nodeb6:1', ssh={hosts.ssh!r})")
    login.do("s.run('from mpi4py import MPI\\nsum = MPI.COMM_WORLD.allreduce(rank)')")
    assert login.do("answer = s.pull('sum')") == {"0": 1, "1": 1}
    login.do("s.stop()")

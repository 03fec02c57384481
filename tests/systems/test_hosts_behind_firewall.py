"""A host that lets nothing in but SSH: said before ranks start, and a kernel reaches ranks there all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import Rig, environment, kill_at_once
from systems.test_hosts import beyond_loopback, processes_of, start

if TYPE_CHECKING:
    import psutil

pytestmark = [pytest.mark.mpi, pytest.mark.systems]


def test_hosts_that_cannot_connect_back_are_named_before_ranks_start(hosts: Rig, login: Kernel) -> None:
    begin = start(hosts)
    text = (
        r"nodea, nodeb: HOST must be able to connect to this host\. Received: 10\.77\.0\.10:\d+ from there: timed out\."
    )
    with hosts.ssh_alone("login"), pytest.raises(KernelError, match=text):
        login.do(begin)
    assert processes_of(login) == []


def tunnels(kernel: Kernel) -> list[psutil.Process]:
    """Return the ssh of each tunnel that a kernel has opened."""
    return [one for one in processes_of(kernel) if one.name() == "ssh"]


def folders(hosts: Rig) -> str:
    return hosts.on("login", "ls /tmp | grep jupyter_ddl-tunnel || true")


@pytest.mark.slow
def test_a_kernel_attaches_through_ssh(hosts: Rig, login: Kernel) -> None:
    # Slurm's own daemons listen there too, once a test has needed them.
    before = beyond_loopback(hosts, "login")
    with kernel(dict(environment(hosts)), within=hosts.enter("nodea")) as first:
        first.do(start(hosts, name="far", rebuild=False))
        first.do("s.run('x = 7 + rank')")
        with hosts.ssh_alone("nodea"):
            login.do("import jupyter_ddl\ns = jupyter_ddl.attach('far')")
            assert login.do("answer = s.pull('x')") == {"0": 7, "1": 8, "2": 9, "3": 10}
            assert login.do("answer = s.run('print(rank)').ranks[3].stdout") == "3\n"
            assert len(tunnels(login)) == 1
            assert [one for one in beyond_loopback(hosts, "login") if one not in before] == []
            mode = hosts.on("login", "stat -c %a /tmp/jupyter_ddl-tunnel-*/* | sort -u")
            assert mode == "600\n"
            # The tunnel ends in the middle of a cell.
            login.do("run = s.submit('import time\\ntime.sleep(600)')")
            kill_at_once(tunnels(login))
            with pytest.raises(KernelError, match=r"can no longer read its ranks' events \(SSH's tunnel to nodea has"):
                login.do("run.wait()")
            assert eventually(lambda: not folders(hosts))
            first.do("s.interrupt()")
            with kernel(dict(environment(hosts)), within=hosts.enter("login")) as second:
                second.do("import jupyter_ddl\ns = jupyter_ddl.attach('far')")
                assert second.do("answer = s.pull('x')") == {"0": 7, "1": 8, "2": 9, "3": 10}
                # A kernel that is killed leaves no tunnel.
                hosts.on("login", f"kill -9 {second.do('import os; answer = os.getpid()')}")
                assert eventually(lambda: not processes_of(second) and not folders(hosts))
            with kernel(dict(environment(hosts)), within=hosts.enter("login")) as third:
                third.do("import jupyter_ddl\ns = jupyter_ddl.attach('far')\ns.stop()")
                assert eventually(lambda: not processes_of(first) and not tunnels(third) and not folders(hosts))


def test_a_host_that_ssh_does_not_reach_either(hosts: Rig, login: Kernel) -> None:
    code = (
        "import jupyter_ddl\nfrom jupyter_ddl.cluster import tunnel, registry\n"
        "from jupyter_ddl.cluster.folder import ClusterFolder\n"
        "s = jupyter_ddl.start(n=1, name='here')\nregistry.host_of = lambda _: 'nodea'\n"
        "folder = ClusterFolder('here')\nanswer = tunnel.is_needed(folder)\n"
    )
    assert login.do(code) is False
    with pytest.raises(
        KernelError, match=r"nodea, where the ranks' controller is, must be reachable.*Connection refused"
    ):
        login.do(f"tunnel.Tunnel(folder, {hosts.ssh + ' -p 2223'!r}, print)")
    assert not folders(hosts)
    login.do("s.stop()")

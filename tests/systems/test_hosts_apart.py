"""Ranks on hosts that share no folder with their kernel's: all that they wrote comes to the kernel's, whatever ends."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import NODES, Rig, environment
from systems.test_hosts import ALL_IN_A_COLLECTIVE, TRAINS, left_on, processes_of, start

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

# Every host has a /tmp of its own.
OWN = "/tmp/own"
OWN_FOLDERS = {"JUPYTER_DDL_RUNTIME": f"{OWN}/runtime", "JUPYTER_DDL_RUNS": f"{OWN}/runs"}
LINES = 20_000
PRINTS = f"""
for line in range({LINES}):
    print(f"line {{line}} of rank {{rank}}")
"""
KEEPS_PRINTING = f"{PRINTS}\n{ALL_IN_A_COLLECTIVE}"


@contextmanager
def apart_kernel(hosts: Rig) -> Iterator[Kernel]:
    """Give a kernel whose folders, and working folder, no other host has."""
    with kernel(dict(environment(hosts, **OWN_FOLDERS)), within=hosts.enter("login")) as other:
        other.do(f"import os\nos.makedirs({OWN!r} + '/work', exist_ok=True)\nos.chdir({OWN!r} + '/work')")
        yield other
    hosts.on("login", f"rm -rf {OWN}")


@pytest.fixture
def login(hosts: Rig) -> Iterator[Kernel]:
    with apart_kernel(hosts) as other:
        yield other


def log_of(hosts: Rig, rank: int, host: str = "login") -> str:
    """Return a rank's log of the newest run, as the kernel's host has it."""
    # By its code, which is written once: an earlier run's folder changes where its last files come later.
    newest = f"dirname $(ls -t {OWN}/runs/*/cell.py | head -1)"
    return hosts.on(host, f"cat $({newest})/rank-{rank}.log 2>/dev/null || true")


def all_lines(rank: int) -> str:
    return "".join(f"line {line} of rank {rank}\n" for line in range(LINES))


def test_ranks_train_as_on_one_host_and_their_logs_come(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts))
    note = login.do("answer = s._cluster.spec.note")
    assert "No folder of runs is shared with nodea, nodeb: the ranks' files are brought from there." in note
    assert f"{OWN}/work is not on nodea, nodeb: ranks there work in the home." in note
    login.do(f"s.run({PRINTS!r})")
    for rank in (0, 3):
        assert eventually(lambda rank=rank: log_of(hosts, rank) == all_lines(rank))
    events = hosts.on("login", f"cat {OWN}/runs/*/rank-3.events.jsonl")
    assert '"RankFinished"' in events or "finished" in events
    login.do(f"s.run({TRAINS!r})")
    on_two = login.do("answer = s.pull('weights')")
    login.do("s.stop()")
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)
    assert login.do("import os\nanswer = len(os.listdir(os.environ['JUPYTER_DDL_RUNS']))") == 2
    login.do(f"s = jupyter_ddl.start(n=4)\ns.run({TRAINS!r})")
    on_one = login.do("answer = s.pull('weights')\ns.stop()")
    for rank, weights in on_two.items():
        assert weights == pytest.approx(on_one[rank], abs=1e-12)


@pytest.mark.slow
def test_a_rank_that_is_killed_is_named_and_its_whole_log_comes(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False) + "\ns._cluster.wait_warm()")
    host, pid = login.do("answer = s.ranks[2].host, s.ranks[2].pid")
    assert host == NODES[1]
    login.do(
        f"import subprocess, threading\nthreading.Timer(6, lambda: subprocess.run({hosts.ssh!r}.split() + "
        f"[{host!r}, 'kill -9 {pid}'])).start()"
    )
    with pytest.raises(KernelError, match=r"Received: rank 2 on nodeb was ended by signal 9 \(Killed\)"):
        login.do(f"s.run({KEEPS_PRINTING!r})")
    for rank in range(4):
        assert all_lines(rank) in log_of(hosts, rank), rank
    login.do("s.stop()")
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def test_a_kernel_that_is_killed_leaves_nothing_on_the_hosts_and_loses_no_line(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts))
    login.send(f"s.run({KEEPS_PRINTING!r})")
    own = "cat /tmp/jupyter_ddl-apart_*/runs/*/rank-3.log 2>/dev/null || true"
    assert eventually(lambda: f"line {LINES - 1} of rank 3" in hosts.on("nodeb", own))
    login.inside.kill()
    assert eventually(lambda: not login.descendants())
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)
    assert all_lines(3) in log_of(hosts, 3)


@pytest.mark.slow
def test_ranks_that_are_kept_serve_a_kernel_that_attaches(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, name="kept", keep=True))
    login.send(f"s.run({KEEPS_PRINTING!r})")
    own = "cat /tmp/jupyter_ddl-apart_*/runs/*/rank-3.log 2>/dev/null || true"
    assert eventually(lambda: f"line {LINES - 1} of rank 3" in hosts.on("nodeb", own))
    login.inside.kill()
    with apart_kernel(hosts) as second:
        second.do("import jupyter_ddl\ns = jupyter_ddl.attach('kept')\ns.interrupt()")
        second.do("s.run('x = rank')")
        assert second.do("answer = s.pull('x')") == {"0": 0, "1": 1, "2": 2, "3": 3}
        second.do("s.stop()")
        assert not processes_of(second)
        assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.fixture
def agent(hosts: Rig) -> Iterator[str]:
    """The socket of an agent on the login node that has the key, which no file says."""
    where = hosts.folder / "agent"
    with subprocess.Popen(
        [*hosts.enter("login"), "ssh-agent", "-D", "-a", where], stdout=subprocess.DEVNULL
    ) as process:
        assert eventually(where.exists)
        hosts.on("login", f"SSH_AUTH_SOCK={where} ssh-add -q {hosts.folder}/id")
        yield str(where)
        process.terminate()


@pytest.mark.slow
def test_an_agent_and_another_port_are_as_ssh_has_them(hosts: Rig, login: Kernel, agent: str) -> None:
    known = f"-o UserKnownHostsFile={hosts.folder}/known_hosts"
    ssh = f"ssh -F /dev/null {known} -o IdentityAgent={agent} -p 2222"
    login.do(f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea:1,nodeb:1', ssh={ssh!r})")
    login.do("s.run('import os\\nwhere = os.uname().nodename')")
    assert login.do("answer = s.pull('where')") == {"0": "nodea", "1": "nodeb"}
    login.do("s.stop()")
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)

"""Hosts that let nothing in but SSH: ranks start through it, and a kernel attaches to them through it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import ADDRESSES, NODES, Rig, environment, kill_at_once
from systems.test_hosts import ALL_IN_A_COLLECTIVE, TRAINS, WATCHED, beyond_loopback, left_on, processes_of, start
from systems.test_hosts_apart import KEEPS_PRINTING, LINES, OWN, all_lines, apart_kernel, log_of

from jupyter_ddl.paths import HOST_LOST_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

pytestmark = [pytest.mark.mpi, pytest.mark.systems]


LOST_AFTER_S = 20


@pytest.fixture
def behind(hosts: Rig) -> Iterator[Kernel]:
    """A kernel on the login node, into which a firewall lets nothing but SSH; hosts may stay away for LOST_AFTER_S."""
    variables = dict(environment(hosts, **{HOST_LOST_VARIABLE: str(LOST_AFTER_S)}))
    with hosts.ssh_alone("login"), kernel(variables, within=hosts.enter("login")) as other:
        yield other


def test_ranks_that_cannot_connect_back_start_through_ssh_and_train_as_on_one_host(hosts: Rig, behind: Kernel) -> None:
    before = beyond_loopback(hosts, "login")
    behind.do("steps = []\n" + start(hosts).replace("ssh=", "progress=steps.append, ssh="))
    steps = behind.do("answer = steps")
    assert steps.count("nodea, nodeb cannot connect to this host: starting through SSH, from nodea") == 1
    said = "Through SSH: hosts cannot connect to this one, so nodea holds the ranks."
    assert behind.do("answer = s.note") == f"4 ranks on 2 hosts (nodea, nodeb). {said}"
    assert [one for one in beyond_loopback(hosts, "login") if one not in before] == []
    behind.do(f"s.run({TRAINS!r})")
    on_two = behind.do("answer = s.pull('weights')")
    behind.do("run = s.submit('import time\\ntime.sleep(600)')\nimport time\ntime.sleep(1)\ns.interrupt()")
    with pytest.raises(KernelError, match=r"RunInterrupted"):
        behind.do("run.wait()")
    # New ranks go the same way, and say so.
    behind.do("s.restart()\ns.run('x = 7 + rank')")
    assert behind.do("answer = s.pull('x')") == {"0": 7, "1": 8, "2": 9, "3": 10}
    assert behind.do("answer = s.note") == f"4 ranks on 2 hosts (nodea, nodeb). {said}"
    behind.do("s.stop()")
    assert eventually(lambda: not processes_of(behind)), processes_of(behind)
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)
    behind.do(f"s = jupyter_ddl.start(n=4)\ns.run({TRAINS!r})")
    on_one = behind.do("answer = s.pull('weights')\ns.stop()")
    for rank, weights in on_two.items():
        assert weights == pytest.approx(on_one[rank], abs=1e-12)


def test_a_kernel_that_is_killed_leaves_nothing_behind_ssh(hosts: Rig, behind: Kernel) -> None:
    behind.do(start(hosts))
    behind.send(f"s.run({ALL_IN_A_COLLECTIVE!r})")
    assert eventually(lambda: len(processes_of(behind)) > len(NODES) * 4)
    behind.inside.kill()
    assert eventually(lambda: not behind.descendants()), behind.descendants()
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)
    assert eventually(lambda: not folders(hosts))


def test_a_first_host_that_does_not_reach_the_others_is_said(hosts: Rig, behind: Kernel) -> None:
    rule = f"ip saddr {ADDRESSES['nodea']} tcp dport 22 reject with tcp reset"
    hosts.on(
        "nodeb",
        "nft add table inet apart && nft 'add chain inet apart in { type filter hook input priority 0; }' && "
        f"nft add rule inet apart in {rule}",
    )
    try:
        with pytest.raises(KernelError) as caught:
            behind.do(start(hosts))
    finally:
        hosts.on("nodeb", "nft delete table inet apart")
    first, second = str(caught.value).splitlines()
    assert first.startswith("HostUnfit: Seen from nodea: nodeb must answer SSH. Received: ssh: connect to host nodeb")
    assert "`ssh nodeb` must work there too, without a password." in second
    assert processes_of(behind) == []


def test_a_start_that_is_cancelled_ends_on_the_first_host_too(hosts: Rig, behind: Kernel) -> None:
    code = (
        "import threading\ngiven_up = threading.Event()\n"
        "from jupyter_ddl.cluster import planning, starting\nfrom jupyter_ddl.launch.place_options import place_of\n"
        f"spec = planning.plan(place=place_of('nodea:2,nodeb:2', ssh={hosts.ssh!r}))\n"
        "def step(text):\n    if text.startswith('nodea: '): given_up.set()\n"
        "starting.start(spec, step, given_up)"
    )
    with pytest.raises(KernelError, match=r"The start was cancelled"):
        behind.do(code)
    assert eventually(lambda: not processes_of(behind)), processes_of(behind)
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.mark.slow
@pytest.mark.parametrize("is_busy", [True, False])
def test_a_cut_to_the_first_host_is_named_and_its_ranks_end(hosts: Rig, behind: Kernel, *, is_busy: bool) -> None:
    behind.do(start(hosts, rebuild=False) + WATCHED)
    if is_busy:
        behind.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    with hosts.cut("nodea"):
        began_s = time.monotonic()
        named = (
            r"(nodea has not answered for 2\d s: |the SSH connection to nodea, through which its ranks are held, ended "
            r"\(.*nodea not responding|SSH's tunnel to nodea has ended: .*nodea not responding)"
        )
        if not is_busy:
            assert eventually(lambda: behind.do("answer = s.state") is not None, LOST_AFTER_S + 15)
        with pytest.raises(KernelError, match=named):
            behind.do("run.wait()" if is_busy else "s.run('x = 1')")
        assert time.monotonic() - began_s < LOST_AFTER_S + 30
        # Not for what the kernel does: that cannot reach them.
        assert eventually(lambda: not processes_of(behind), 2 * LOST_AFTER_S + 30), processes_of(behind)
    behind.do("s.restart()\ns.run('x = rank')\ns.stop()")
    assert eventually(lambda: not processes_of(behind)), processes_of(behind)
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.mark.slow
def test_ranks_that_die_or_whose_connection_breaks_are_replaced_through_ssh(hosts: Rig, behind: Kernel) -> None:
    behind.do(start(hosts, rebuild=True))
    for what in ("rank", "connection"):
        pid = behind.do("run = s.submit('import time\\ntime.sleep(600)')\nanswer = s.ranks[2].pid")
        if what == "rank":
            hosts.on("nodeb", f"kill -9 {pid}")
        else:
            link = "jupyter_ddl.cluster.head_link"
            (held,) = [one for one in processes_of(behind) if link in one.cmdline() and one.name() == "python"]
            kill_at_once(held.children())
        named = {"rank": r"rank 2 on nodeb was ended by signal 9", "connection": r"the SSH connection to nodea, .* 9\)"}
        with pytest.raises(KernelError, match=named[what]):
            behind.do("run.wait()")
        behind.do("s.run('x = 40 + rank')")
        assert behind.do("answer = s.pull('x')") == {"0": 40, "1": 41, "2": 42, "3": 43}
    behind.do("s.stop()")
    assert eventually(lambda: not processes_of(behind)), processes_of(behind)


@pytest.mark.slow
def test_ranks_that_are_kept_behind_ssh_serve_the_next_kernel(hosts: Rig, behind: Kernel) -> None:
    behind.do(start(hosts, name="kept", keep=True))
    behind.do("s.run('x = rank')")
    behind.inside.kill()
    # What held the connection does not stay.
    assert eventually(lambda: hosts.on("login", "ps -C ssh -o pid= || true") == "")
    with kernel(dict(environment(hosts)), within=hosts.enter("login")) as second:
        second.do("import jupyter_ddl\ns = jupyter_ddl.attach('kept')")
        assert second.do("answer = s.pull('x')") == {"0": 0, "1": 1, "2": 2, "3": 3}
        second.do("s.stop()")
    assert eventually(lambda: not behind.descendants()), behind.descendants()
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.fixture
def apart(hosts: Rig) -> Iterator[Kernel]:
    """A kernel behind a firewall, whose folders no other host has."""
    with hosts.ssh_alone("login"), apart_kernel(hosts) as other:
        yield other
    # The first host has its own folders of clusters and runs.
    for node in NODES:
        hosts.on(node, f"rm -rf {OWN}")


def left_beside_folders(hosts: Rig) -> str:
    return left_on(hosts).replace(Path(OWN).name, "", 1)


def has_printed(hosts: Rig, rank: int, host: str) -> bool:
    """Return whether a rank has printed all lines in the newest run, as its own host has it."""
    # By time: two runs may begin within the second that their names have.
    own = f"cat $(ls -dt /tmp/jupyter_ddl-apart_*/runs/* | head -1)/rank-{rank}.log 2>/dev/null || true"
    return f"line {LINES - 1} of rank {rank}" in hosts.on(host, own)


@pytest.mark.slow
def test_ranks_start_through_ssh_where_no_folder_is_shared(hosts: Rig, apart: Kernel) -> None:
    apart.do(start(hosts, rebuild=True) + "\ns._cluster.wait_warm()")
    note = apart.do("answer = s.note")
    assert "Through SSH: hosts cannot connect to this one, so nodea holds the ranks." in note
    assert "No folder of runs is shared with nodea, nodeb: the ranks' files are brought from there." in note
    assert f"{OWN}/work is not on nodea, nodeb: ranks there work in the home." in note
    apart.do("s.run('print(rank)')")
    for rank in (0, 3):
        assert eventually(lambda rank=rank: log_of(hosts, rank) == f"{rank}\n")
    apart.do(f"run = s.submit({KEEPS_PRINTING!r})")
    pid = apart.do("answer = s.ranks[2].pid")
    assert eventually(lambda: all(has_printed(hosts, rank, NODES[rank // 2]) for rank in range(4)), 60)
    hosts.on("nodeb", f"kill -9 {pid}")
    with pytest.raises(KernelError, match=r"Received: rank 2 on nodeb was ended by signal 9 \(Killed\)"):
        apart.do("run.wait()")
    for rank in range(4):
        assert all_lines(rank) in log_of(hosts, rank), rank
    apart.do("s.run('x = 40 + rank')")
    assert apart.do("answer = s.pull('x')") == {"0": 40, "1": 41, "2": 42, "3": 43}
    apart.do("s.stop()")
    assert eventually(lambda: not processes_of(apart)), processes_of(apart)
    assert eventually(lambda: left_beside_folders(hosts) == ""), left_on(hosts)
    # The keys, and what stood for the cluster's folder, are gone.
    assert hosts.on("login", f"find {OWN}/runtime /tmp -name 'ipcontroller*'") == ""


@pytest.mark.slow
def test_a_killed_kernel_behind_ssh_loses_no_line_where_no_folder_is_shared(hosts: Rig, apart: Kernel) -> None:
    apart.do(start(hosts) + "\ns._cluster.wait_warm()")
    apart.send(f"s.run({KEEPS_PRINTING!r})")
    assert eventually(lambda: has_printed(hosts, 3, "nodeb"), 60)
    apart.inside.kill()
    assert eventually(lambda: not apart.descendants()), apart.descendants()
    assert eventually(lambda: left_beside_folders(hosts) == ""), left_on(hosts)
    assert all_lines(3) in log_of(hosts, 3)
    assert hosts.on("login", f"find {OWN}/runtime /tmp -name 'ipcontroller*'") == ""


@pytest.mark.slow
def test_ranks_that_are_kept_behind_ssh_take_a_shared_folder(hosts: Rig, apart: Kernel) -> None:
    with pytest.raises(KernelError, match=r"HostUnfit: Ranks that are started through SSH and kept must be found"):
        apart.do(start(hosts, keep=True))


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

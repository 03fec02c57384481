"""What becomes of ranks whose host stays away, comes back, is slow, or cannot be asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import NODES, Rig, environment, kill_at_once
from systems.test_hosts import ALL_IN_A_COLLECTIVE, SAID, WATCHED, left_on, processes_of, start

from jupyter_ddl.paths import HOST_LOST_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

LOST_AFTER_S = 20
ANSWERS_S = 6
AWAY = "nodeb does not answer: it is down, or its network is"


@pytest.fixture
def login(hosts: Rig) -> Iterator[Kernel]:
    """A kernel on the login node whose hosts may stay away for LOST_AFTER_S."""
    variables = dict(environment(hosts, **{HOST_LOST_VARIABLE: str(LOST_AFTER_S)}))
    with kernel(variables, within=hosts.enter("login")) as other:
        yield other


def test_a_host_that_stays_away_is_lost_and_the_next_cell_runs_without_it(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild="shrink") + WATCHED)
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    with hosts.cut("nodeb"):
        began_s = time.monotonic()
        lost = r"Received: nodeb has not answered for 2\d s: .* with it ranks 2-3\."
        with pytest.raises(KernelError, match=rf"(?s){lost}.*2 new ranks are being started on the hosts that are left"):
            login.do("run.wait()")
        assert time.monotonic() - began_s < LOST_AFTER_S + 15
        login.do("s.run('import socket; x = socket.gethostname()')")
        assert login.do("answer = s.pull('x')") == {"0": "nodea", "1": "nodea"}
        assert login.do("answer = s.note").endswith("2 ranks on 1 host (nodea), without nodeb, which was lost.")
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.mark.slow
def test_a_host_that_comes_back_in_time_continues(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False) + WATCHED)
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    with hosts.cut("nodeb"):
        time.sleep(5)
    assert login.do(SAID) == []
    login.do("s.interrupt()")
    login.do("s.run('x = rank')\ns.stop()")


@pytest.mark.slow
def test_a_host_that_is_away_for_just_as_long_as_it_may_continues(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False) + WATCHED)
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    with hosts.cut("nodeb"):
        time.sleep(LOST_AFTER_S)
    assert eventually(lambda: sorted(login.do(SAID))[1::2] == [[2, AWAY], [3, AWAY]], 30), login.do(SAID)
    assert eventually(lambda: sorted(login.do(SAID))[::2] == [[2, "back"], [3, "back"]], 60), login.do(SAID)
    login.do("s.interrupt()")
    login.do("s.run('x = rank')\ns.stop()")


@pytest.mark.slow
def test_a_host_that_is_away_for_longer_than_it_may_is_lost_also_where_it_comes_back(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False) + WATCHED)
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    with hosts.cut("nodeb"):
        # It is asked then, and has some seconds to answer.
        time.sleep(LOST_AFTER_S + ANSWERS_S)
    with pytest.raises(KernelError, match=r"Received: nodeb has not answered for 2\d s: "):
        login.do("run.wait()")
    login.do("s.restart()\ns.run('x = rank')\ns.stop()")
    assert eventually(lambda: not processes_of(login))
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.mark.slow
def test_a_host_that_is_away_for_ever_is_said_by_the_next_cell(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts) + WATCHED)
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    with hosts.cut("nodeb"):
        with pytest.raises(KernelError, match=r"Received: nodeb has not answered for 2\d s: "):
            login.do("run.wait()")
        with pytest.raises(KernelError, match=r"New ones did not come up: nodeb must answer SSH\."):
            login.do("s.run('x = rank')")
    login.do("s.restart()\ns.run('x = rank')\ns.stop()")


@pytest.mark.slow
def test_a_slow_link_is_no_alarm(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False) + WATCHED)
    with hosts.slowed("nodeb", 200):
        login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
        time.sleep(LOST_AFTER_S + 5)
        assert login.do(SAID) == []
        login.do("s.interrupt()")
        login.do("s.run('x = rank')")
    login.do("s.stop()")


@pytest.mark.slow
def test_a_host_without_sshd_is_not_taken_for_one_that_is_down(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False) + WATCHED)
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    pid = login.do("answer = s.ranks[3].pid")
    with hosts.without_sshd("nodeb"):
        hosts.on("nodeb", f"kill -STOP {pid}")
        assert eventually(lambda: len(login.do(SAID)) == 1)
        assert login.do(SAID) == [[3, f"its process, {pid} on nodeb, cannot be looked at from here"]]
        hosts.on("nodeb", f"kill -CONT {pid}")
        assert eventually(lambda: [3, "back"] in login.do(SAID))
    login.do("s.interrupt()")
    login.do("s.run('x = rank')\ns.stop()")


def test_a_kill_of_everything_leaves_nothing_on_any_host(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts))
    login.send(f"s.run({ALL_IN_A_COLLECTIVE!r})")
    ours = [one for one in login.descendants() if "jupyter_ddl.cluster.witness" not in one.cmdline()]
    assert len(ours) > len(NODES) * 4
    folders = [hosts.on(node, "ls -A /tmp /dev/shm") for node in NODES]
    assert all(listed.count("jupyter_ddl-") == 2 for listed in folders), folders
    kill_at_once(ours)
    assert eventually(lambda: not login.descendants())
    assert left_on(hosts) == ""


@pytest.mark.slow
def test_what_a_kill_of_the_witnesses_too_leaves_on_any_host_the_next_start_removes(hosts: Rig, login: Kernel) -> None:
    listed = "ls -A /tmp /dev/shm"
    before = hosts.on("login", listed)
    login.do(start(hosts))
    kill_at_once(login.descendants())
    assert eventually(lambda: not login.descendants())
    assert left_on(hosts) != ""
    with kernel(dict(environment(hosts)), within=hosts.enter("login")) as second:
        second.do(start(hosts) + "\ns.run('x = rank')\ns.stop()")
        assert eventually(lambda: not processes_of(second))
    assert set(hosts.on("login", listed).split()) <= set(before.split())
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ranks_whose_controller_stays_away_end_by_themselves(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False))
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    with hosts.cut("login"):
        assert eventually(lambda: not [one for node in NODES for one in ranks_on(hosts, node)], 300)
        assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def ranks_on(hosts: Rig, node: str) -> list[str]:
    lines = hosts.on(node, "ps -eo args").splitlines()
    return [line for line in lines if "jupyter_ddl" in line or "prted" in line]

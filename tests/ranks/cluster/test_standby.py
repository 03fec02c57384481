"""Ranks that stand by: made when idle, they take over when ranks are lost, restarted or started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from ranks.kernels import without
from ranks.sizes import slow_but

import jupyter_ddl
from jupyter_ddl.cluster import starting
from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.cluster.standby import Standby
from jupyter_ddl.kernel.current import sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

PATIENCE_S = 60.0
PIDS = "import os; os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return what makes ranks that have no TensorFlow to import."""
    return without(tmp_path, "tensorflow")


@pytest.fixture
def idle(environment: dict[str, str]) -> Iterator[Session]:
    """Return a session of two ranks beside which two others will wait: pytest changes a variable before the test."""
    with jupyter_ddl.start(n=2, name="stood-by", env=environment, standby="auto") as session:
        yield session
    sessions().standby.end()


def wait_for(what: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < ends_s
        time.sleep(0.05)


def made() -> list[int]:
    """Wait until ranks stand by; return their process, its mpiexec and theirs."""
    wait_for(lambda: sessions().standby.pid is not None)
    holder = psutil.Process(sessions().standby.pid)
    return [holder.pid, *(child.pid for child in holder.children(recursive=True))]


def gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) for pid in pids)


def assert_are(session: Session, pids: list[int]) -> None:
    """Hold that the session's ranks are processes that stood by, at the usual priority."""
    values = [result.value or "" for result in session.run(PIDS).ranks.values()]
    assert {ready.pid for ready in session.ranks} < set(pids)
    assert all(value.endswith(", 0)") for value in values)


def test_killed_ranks_are_replaced_by_those_that_stood_by_again_and_again(idle: Session) -> None:
    for _ in range(2):
        pids = made()
        idle.run("x = rank")
        os.kill(idle.ranks[1].pid, signal.SIGKILL)
        wait_for(lambda: idle.state is not None)
        assert_are(idle, pids)


def test_a_restart_takes_them_and_one_with_other_settings_does_not(idle: Session) -> None:
    pids = made()
    idle.restart()
    assert_are(idle, pids)
    pids = made()
    idle.restart(n=1)
    assert gone(pids)
    assert idle.run("rank").ranks.keys() == {0}


def test_after_a_stop_the_next_start_takes_them(idle: Session, environment: dict[str, str]) -> None:
    pids = made()
    idle.stop()
    with jupyter_ddl.start(n=2, name="stood-by", env=environment, standby="auto") as again:
        assert_are(again, pids)


@pytest.mark.slow
def test_a_variable_that_was_set_since_is_not_missed(idle: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = made()
    monkeypatch.setenv("SET_SINCE", "yes")
    idle.restart()
    assert gone(pids)
    assert {result.value for result in idle.run("import os; os.environ['SET_SINCE']").ranks.values()} == {"'yes'"}


@pytest.mark.slow
def test_none_stand_by_where_they_are_not_wanted(environment: dict[str, str]) -> None:
    with jupyter_ddl.start(n=2, name="alone", env=environment) as session:
        session.wait_warm()
        time.sleep(5)
        assert sessions().standby.pid is None
        assert not session.has_standby


@pytest.mark.slow
def test_none_are_made_without_memory_and_they_end_where_it_gets_short(environment: dict[str, str]) -> None:
    free = [0]
    standby = Standby(available=lambda: free[0])
    cluster = starting.start(plan(2, name="short", environment=environment, standby="auto"), standby=standby)
    try:
        time.sleep(5)
        assert standby.pid is None
        free[0] = 1 << 50
        wait_for(lambda: standby.pid is not None)
        holder = psutil.Process(standby.pid)
        pids = [holder.pid, *(child.pid for child in holder.children(recursive=True))]
        free[0] = 0
        wait_for(lambda: gone(pids))
    finally:
        cluster.stop()
        standby.end()


KERNEL = """
import sys, time
import jupyter_ddl
from jupyter_ddl.kernel.current import sessions
session = jupyter_ddl.start(n=2, name="orphans", env={environment!r}, standby="auto")
while sessions().standby.pid is None:
    time.sleep(0.05)
print(sessions().standby.pid, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("end", slow_but({"kill"}, ["kill", "exit", "holder", "mpiexec"]))
def test_no_way_out_leaves_one_of_them(environment: dict[str, str], end: str) -> None:
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL.format(environment=environment)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with kernel:
        assert kernel.stdout is not None
        assert kernel.stdin is not None
        holder = psutil.Process(int(kernel.stdout.readline()))
        pids = [holder.pid, *(child.pid for child in holder.children(recursive=True))]
        if end == "kill":
            kernel.kill()
        elif end == "exit":
            kernel.stdin.close()
        else:
            (holder if end == "holder" else holder.children()[0]).kill()
            # The kernel, which is its parent, notes it.
            wait_for(lambda: all(not psutil.pid_exists(pid) or is_zombie(pid) for pid in pids))
            kernel.stdin.close()
    wait_for(lambda: gone(pids))


def is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True

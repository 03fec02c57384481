"""A rank's process that ends, in whatever way and whatever lives on beside it: the cell says so, and new ranks come."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psutil
import pytest

import jupyter_ddl
from jupyter_ddl.errors import ClusterLost, ClusterStartFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# Until the loss is told: 5 s are promised, on a machine that does nothing else.
TOLD_S = 20.0
HOST = socket.gethostname()
FOR_EVER = "import time\nwhile True: time.sleep(0.1)"


@pytest.fixture
def session(bare: Session) -> Session:
    return bare


def lost(session: Session, hit: Callable[[], None], code: str = FOR_EVER) -> str:
    """Run a cell, do something while it runs, and return what it raised; the next cell must work."""
    timer = threading.Timer(0.5, hit)
    timer.start()
    began_s = time.monotonic()
    with pytest.raises(ClusterLost) as error:
        session.run(code, timeout_s=3 * TOLD_S)
    timer.join()
    assert time.monotonic() - began_s < TOLD_S
    session.wait_rebuilt()
    assert session.run("rank + world_size").ranks[1].value == "3"
    return str(error.value)


def signal_to(pid: int, signum: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(pid, signum)


# What rank 1 leaves behind.
CHILDREN = {
    "a worker that fills a queue": """
context = multiprocessing.get_context("fork")
queue = context.Queue(10)
def fill():
    while True: queue.put(b"x" * 1000)
context.Process(target=fill, daemon=True).start()
""",
    "a busy pool": "work = multiprocessing.get_context('fork').Pool(2).map_async(time.sleep, [1000] * 4)",
    "a fork in a session of its own, which ignores SIGTERM": """
if os.fork() == 0:
    os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000); os._exit(0)
""",
    "a daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    time.sleep(1000); os._exit(0)
os.wait()
""",
    "a child that a thread forked": """
def fork():
    if os.fork() == 0:
        time.sleep(1000); os._exit(0)
    time.sleep(1000)
threading.Thread(target=fork, daemon=True).start()
""",
    "a child that C code forked": """
if ctypes.PyDLL(None).fork() == 0:
    time.sleep(1000); os._exit(0)
""",
    "a process that was spawned": """
multiprocessing.get_context("spawn").Process(target=time.sleep, args=(1000,), daemon=True).start()
""",
    "processes of a fork server": """
multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(1000,), daemon=True).start()
""",
    "a program in a session of its own": "subprocess.Popen(['sleep', '1000'], start_new_session=True)",
}
QUICK = {"a fork in a session of its own, which ignores SIGTERM"}
IMPORTS = "import ctypes, multiprocessing, os, signal, subprocess, threading, time\n"


def marked(names: Iterator[str] | dict[str, str], quick: set[str]) -> list[object]:
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def leave_behind(session: Session, what: str) -> list[psutil.Process]:
    """Have rank 1 start processes, and return them."""
    before = {process.pid for process in psutil.process_iter()}
    session.run(f"if rank == 1:\n    exec({IMPORTS + CHILDREN[what]!r}, globals())\n    time.sleep(0.5)", timeout_s=60)
    mine = psutil.Process(session.ranks[1].pid)
    marks = _marks(mine)
    assert marks
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in before and process != mine and _marks(process) == marks
    ]


def _marks(process: psutil.Process) -> dict[str, str]:
    """Return what all processes of one rank inherit: other tests' ranks start beside these."""
    try:
        environment = process.environ()
    except psutil.Error:
        return {}
    return {name: environment[name] for name in ("PMIX_NAMESPACE", "PMIX_RANK") if name in environment}


@pytest.mark.parametrize("what", marked(CHILDREN, QUICK))
def test_a_killed_rank_whose_children_live(session: Session, what: str) -> None:
    children = leave_behind(session, what)
    assert children
    told = lost(session, signal_to(session.ranks[1].pid, signal.SIGKILL))
    assert f"rank 1 on {HOST} was ended by signal 9 (Killed)" in told
    _, alive = psutil.wait_procs(children, timeout=TOLD_S)
    assert not alive


def test_children_can_be_ended_as_anywhere(session: Session) -> None:
    code = (
        "import multiprocessing, time\n"
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,))\n"
        "child.start(); child.terminate(); child.join(20)\n"
        "child.exitcode"
    )
    assert session.run(code).ranks[0].value == "-15"


def test_a_child_that_raises_or_runs_on_reports_nothing_for_its_rank(session: Session) -> None:
    code = (
        "import os\nif os.fork() == 0:\n    raise ValueError('of the child')\nos.waitstatus_to_exitcode(os.wait()[1])"
    )
    result = session.run(code)
    assert result.ranks[1].value == "1"
    assert "ValueError" in result.ranks[1].stderr
    assert (
        session.run("import os\npid = os.fork()\nif pid: os.wait()\nprint('once')").ranks[0].stdout.count("once") == 2
    )
    assert session.run("pid > 0").ranks[0].value == "True"


def test_a_rank_that_is_killed_after_it_wrote_what_is_no_text(session: Session) -> None:
    """Into mpiexec's output, as C code's dying words: the end of mpiexec was then never told."""
    session.run("import os\nos.write(get_ipython().kernel.parent.leaving.log, b'\\xff\\xfe\\n')\nNone")
    told = lost(session, signal_to(session.ranks[1].pid, signal.SIGKILL))
    assert f"rank 1 on {HOST} was ended by signal 9 (Killed)" in told


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    process.suspend()
    try:
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            process.resume()


# tests/pure/test_rank_processes.py has the lease's side of it.
@pytest.mark.slow
def test_a_rank_that_dies_while_mpiexec_is_stopped(session: Session) -> None:
    victim = psutil.Process(session.ranks[1].pid)
    with stopped(victim.parent()):
        told = lost(session, victim.kill)
    assert f"rank 1 on {HOST} was ended by signal 9 (Killed)" in told


@pytest.mark.slow
def test_a_rank_that_dies_while_the_lease_is_stopped(session: Session) -> None:
    lease = psutil.Process(session._cluster._lease.pid)
    with stopped(lease):
        told = lost(session, psutil.Process(session.ranks[1].pid).kill)
    assert "rank 1" in told or "ranks 0-1 are gone" in told


IN_A_LOOP, ASLEEP = "while True: pass", "import time; time.sleep(600)"
IN_MPI = "from mpi4py import MPI\nMPI.COMM_WORLD.recv(source=0, tag=77) if rank else time.sleep(600)"
SIGNALS = {
    "SIGTERM in a loop": (signal.SIGTERM, IN_A_LOOP, "Likely cause: a user or a batch system asked it to end."),
    "SIGTERM in sleep": (signal.SIGTERM, ASLEEP, "signal 15 (Terminated)"),
    "SIGTERM in MPI": (signal.SIGTERM, f"import time\n{IN_MPI}", "signal 15 (Terminated)"),
    "SIGQUIT": (signal.SIGQUIT, ASLEEP, "Likely cause: a user or a batch system asked it to end at once."),
    "SIGUSR1": (signal.SIGUSR1, ASLEEP, "Likely cause: a batch system's warning before the walltime"),
    "SIGUSR2": (signal.SIGUSR2, ASLEEP, "Likely cause: a batch system's warning before the walltime"),
    "SIGHUP": (signal.SIGHUP, ASLEEP, "signal 1 (Hangup)"),
}


@pytest.mark.parametrize("what", marked(SIGNALS, {"SIGTERM in MPI"}))
def test_a_signal_that_ends_one_rank_is_named(session: Session, what: str) -> None:
    signum, code, told = SIGNALS[what]
    assert told in lost(session, signal_to(session.ranks[1].pid, signum), code)


@pytest.mark.slow
def test_a_signal_to_all_ranks_at_once(session: Session) -> None:
    def hit() -> None:
        for ready in session.ranks:
            os.kill(ready.pid, signal.SIGTERM)

    assert "signal 15 (Terminated)" in lost(session, hit)


def test_a_rank_that_is_terminated_while_idle(session: Session) -> None:
    os.kill(session.ranks[1].pid, signal.SIGTERM)
    deadline_s = time.monotonic() + TOLD_S
    while session.state is None and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert session.state is not None
    session.wait_rebuilt()
    assert session.run("rank + 1").ranks[1].value == "2"


def test_a_rank_that_is_terminated_while_it_starts(tmp_path: Path) -> None:
    """Another rank waits for it in MPI, or has registered: the start ends, and says why."""
    code = "import os, signal\nif os.environ['OMPI_COMM_WORLD_RANK'] == '1': os.kill(os.getpid(), signal.SIGTERM)\n"
    (tmp_path / "psutil.py").write_text(f"{code}import time\ntime.sleep(600)\n")
    began_s = time.monotonic()
    with pytest.raises(ClusterStartFailed, match=r"rank 1 on \S+ was ended by signal 15 \(Terminated\)"):
        jupyter_ddl.start(n=2, name="starts", env={"PYTHONPATH": str(tmp_path)})
    assert time.monotonic() - began_s < 2 * TOLD_S


# What ends rank 1's service of cells, and what is told of it.
LOOP, THREAD = (
    "exited with status 113: the event loop in which it serves cells was ended",
    "exited with status 115: a thread",
)
ENDS = {
    "the loop is stopped": ("import asyncio; asyncio.get_running_loop().stop()", LOOP),
    "a callback exits": ("import asyncio, sys; asyncio.get_running_loop().call_soon(sys.exit)", LOOP),
    "the control thread is stopped": ("kernel = get_ipython().kernel\nkernel.control_thread.stop()", THREAD),
    "its descriptors are closed": ("import os\nos.closerange(3, 1000)", ""),
}


@pytest.mark.parametrize("what", marked(ENDS, {"the loop is stopped"}))
def test_a_rank_that_a_cell_has_ended(session: Session, what: str) -> None:
    code, told = ENDS[what]
    began_s = time.monotonic()
    # The cell itself may have come to its end before: then it is the next one that is lost.
    with pytest.raises(ClusterLost) as error:  # noqa: PT012
        session.run(f"if rank == 1:\n    exec({code!r})", timeout_s=3 * TOLD_S)
        session.run(FOR_EVER, timeout_s=3 * TOLD_S)
    assert time.monotonic() - began_s < TOLD_S
    assert f"rank 1 on {HOST} {told}" in str(error.value)
    session.wait_rebuilt()
    assert session.run("rank + 1").ranks[1].value == "2"


@pytest.mark.slow
def test_nothing_is_left_where_kernel_and_lease_are_killed(session: Session) -> None:
    """As much of it as can be staged: the lease is killed, and children of ranks are in sessions of their own."""
    children = leave_behind(session, "a fork in a session of its own, which ignores SIGTERM")
    family = psutil.Process(session.ranks[1].pid).children(recursive=True)
    assert any("last words" in " ".join(process.cmdline()) for process in family)
    told = lost(session, psutil.Process(session._cluster._lease.pid).kill)
    assert "the lease, which holds the cluster's processes, was killed" in told
    _, alive = psutil.wait_procs([*children, *family], timeout=TOLD_S)
    assert not alive

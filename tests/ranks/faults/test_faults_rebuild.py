"""Ranks that are lost are named, with what ended them, and replaced without being asked: the next cell works."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import threading
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from memory_cgroups import memory_cgroup
from ranks.kernel import Kernel
from ranks.kernels import eventually, without
from ranks.sizes import TWO_AND_FOUR

import jupyter_ddl
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import ClusterLost, NoCluster, RankError, SetupFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# Generous: what these faults take is in docs/faults.md.
DEADLINE_S = 30.0
STUCK = "\nimport ctypes\nctypes.PyDLL(None).poll(None, 0, 60_000)"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Session]]:
    """Give a world of each size that is asked for, without TensorFlow to import, and with setup cells."""
    environment = without(tmp_path_factory.mktemp("without"), "tensorflow")
    with ExitStack() as stack:

        @cache
        def of(n: int) -> Session:
            session = jupyter_ddl.start(n=n, name=f"rebuilt-{n}", env=environment)
            stack.callback(session.stop)
            for code in ("first = [rank]", "second = first + [world_size]", "first = [rank]"):
                session.run(code, setup=True)
            return session

        yield of


def lost(session: Session, code: str) -> str:
    """Run a cell that the ranks do not outlive; return what it raised, once the next cell has worked."""
    session.run("mine = 1")
    before = {ready.pid for ready in session.ranks}
    began_s = time.monotonic()
    with pytest.raises(ClusterLost) as error:
        session.run(code, sample_every_s=0.1)
    assert time.monotonic() - began_s < DEADLINE_S
    result = session.run("('mine' in globals(), first, second)")
    assert [result.ranks[rank].value for rank in range(session.world_size)] == [
        str((False, [rank], [rank, session.world_size])) for rank in range(session.world_size)
    ]
    assert not before & {ready.pid for ready in session.ranks}
    n = session.world_size
    text = str(error.value)
    assert f"\n{n} new ranks are being started on the same devices: the next cell waits for them. " in text
    assert "The variables on the ranks are lost, and 2 setup cells will be run again." in text
    return text


NO_MEMORY = """
    import ctypes, resource
    resource.setrlimit(resource.RLIMIT_AS, (2**30,) * 2)
    ctypes.CDLL('libstdc++.so.6')._Znwm(ctypes.c_size_t(2**33))"""
DEATHS = {
    "kill -9": ("os.kill(os.getpid(), 9)", "was ended by signal 9 (Killed). ", "a `kill -9`"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "was ended by signal 11 (Segmentation fault). ", "a crash in C"),
    "abort": ("os.abort()", "was ended by signal 6 (Aborted). ", "code called abort()"),
    "exit": ("os._exit(3)", "exited with status 3.", ""),
    "no memory": (
        NO_MEMORY,
        "was ended by signal 6 (Aborted). ",
        "it could get no more memory",
    ),
}

# tests/pure/test_rebuild_simulated.py has the others, and other sizes; the tests below end ranks by SIGKILL.
QUICK = {"segfault", "no memory"}


@pytest.mark.parametrize(
    ("death", "n"),
    [
        pytest.param(death, n, marks=() if n == 2 and death in QUICK else pytest.mark.slow)
        for death in DEATHS
        for n in (2, 4)
    ],
)
def test_a_rank_that_dies_is_named_and_replaced(sessions: Callable[[int], Session], death: str, n: int) -> None:
    session = sessions(n)
    code, how, why = DEATHS[death]
    # The others are in C with Python's lock, where no signal that Python handles ends them.
    text = lost(session, f"import os, time\nif rank == 1:\n    time.sleep(0.5)\n    {code}{STUCK}")
    ready = session.ranks[1]
    assert text.startswith(f"Ranks must live to the end of the cell. Received: rank 1 on {ready.host} {how}"), text
    assert re.search(r" s before it had [\d.]+ [MG]iB of memory", text), text
    assert why in text


@pytest.fixture
def small_cgroup() -> Iterator[Path]:
    """Give a memory cgroup of 256 MiB, where this machine lets us make one."""
    with memory_cgroup(f"ddl-test-{os.getpid()}", 256) as folder:
        yield folder


def test_a_rank_that_the_kernel_kills_for_memory(sessions: Callable[[int], Session], small_cgroup: Path) -> None:
    enter = f"open({str(small_cgroup / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))"
    text = lost(
        sessions(2),
        f"import os, time\nif rank == 1:\n    {enter}\n    time.sleep(0.5)\n    b'x' * 2**29\ntime.sleep(60)",
    )
    assert "rank 1 on " in text
    assert "was ended by signal 9 (Killed). " in text
    assert "Likely cause: the Linux kernel ended it for lack of memory" in text


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("jupyter_ddl.cluster.controller", "ipyparallel's controller ended with status"),
        ("prterun", "mpiexec was ended by signal 9 (Killed), and its ranks with it"),
        ("jupyter_ddl.cluster.lease", "the lease, which holds the cluster's processes, was killed"),
    ],
)
@pytest.mark.parametrize("n", TWO_AND_FOUR)
def test_what_holds_the_ranks_is_killed(sessions: Callable[[int], Session], n: int, part: str, told: str) -> None:
    lease = ClusterFolder(sessions(n).name).lease()
    assert lease is not None
    family = [lease, *lease.children(recursive=True)]
    victim = next(process for process in family if part in " ".join(process.cmdline()[:5]))
    threading.Timer(0.5, victim.kill).start()
    assert told in lost(sessions(n), "import time; time.sleep(600)")
    _, alive = psutil.wait_procs(family, timeout=DEADLINE_S)
    assert not alive


@pytest.mark.slow
def test_ranks_lost_while_idle_and_lost_once_more(sessions: Callable[[int], Session]) -> None:
    session = sessions(2)
    session.run("1")
    os.kill(session.ranks[0].pid, signal.SIGKILL)
    deadline_s = time.monotonic() + DEADLINE_S
    while (told := session.wait_rebuilt()) is None and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert f"rank 0 on {session.ranks[0].host} was ended by signal 9 (Killed). " in (told or "")
    assert session.wait_rebuilt() is None
    # Nobody has run a cell on the new ones: what ends them now may be what ended the old ones.
    os.kill(session.ranks[0].pid, signal.SIGKILL)
    assert eventually(lambda: session.state is not None, DEADLINE_S)
    with pytest.raises(ClusterLost, match="are not replaced once more"):
        session.run("1")
    session.restart()
    assert session.run("second").ranks[1].value == "[1, 2]"


def test_ranks_lost_while_a_value_is_on_its_way(sessions: Callable[[int], Session]) -> None:
    session = sessions(2)
    session.run("1")
    session.pull("rank")
    follower = session.submit("import time; time.sleep(600)")
    follower.follow_in_background()
    threading.Timer(0.5, os.kill, (session.ranks[1].pid, signal.SIGKILL)).start()
    with pytest.raises(ClusterLost, match=r"Ranks must live until their values have been moved\. Received: rank 1 on "):
        session.pull("rank")
    with pytest.raises(ClusterLost):
        follower.wait()
    assert session.pull("rank") == {0: 0, 1: 1}


@pytest.mark.slow
def test_setup_cells_that_fail_are_told_once_and_that_kill_do_not_go_round(
    tmp_path: Path, sessions: Callable[[int], Session]
) -> None:
    environment = sessions(2)._cluster.spec.environment
    flag = tmp_path / "flag"
    code = f"import os\nif os.path.exists({str(flag)!r}): exec(open({str(flag)!r}).read())"
    with jupyter_ddl.start(n=1, name="setups", env=environment) as session:
        session.run(code, setup=True)
        flag.write_text("1 / 0")
        with pytest.raises(ClusterLost):
            session.run("import os; os._exit(1)")
        with pytest.raises(SetupFailed, match=r"A setup cell must run on new ranks\. .*setup cell 1 of 1.*division by"):
            session.run("1")
        assert session.run("rank").ranks[0].value == "0"
        flag.write_text("os.kill(os.getpid(), 9)")
        with pytest.raises(ClusterLost):
            session.run("import os; os._exit(1)")
        for _ in range(2):
            with pytest.raises(ClusterLost, match=r"A setup cell must leave the ranks alive\. .*setup cell 1 of 1"):
                session.run("1")
        session.stop()
        with pytest.raises(NoCluster):
            session.run("1")
    assert ClusterFolder("setups").lease() is None


@pytest.mark.slow
def test_a_stop_while_ranks_are_replaced_leaves_nothing(sessions: Callable[[int], Session]) -> None:
    session = jupyter_ddl.start(n=2, name="stopped", env=sessions(2)._cluster.spec.environment)
    with pytest.raises(ClusterLost):
        session.run("import os; os._exit(1)")
    time.sleep(0.5)
    session.stop()
    assert ClusterFolder("stopped").lease() is None
    with pytest.raises(NoCluster):
        session.run("1")


def test_killed_ranks_leave_no_file_of_ours_and_keep_the_users(sessions: Callable[[int], Session]) -> None:
    session = sessions(2)
    code = """import os, tempfile
open(f'{tempfile.gettempdir()}/__autograph_generated_file{rank}.py', 'w').close()
own = tempfile.mkdtemp()
(tempfile.gettempdir(), os.environ['OMPI_MCA_btl_sm_backing_directory'], own)"""
    temporary, memory, own = (Path(path) for path in ast.literal_eval(session.run(code).ranks[0].value or ""))
    assert any(memory.iterdir())
    assert any(path.name.startswith(("ompi", "prte")) for path in temporary.iterdir())
    assert "was ended by signal 9 (Killed). " in lost(session, "import os; os.kill(os.getpid(), 9)")
    assert not memory.exists()
    assert all(path.name.startswith("tmp") for path in temporary.iterdir())
    assert own.is_dir()
    shutil.rmtree(temporary)


def test_an_error_replaces_no_rank(sessions: Callable[[int], Session]) -> None:
    before = [ready.pid for ready in sessions(2).ranks]
    with pytest.raises(RankError):
        sessions(2).run("1 / rank")
    assert sessions(2).run("rank").ranks[1].value == "1"
    assert [ready.pid for ready in sessions(2).ranks] == before


def test_a_notebook_tells_it_step_by_step(sessions: Callable[[int], Session]) -> None:
    untouched = [ready.pid for ready in sessions(2).ranks]
    kernel = Kernel()
    try:
        path = sessions(2)._cluster.spec.environment["PYTHONPATH"]
        assert kernel.execute(f"%ddl start -n 2 --name told --env PYTHONPATH={path}").error is None
        assert kernel.run("x = rank", "--setup").error is None
        dead = kernel.run("import os\nif rank == 1: os.kill(os.getpid(), 9)\nimport time; time.sleep(60)")
        assert "ClusterLost: Ranks must live to the end of the cell. Received: rank 1 on " in dead.told
        assert "2 new ranks are being started on the same devices: the next cell waits for them. " in dead.told
        after = kernel.run("x + 1")
        assert after.error is None, after.told
        assert "was ended by signal 9 (Killed). " in after.lines[0]
        assert "2 new ranks were started in " in after.text
        assert "the variables of the old ones are lost. 1 setup cell ran again (" in after.text
        assert after.lines[-2:] == ["[0]   1", "[1]   2"]
        assert "new ranks" not in kernel.run("x + 1").text
        assert kernel.execute("%ddl restart --ranks --rebuild never").error is None
        dead = kernel.run("import os; os._exit(1)")
        assert "exited with status 1." in dead.told
        assert "%ddl restart starts new ones." in dead.told
        assert kernel.run("1").error["ename"] == "ClusterLost"
        # Another cluster of this host.
        assert [ready.pid for ready in sessions(2).ranks] == untouched
        assert sessions(2).run("rank").ranks[1].value == "1"
    finally:
        kernel.execute("%ddl stop")
        kernel.stop()

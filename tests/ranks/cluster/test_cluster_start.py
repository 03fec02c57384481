"""What stands when `start` returns: every rank, where it should be, and open to nobody else."""

from __future__ import annotations

import os
import socket
import stat
from importlib import metadata
from typing import TYPE_CHECKING

import psutil
import pytest
from packaging.version import Version
from processes import MARK, marked_processes
from ranks.kernels import without

import jupyter_ddl
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import InvalidInput, NoCluster, RunTimedOut
from jupyter_ddl.host.cores import usable_cores

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi


def test_ranks_are_known_when_start_returns(session: Session) -> None:
    n = session.world_size
    assert [ready.rank for ready in session.ranks] == list(range(n))
    assert {ready.world_size for ready in session.ranks} == {n}
    assert {ready.host for ready in session.ranks} == {socket.gethostname()}
    assert {ready.device for ready in session.ranks} == {"CPU"}
    assert [ready.local_rank for ready in session.ranks] == list(range(n))
    assert len({ready.pid for ready in session.ranks}) == n
    assert all(psutil.pid_exists(ready.pid) for ready in session.ranks)


def test_ranks_are_those_of_mpi(session: Session) -> None:
    result = session.run("import os\nfrom mpi4py import MPI\n(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, os.getpid())")
    for ready in session.ranks:
        assert result.ranks[ready.rank].value == f"({ready.rank}, {session.world_size}, {ready.pid})"


def test_a_rank_knows_its_place(session: Session) -> None:
    result = session.run("rank, local_rank, world_size")
    assert {rank: of.value for rank, of in result.ranks.items()} == {
        rank: f"({rank}, {rank}, {session.world_size})" for rank in range(session.world_size)
    }


def test_tensorflow_has_the_ranks_share_of_the_cores(session: Session) -> None:
    session.wait_warm()
    threads = session.ranks[0].threads
    assert threads == max(1, usable_cores() // session.world_size)
    code = "import os, tensorflow as tf\nos.environ['TF_NUM_INTRAOP_THREADS'], tf.config.threading"
    result = session.run(f"{code}.get_intra_op_parallelism_threads()")
    assert {of.value for of in result.ranks.values()} == {f"('{threads}', {threads})"}


def test_nothing_listens_beyond_loopback(pair: Session) -> None:
    names = {}
    for process in marked_processes(os.environ[MARK]):
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.ip not in ("127.0.0.1", "::1"):
                names[connection.laddr] = process.name()
    # prterun's own daemons: the known limit that jupyter_ddl/host/mpi.py tells.
    assert set(names.values()) <= {"prterun", "mpiexec", "orterun"}


def test_connection_files_are_their_owners_alone(pair: Session) -> None:
    folder = ClusterFolder(pair.name)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.connection_file.parent.stat().st_mode) == 0o700
    for file in (folder.connection_file, folder.engine_connection_file, folder.path / "cluster.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_versions_are_told_when_the_imports_are_done(session: Session) -> None:
    warm = session.wait_warm()
    assert sorted(warm) == list(range(session.world_size))
    for of in warm.values():
        assert of.problem is None
        assert of.versions == {
            name: Version(metadata.version(name)).base_version for name in ("tensorflow", "keras", "horovod")
        }


def test_a_plain_cell_does_not_wait_for_tensorflow(tmp_path: Path) -> None:
    # A TensorFlow whose import takes until the test says so.
    (tmp_path / "tensorflow.py").write_text(
        "import pathlib, time\n"
        f"while not pathlib.Path({str(tmp_path)!r}, 'go').exists(): time.sleep(0.05)\n"
        "raise ImportError('never was')\n"
    )
    with jupyter_ddl.start(n=2, name="cold", env={"PYTHONPATH": str(tmp_path)}) as session:
        assert session.run("rank + 1").ranks[1].value == "2"
        with pytest.raises(RunTimedOut):
            session.run("import tensorflow", timeout_s=0.5)
        assert session.run("rank + 1").ranks[1].value == "2"
        (tmp_path / "go").touch()
        assert session.wait_warm()[1].problem == "ImportError: never was"


def test_what_lives_as_long_as_the_rank_is_no_work_for_the_garbage_collector(pair: Session) -> None:
    pair.wait_warm()
    # Keras is imported after that.
    of = pair.run("import gc, keras\n(gc.isenabled(), gc.get_freeze_count() > 100_000)").ranks
    assert {rank.value for rank in of.values()} == {"(True, True)"}


def test_a_rank_that_does_not_exist(session: Session) -> None:
    with pytest.raises(InvalidInput) as error:
        session.run("1", ranks=[session.world_size])
    n = session.world_size
    assert str(error.value) == (
        f"A rank must be one of 0-{n - 1}. Received: ranks [{n}] of {n}. Pass ranks that exist, or none for all."
    )


def test_no_rank_at_all(pair: Session) -> None:
    with pytest.raises(InvalidInput, match=r"A rank must be one of 0-1\. Received: ranks \[\] of 2\."):
        pair.run("1", ranks=[])


def test_progress_is_told_step_by_step_and_a_stopped_session_says_so(tmp_path: Path) -> None:
    steps: list[str] = []
    session = jupyter_ddl.start(n=1, name="stopped", env=without(tmp_path, "tensorflow"), progress=steps.append)
    assert steps[0].startswith("No GPU here: 1 rank on ")
    assert steps[1].startswith("mpiexec ")
    assert steps[2] == "starting 1 ranks"
    assert steps[-1] == "1 of 1 ranks are ready"
    session.stop()
    session.stop()
    for use in (lambda: session.run("1"), lambda: session.push({"x": 1}), lambda: session.pull("x")):
        with pytest.raises(NoCluster) as error:
            use()
        assert str(error.value) == (
            "Ranks must run. Received: the cluster 'stopped' was stopped. Start one with %ddl start."
        )

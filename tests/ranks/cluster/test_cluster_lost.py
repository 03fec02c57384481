"""A rank is killed and is not to be replaced: the running cell says so, and `restart` mends it."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from processes import MARK, marked_processes
from ranks.kernels import without
from ranks.sizes import slow_but

import jupyter_ddl
from jupyter_ddl.cli import main
from jupyter_ddl.errors import ClusterLost
from jupyter_ddl.protocol.events import OutputChunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

DEADLINE_S = 30.0
HOST = socket.gethostname()


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Give two ranks that have no TensorFlow to import."""
    with jupyter_ddl.start(n=2, name="lost", env=without(tmp_path, "tensorflow"), rebuild=False) as made:
        yield made


def shown_again() -> str:
    """Return what `jupyter ddl show` prints of the newest run."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["show"]) == 0
    return out.getvalue()


def lost_while_running(session: Session, victim: psutil.Process) -> str:
    """Kill a process of the cluster while a cell runs; return what the cell raised."""
    began_s = time.monotonic()
    threading.Timer(0.5, victim.kill).start()
    with pytest.raises(ClusterLost) as error:
        session.run("import time; time.sleep(600)")
    assert time.monotonic() - began_s < DEADLINE_S
    text = str(error.value)
    assert text.startswith("Ranks must live to the end of the cell. Received: ")
    assert "%ddl restart starts new ones." in text
    assert f"ClusterLost: {text}\n" in shown_again()
    with pytest.raises(ClusterLost, match=r"Ranks must run\. Received: "):
        session.run("1")
    return text


def test_a_killed_rank_is_named_with_its_signal_and_restart_changes_what_is_asked(session: Session) -> None:
    session.run("x = 1")
    text = lost_while_running(session, psutil.Process(session.ranks[1].pid))
    assert f"rank 1 on {HOST} was ended by signal 9 (Killed). " in text
    assert "Likely cause: a `kill -9`" in text
    session.restart(n=1, env={"MINE": "yes"})
    assert session.world_size == 1
    assert session.run("import os\n'x' in globals(), os.environ['MINE']").ranks[0].value == "(False, 'yes')"
    assert "PYTHONPATH" in session._cluster.spec.environment


def test_a_rank_killed_while_idle(session: Session) -> None:
    os.kill(session.ranks[0].pid, signal.SIGKILL)
    deadline_s = time.monotonic() + DEADLINE_S
    while session.state is None and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert session.state is not None
    assert f"rank 0 on {HOST} was ended by signal 9 (Killed)" in session.state
    with pytest.raises(ClusterLost, match=r"Ranks must run\. Received: rank 0 on .* was ended by signal 9"):
        session.push({"x": 1})


def test_ranks_killed_while_they_import(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("import time; time.sleep(600)")
    with jupyter_ddl.start(n=2, name="lost", env={"PYTHONPATH": str(tmp_path)}) as session:
        threading.Timer(0.5, os.kill, (session.ranks[1].pid, signal.SIGKILL)).start()
        with pytest.raises(ClusterLost, match="until they have imported TensorFlow"):
            session.wait_warm()


DEATHS = {"kill -9": "os.kill(os.getpid(), 9)", "a crash": "import ctypes; ctypes.string_at(0)", "abort": "os.abort()"}


@pytest.mark.parametrize("death", slow_but({"kill -9", "a crash"}, DEATHS))
def test_what_a_rank_printed_just_before_its_end_is_there_and_nothing_is_left_of_the_cluster(
    session: Session, death: str
) -> None:
    class Shown:
        text = ""

        def handle(self, event: object) -> None:
            if isinstance(event, OutputChunk) and event.rank == 1:
                self.text += event.text

        def tick(self, now_s: float) -> None:
            pass

        def flush(self) -> None:
            pass

    before = {process.pid for process in marked_processes(os.environ[MARK])}
    shown, runs = Shown(), []
    code = f"import os\nif rank == 1:\n    print('last words')\n    {DEATHS[death]}\nimport time\ntime.sleep(600)"
    with pytest.raises(ClusterLost):
        session.run(code, view=lambda run: runs.append(run) or shown)
    assert (runs[0].folder.path / "rank-1.log").read_text().startswith("last words\n")
    assert shown.text.startswith("last words\n")
    session.stop()
    left = {process.pid for process in marked_processes(os.environ[MARK])}
    assert not left & {ready.pid for ready in session.ranks}
    assert left < before

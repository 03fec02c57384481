"""Ranks that do not answer: what is known of them is told, and where they ignore a release they are replaced."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
from ranks.sizes import TWO_AND_FOUR

from jupyter_ddl.cluster import supervisor
from jupyter_ddl.errors import ClusterLost, RunTimedOut
from jupyter_ddl.kernel import release_policy
from jupyter_ddl.kernel.release_policy import ReleaseTimes
from jupyter_ddl.protocol.events import OutputChunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import Run

pytestmark = pytest.mark.mpi

DEADLINE_S = 60.0


class Shown:
    """What is shown under a cell, as a view takes it."""

    def __init__(self, _run: Run) -> None:
        self.text = ""

    def handle(self, event: object) -> None:
        if isinstance(event, OutputChunk):
            self.text += event.text

    def tick(self, now_s: float) -> None:
        pass

    def flush(self) -> None:
        pass


@pytest.fixture(params=TWO_AND_FOUR)
def stuck(request: pytest.FixtureRequest, bare_ranks: Callable[[int], Session]) -> Session:
    return bare_ranks(request.param)


def run(session: Session, code: str, **options: float) -> tuple[str, BaseException | None]:
    """Run a cell; return what was shown under it and what it raised."""
    shown: list[Shown] = []

    def view(run: Run) -> Shown:
        shown.append(Shown(run))
        return shown[0]

    raised = None
    try:
        session.run(code, view=view, **options)
    except (ClusterLost, RunTimedOut) as error:
        raised = error
    return shown[0].text, raised


def test_a_frozen_rank_is_named_and_comes_back_with_its_variables(
    stuck: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fraction of what users wait for.
    monkeypatch.setattr(supervisor, "SILENT_S", 3.0)
    monkeypatch.setattr(supervisor, "_ASK_S", 1.0)
    stuck.run("x = rank + 5")
    pid = stuck.ranks[1].pid
    for after_s, signum in ((0.5, signal.SIGSTOP), (4.5, signal.SIGCONT)):
        threading.Timer(after_s, os.kill, (pid, signum)).start()
    text, error = run(stuck, "import time\nfor _ in range(10): time.sleep(0.1)", sample_every_s=0.5)
    assert error is None
    assert re.search(r"jupyter_ddl: rank 1 has not answered for \d+ s: ", text)
    assert (
        f"its process {pid} is stopped (SIGSTOP, a debugger or a batch system); `kill -CONT {pid}` resumes it" in text
    )
    assert re.search(r"jupyter_ddl: rank 1 is back after [\d.]+ s\n", text)
    assert text.count("jupyter_ddl: ") == 2
    assert stuck.run("x").ranks[1].value == "6"
    assert stuck.ranks[1].pid == pid


# What rank 1 does that no release ends, and what is told of it.
QUICK = {"in mpi4py"}
STUCK = {
    "ignores SIGINT": (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.1)",
        "answers, so its main thread is in C or C++ code, or ignores the interrupt",
    ),
    "in C with Python's lock": (
        "import ctypes\nctypes.PyDLL(None).poll(None, 0, 600_000)",
        "waits, probably in C or C++ code that holds Python's lock",
    ),
    "in mpi4py": (
        "from mpi4py import MPI\nMPI.COMM_WORLD.recv(source=0, tag=77)",
        "answers, so its main thread is in C or C++ code, or ignores the interrupt",
    ),
    "catches the interrupt": (
        "import time\nwhile True:\n    try: time.sleep(600)\n    except KeyboardInterrupt: pass",
        "its code was interrupted, and has not ended yet",
    ),
}


def escalate(session: Session, what: str) -> None:
    session.run("x = 1")
    body = STUCK[what][0].replace("\n", "\n    ")
    text, error = run(session, f"if rank == 1:\n    {body}", timeout_s=1.0)
    assert isinstance(error, ClusterLost)
    assert "jupyter_ddl: rank 1 has not answered its release for " in text
    assert STUCK[what][1] in text
    assert "jupyter_ddl: rank 1 did not answer in time: all ranks are ended" in text
    told = str(error)
    assert told.startswith(
        "Ranks must live to the end of the cell. Received: the cell timed out, and rank 1 did not answer the release"
    )
    assert f"{session.world_size} new ranks are being started on the same devices" in told
    assert session.run("'x' in globals()").ranks[1].value == "False"


# That Python's lock is held is known only some seconds later: the test in the time that users wait has it.
LATE = {"in C with Python's lock"}


@pytest.mark.parametrize(
    "what",
    [what if what in QUICK else pytest.param(what, marks=pytest.mark.slow) for what in STUCK if what not in LATE],
)
def test_a_rank_that_no_release_ends_is_replaced(stuck: Session, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = ReleaseTimes(answer_s=3.0, unwind_s=4.5, report_s=2.0)
    monkeypatch.setattr(release_policy, "CELL", times)
    escalate(stuck, what)


@pytest.mark.slow
@pytest.mark.parametrize("what", STUCK)
def test_the_same_in_the_time_that_users_wait(stuck: Session, what: str) -> None:
    began_s = time.monotonic()
    escalate(stuck, what)
    assert time.monotonic() - began_s < DEADLINE_S


@pytest.mark.slow
def test_a_peer_frozen_in_horovods_shutdown(pair: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_policy, "CELL", ReleaseTimes(answer_s=5.0))
    pair.run("import horovod.tensorflow as hvd, tensorflow as tf\nhvd.init()")
    pid = pair.ranks[1].pid
    threading.Timer(1.0, os.kill, (pid, signal.SIGSTOP)).start()
    text, error = run(pair, "while True: hvd.allreduce(tf.ones(10))", timeout_s=3.0)
    assert isinstance(error, ClusterLost)
    assert f"its process {pid} is stopped" in text
    begin = "import horovod.tensorflow as hvd, tensorflow as tf\nhvd.init()\n"
    assert pair.run(f"{begin}float(hvd.allreduce(tf.ones(1), op=hvd.Sum)[0])").ranks[0].value == "2.0"

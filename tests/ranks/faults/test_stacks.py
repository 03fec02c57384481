"""%ddl stacks: where each rank is now, while a cell runs, and also where a rank can run no Python."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ranks.kernels import eventually
from ranks.sizes import TWO_AND_FOUR

from jupyter_ddl.errors import InvalidInput, RunInterrupted
from jupyter_ddl.kernel.profiling import take_profile
from jupyter_ddl.runs.store import resolve
from jupyter_ddl.support.contents import parts_of_run
from jupyter_ddl.views.stack_text import render_stacks

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

HVD = "import tensorflow as tf, horovod.tensorflow as hvd, time, ctypes\nhvd.init()\n"


def told(session: Session) -> str:
    return render_stacks(session.stacks().values(), session.world_size)


def while_running(session: Session, code: str, *texts: str) -> str:
    """Run code in the background until the texts are told of its ranks; return all that is told, and release them."""
    run = session.submit(code)
    run.follow_in_background()
    try:
        assert eventually(lambda: all(text in now for now in [told(session)] for text in texts)), told(session)
        return told(session)
    finally:
        run.interrupt()
        with pytest.raises(RunInterrupted):
            run.wait()


def test_the_file_for_support_has_them_of_a_run_that_hangs(bare: Session) -> None:
    run = bare.submit("import time\nif rank:\n    time.sleep(600)\nwhile True:\n    pass")
    run.follow_in_background()
    (name,) = bare.busy

    def stacks() -> str:
        parts = parts_of_run(resolve(name), with_code=False)
        return "".join(part.content.decode() for part in parts if "stacks" in part.name)

    try:
        told = ("Rank 0 of 2 on ", "cell line 4: while True:", "Rank 1 of 2 on ", "cell line 3: time.sleep(600)")
        assert eventually(lambda: all(text in now for now in [stacks()] for text in told)), stacks()
    finally:
        run.interrupt()
        with pytest.raises(RunInterrupted):
            run.wait()
    assert bare.run("rank").ranks[1].value == "1"
    assert stacks() == ""


@pytest.mark.parametrize("n", TWO_AND_FOUR)
def test_ranks_at_the_same_place_are_told_once(ranks: Callable[[int], Session], n: int) -> None:
    session = ranks(n)
    session.wait_warm()
    session.run("def spin():\n    while True: pass")
    code = f"{HVD}if rank == 1:\n    spin()\nelse:\n    hvd.allreduce(tf.ones(2))"
    others = "Rank 0" if n == 2 else "Ranks 0, 2-3"
    text = while_running(session, code, "horovod/tensorflow/mpi_ops.py", f"{others} of {n} on ")
    first, second = text.split("Rank 1 of ")
    assert first.startswith(f"{others} of {n} on ")
    assert "  cell line 6: hvd.allreduce(tf.ones(2))\n" in first
    assert "in _allreduce" in first
    assert "  cell line 4: spin()\n  line 2 of another cell, in spin: while True: pass" in second
    assert "ipykernel" not in text
    assert session.run("rank").ranks[1].value == "1"


def test_a_profile_marks_the_rank_that_the_others_wait_for(pair: Session) -> None:
    pair.wait_warm()
    code = (
        f"{HVD}def load():\n    time.sleep(0.2)\nwhile True:\n"
        "    if rank == 1:\n        load()\n    hvd.allreduce(tf.ones(2))"
    )
    run = pair.submit(code)
    run.follow_in_background()
    try:
        assert eventually(lambda: "cell line 7: load()" in told(pair)), told(pair)
        began_s = time.monotonic()
        text = take_profile(pair, None, 1.0, 50.0).text
        print(f"{time.monotonic() - began_s:.2f} s\n{text}")
        marked = text.partition("Ranks that differ")[2]
        assert re.search(r"  cell line 7: load\(\): rank 1: \d+%, rank 0: 0%\n", marked), text
        assert re.search(r"  cell line 8: hvd\.allreduce\(tf\.ones\(2\)\): rank 0: \d+%, rank 1: ", marked), text
        # Samples are taken though rank 0 is blocked in a collective; how many, a busy machine decides.
        assert int(re.search(r", (\d+) of 100 taken", text)[1]) > 20, text  # type: ignore[index]
        folder = resolve(pair.busy[0]).path
        assert "rank 0;cell line 8: hvd.allreduce(tf.ones(2));" in (folder / "profile.folded").read_text()
        # An interrupt of the run ends a profile that is being taken.
        profiles: list[str] = []
        thread = threading.Thread(target=lambda: profiles.append(take_profile(pair, None, 60.0, 50.0).text))
        thread.start()
        time.sleep(0.5)
        with pytest.raises(InvalidInput, match=r"Received: rank 0: another profile is being taken, for .+ more"):
            pair.profile([0])
    finally:
        run.interrupt()
        with pytest.raises(RunInterrupted):
            run.wait()
    thread.join(30)
    assert " s: the ranks were released from their run)" in profiles[0]
    assert pair.run("rank").ranks[1].value == "1"


def test_idle_ranks_say_so(pair: Session) -> None:
    # A rank has told that its cell ended, and tidies up after it.
    assert eventually(lambda: told(pair).splitlines()[1:] == ["  idle"])
    assert told(pair).startswith("Ranks 0-1 of 2 on ")


def test_a_cell_that_awaits_and_one_that_starts_threads(pair: Session) -> None:
    code = (
        "import asyncio, threading\ndef work():\n    threading.Event().wait()\n"
        "threading.Thread(target=work, name='mine', daemon=True).start()\n"
        "async def nap():\n    await asyncio.sleep(60)\nawait nap()"
    )
    text = while_running(pair, code, "cell line 6, in nap: await asyncio.sleep(60)")
    assert "  cell line 7: await nap()\n" in text
    assert "  thread mine\n" in text
    assert "line 3 of another cell, in work: threading.Event().wait()" in text


def test_a_rank_that_holds_pythons_lock_is_seen_by_signal(pair: Session) -> None:
    # poll() would end early if the signal came to its thread. An empty line is a line, as in a notebook.
    code = (
        "\nimport ctypes, time\nif rank == 1:\n    ctypes.PyDLL(None).poll(None, 0, 4000)\n"
        "else:\n    time.sleep(4)\nt = 1"
    )
    began_s = time.monotonic()
    run = pair.submit(code)
    run.follow_in_background()
    time.sleep(1)
    asked_s = time.monotonic()
    seen = pair.stacks()
    took_s = time.monotonic() - asked_s
    text = render_stacks(seen.values(), 2)
    print(f"stacks with the lock held after {took_s:.2f} s\n{text}")
    run.wait()
    ran_s = time.monotonic() - began_s
    assert seen[1].note.endswith("so it was seen by signal")
    assert not seen[0].note
    assert "  cell line 4: ctypes.PyDLL(None).poll(None, 0, 4000)" in text
    assert "  cell line 6: time.sleep(4)" in text
    assert ran_s > 4


def test_a_stopped_rank_is_told(pair: Session) -> None:
    pid = pair.ranks[1].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        # One of its threads takes the signal when it is scheduled, and stops the others: until then they may answer.
        assert eventually(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        seen = pair.stacks([1])
    finally:
        os.kill(pid, signal.SIGCONT)
    assert seen[1].note == "its process is stopped (SIGSTOP); SIGCONT resumes it"


def test_another_process_with_the_ranks_number_is_left_alone(pair: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    came: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: came.append(arguments))
    cluster = pair._cluster
    # This process: it does not handle the signal, which would end it.
    monkeypatch.setitem(cluster.ranks, 1, replace(cluster.ranks[1], pid=os.getpid()))
    os.kill(pair.ranks[0].pid, 0)
    assert pair._ranks.looks._process(cluster.ranks[1]) is None
    assert pair._ranks.looks._process(cluster.ranks[0]) is not None
    assert pair._ranks.looks._have_written(cluster.ranks[1]) == "it did not answer within 1 s"


def test_a_second_notebook_sees_and_interrupts(notebook: Any) -> None:
    from jupyter_ddl import attach

    cell = notebook.send("%%distributed\nimport time\nprint('at it')\nwhile True:\n    time.sleep(60)")
    cell.wait_for("at it")
    session = attach("notebook-2")
    try:
        # The magic's line is the cell's first.
        assert "  cell line 5: time.sleep(60)" in told(session)
        session.interrupt("%ddl interrupt")
        cell.wait(60)
    finally:
        session.detach()
    assert cell.error["ename"] == "RunInterrupted"
    assert cell.told.startswith("RunInterrupted: The cell was interrupted by %ddl interrupt after ")
    # The rank has told that its cell ended, and tidies up after it.
    assert eventually(lambda: notebook.execute("%ddl stacks -r 1").lines[-1] == "  idle")
    assert notebook.execute("%ddl interrupt").lines == ["notebook-2: interrupted"]
    assert notebook.run("1").lines == ["[0-1] 1"]

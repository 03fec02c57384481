"""A rank that the debugger holds: the others wait, no stall is reported, and whatever ends the cell leaves nothing."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ranks.debug_page import DebugPage, InBackground
from ranks.kernels import eventually

from jupyter_ddl.engine.debugging import page_events, rank_debugger
from jupyter_ddl.errors import ClusterError, ClusterLost, RunInterrupted
from jupyter_ddl.protocol.cell_options import StallOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

CELL = """%%distributed
def twice(value):
    doubled = 2 * value
    return doubled

own = twice(rank + 20)
print('own', own)"""


@pytest.fixture
def page(bare: Session) -> Iterator[DebugPage]:
    page = DebugPage(bare, 1)
    page.begin()
    yield page
    page.answer("disconnect")


def wait_for_held(session: Session, *ranks: int) -> None:
    """Wait until the kernel knows which ranks are held."""
    until_s = time.monotonic() + 60
    while [one.rank for one in session.held] != [*ranks]:
        assert time.monotonic() < until_s, session.held
        time.sleep(0.02)


def test_a_cell_is_held_stepped_looked_at_and_ends_well(bare: Session, page: DebugPage) -> None:
    assert page.set_breakpoints(CELL, 3) == [3]
    cell = InBackground(bare, CELL)
    frame = page.wait_until_held()
    assert (frame["name"], frame["line"]) == ("twice", 3)
    assert frame["source"]["path"] == page.ask("dumpCell", code=CELL)["sourcePath"]
    assert [one["name"] for one in page.frames()] == ["twice", "<module>"]
    assert page.variables(frame) == {"value": "21"}
    wait_for_held(bare, 1)
    # Rank 0 is not held, and ends the cell in its own time.
    assert eventually(lambda: [rank["state"] for rank in bare.describe()["ranks"]] == ["ready", "held"])
    assert bare.describe()["held"] == "Rank 1 is held in the debugger, at line 3 of a cell, in twice."
    page.go("next")
    frame = page.wait_until_held()
    assert frame["line"] == 4
    assert page.variables(frame)["doubled"] == "42"
    evaluated = page.ask("evaluate", expression="doubled * 100", frameId=frame["id"], context="repl")
    assert evaluated["result"] == "4200"
    page.go()
    result = cell.result()
    assert result.ranks[1].stdout == "own 42\n"
    assert bare.held == []
    assert bare.describe()["held"] is None
    # A second run of the same function, called by a cell that has no breakpoint itself.
    cell = InBackground(bare, "%%distributed\nagain = twice(1)")
    assert page.wait_until_held()["line"] == 3
    page.ask("disconnect")
    assert cell.result().outcome == "finished"
    # Nobody debugs any more: nothing holds it, and no file is left.
    assert bare.run("twice(4)").ranks[1].value == "8"
    folder = Path(page.ask("debugInfo")["tmpFilePrefix"])
    assert not folder.exists()


def test_another_rank_is_not_held_and_no_port_is_opened(bare: Session, page: DebugPage) -> None:
    listening = (
        "import psutil\nsorted(c.laddr.port for c in psutil.Process().net_connections() if c.status == 'LISTEN')"
    )
    children = "import psutil\nlen(psutil.Process().children())"
    before, children_before = bare.run(listening), bare.run(children)
    page.set_breakpoints(CELL, 6)
    cell = InBackground(bare, CELL)
    page.wait_until_held()
    wait_for_held(bare, 1)
    page.ask("disconnect")
    cell.result()
    after = bare.run(listening)
    assert [rank.value for rank in after.ranks.values()] == [rank.value for rank in before.ranks.values()]
    assert bare.run(children).ranks[1].value == children_before.ranks[1].value


def test_an_interrupt_ends_a_cell_that_is_held(bare: Session, page: DebugPage) -> None:
    page.set_breakpoints(CELL, 3)
    for _ in range(3):
        cell = InBackground(bare, CELL)
        page.wait_until_held()
        bare.interrupt("the test")
        assert isinstance(cell.result(), RunInterrupted)
        assert bare.held == []
    page.ask("disconnect")
    assert bare.run("rank").ranks[1].value == "1"


def test_an_interrupt_ends_a_cell_that_evaluates_what_never_ends(bare: Session, page: DebugPage) -> None:
    bare.run("import time\ndef never():\n    while True: time.sleep(0.01)")
    page.set_breakpoints(CELL, 3)
    cell = InBackground(bare, CELL)
    frame = page.wait_until_held()
    hangs = InBackground(bare, "%%distributed\n1", ranks=[0])
    with pytest.raises(
        ClusterError, match=r"A rank's debugger must answer within 20 s\. Received: nothing from rank 1\."
    ):
        page.ask("evaluate", expression="never()", frameId=frame["id"], context="repl")
    bare.interrupt("the test")
    assert isinstance(cell.result(), RunInterrupted)
    hangs.result()
    page.ask("disconnect")
    assert bare.run("rank").ranks[1].value == "1"


def test_an_error_of_another_rank_ends_a_cell_that_is_held(bare: Session, page: DebugPage) -> None:
    cell_text = "%%distributed\nimport time\nif rank == 0:\n    time.sleep(2); 1 / 0\nheld = rank"
    page.set_breakpoints(cell_text, 5)
    cell = InBackground(bare, cell_text)
    page.wait_until_held()
    assert "ZeroDivisionError" in str(cell.result())
    page.ask("disconnect")


def test_a_page_that_is_gone_leaves_no_rank_held(
    bare: Session, page: DebugPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.run(
        f"import {rank_debugger.__name__} as debugger, {page_events.__name__} as events\n"
        "debugger.LEASE_S, events.EVENTS_S = 3.0, 1.0"
    )
    page.set_breakpoints(CELL, 3)
    cell = InBackground(bare, CELL)
    page.wait_until_held()
    # Nothing is asked any more.
    assert cell.result().outcome == "finished"
    assert not page.ask("debugInfo")["isStarted"]
    bare.run("debugger.LEASE_S, events.EVENTS_S = 60.0, 8.0")


def test_a_rank_that_dies_while_it_is_held_is_lost(bare: Session, page: DebugPage) -> None:
    page.set_breakpoints(CELL, 3)
    cell = InBackground(bare, CELL)
    page.wait_until_held()
    os.kill(bare.ranks[1].pid, signal.SIGKILL)
    assert isinstance(cell.result(), ClusterLost)
    assert bare.held == []
    bare.restart()
    wait_for_held(bare)


@pytest.mark.slow
def test_no_stall_is_reported_while_the_debugger_holds_a_rank(ranks: Callable[[int], Session]) -> None:
    session = ranks(2)
    session.wait_warm()
    text = (
        "%%distributed\nimport tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nheld = rank\n"
        "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum))"
    )
    page = DebugPage(session, 1)
    page.begin()
    page.set_breakpoints(text, 4)
    cell = InBackground(session, text, stalls=StallOptions(5, "abort"))
    page.wait_until_held()
    until_s = time.monotonic() + 12
    while time.monotonic() < until_s:
        page.events()
        assert cell.runs
    page.go()
    result = cell.result()
    page.ask("disconnect")
    assert [rank.value for rank in result.ranks.values()] == ["2.0", "2.0"]
    session.run("rank")

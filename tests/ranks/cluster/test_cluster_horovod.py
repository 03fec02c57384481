"""Horovod between cells: there when a cell needs it, and at rest when none does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil
import pytest
from ranks.sizes import TWO_AND_FOUR

from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

IMPORTS = "import horovod.tensorflow as hvd, tensorflow as tf, os, time\nhvd.init()\n"
SUM = "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name='sum'))"
IDLE_S = 2.5


def values(session: Session, code: str, ranks: tuple[int, ...] | None = None) -> set[str | None]:
    return {result.value for result in session.run(code, ranks).ranks.values()}


def assert_works(session: Session) -> None:
    """Hold that a collective of all ranks works in a cell that only uses Horovod."""
    assert values(session, SUM) == {f"{session.world_size}.0"}


@pytest.fixture
def used(session: Session) -> Session:
    """Return a session on which a cell has imported and initialised Horovod."""
    session.run(IMPORTS)
    return session


def cpu_s(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@pytest.mark.parametrize("n", TWO_AND_FOUR)
def test_an_idle_cluster_uses_next_to_nothing(ranks: Callable[[int], Session], n: int) -> None:
    session = ranks(n)
    session.wait_warm()
    session.run(IMPORTS + "hvd.init(process_sets=[hvd.ProcessSet([0])])\n" + SUM)
    processes = [psutil.Process(ready.pid) for ready in session.ranks]
    time.sleep(1.0)  # what the cell itself left to do
    before_s = cpu_s(processes)
    time.sleep(IDLE_S)
    assert (cpu_s(processes) - before_s) / IDLE_S < 0.02


def test_it_works_in_the_cell_after(used: Session) -> None:
    for _ in range(3):
        assert_works(used)


def test_a_plain_init_in_every_cell(session: Session) -> None:
    for _ in range(3):
        assert values(session, IMPORTS + SUM) == {f"{session.world_size}.0"}


def test_after_the_users_own_shutdown(used: Session) -> None:
    used.run("hvd.shutdown()")
    assert_works(used)
    used.run("hvd.shutdown()\nhvd.init()")
    assert_works(used)


def test_after_a_cell_on_some_ranks(used: Session) -> None:
    used.run("x = 1", ranks=[0])
    assert values(used, "hvd.size()", ranks=(0,)) == {str(used.world_size)}
    assert_works(used)


@pytest.mark.parametrize("n", TWO_AND_FOUR)
def test_after_one_rank_raised_while_the_others_wait(ranks: Callable[[int], Session], n: int) -> None:
    session = ranks(n)
    session.run(IMPORTS)
    for failing in (0, n - 1):
        with pytest.raises(RankError) as error:
            session.run(f"assert rank != {failing}, 'on purpose'\n{SUM}")
        assert [failure.rank for failure in error.value.failures] == [failing]
        assert list(error.value.aborted) == [rank for rank in range(n) if rank != failing]
        assert_works(session)


def test_after_every_rank_raised(used: Session) -> None:
    for _ in range(3):
        with pytest.raises(RankError, match="on purpose"):
            used.run(f"{SUM}\nraise ValueError('on purpose')")
        assert_works(used)


def test_after_an_interrupt(used: Session) -> None:
    with pytest.raises(RunTimedOut):
        used.run("time.sleep(600)", timeout_s=0.5)
    assert_works(used)


def test_after_an_interrupt_inside_a_collective(pair: Session) -> None:
    pair.run(IMPORTS)
    with pytest.raises(RunTimedOut):
        pair.run(f"if rank == 0: {SUM}\nelse: time.sleep(600)", timeout_s=0.5)
    assert_works(pair)


def test_a_failure_does_not_end_horovod_in_the_next_cell(pair: Session) -> None:
    pair.run(IMPORTS)
    for _ in range(20):
        with pytest.raises(RankError):
            pair.run("raise ValueError('on purpose')")
        assert_works(pair)


def test_a_users_module_that_initialises_it(session: Session, tmp_path: Path) -> None:
    name = f"sums_of_{session.world_size}"
    (tmp_path / f"{name}.py").write_text(f"{IMPORTS}def total():\n    hvd.init()\n    return {SUM}\n")
    session.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    for _ in range(2):
        assert values(session, f"import {name}\n{name}.total()") == {f"{session.world_size}.0"}


KEPT = """
from tensorflow.python.eager import context

@tf.function
def summed():
    return hvd.allreduce(tf.constant(rank + 1.0), op=hvd.Sum, name="of_a_constant")

context.enable_run_metadata()
found = float(summed())
graphs = context.export_run_metadata().function_graphs
context.disable_run_metadata()
found, "HorovodAllreduce" in {node.op for graph in graphs for node in graph.post_optimization_graph.node}
"""


def test_the_sum_of_a_constant_is_made_by_the_graph_and_not_while_it_is_optimised(used: Session) -> None:
    total = sum(range(1, used.world_size + 1))
    assert values(used, KEPT) == {f"({total}.0, True)"}

"""Horovod in cells that do not name it: started when a rank first needs it, and not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# What each cell calls is defined in an earlier one: its own text does not name Horovod.
DEFINITIONS = """
import horovod.tensorflow as hvd, tensorflow as tf, os, time
from jupyter_ddl.engine.collectives.horovod_core import core_of, runs
hvd.init()
def is_running():
    return runs(core_of())
def total(name="total"):
    return float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name=name))
@tf.function
def graph(x):
    return hvd.allreduce(x, op=hvd.Sum, name="graph")
def place():
    return hvd.is_initialized(), hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()
def shut_down():
    hvd.shutdown()
def with_sets():
    hvd.init(process_sets=[hvd.ProcessSet([0])])
float(graph(tf.constant(1.0)))
"""


@pytest.fixture
def used(pair: Session) -> Session:
    """Return two ranks on which cells have defined functions that use Horovod."""
    pair.run(DEFINITIONS)
    return pair


def values(session: Session, code: str, ranks: tuple[int, ...] | None = None) -> list[str | None]:
    return [result.value for _, result in sorted(session.run(code, ranks).ranks.items())]


def test_a_cell_that_calls_no_collective_leaves_it_at_rest(used: Session) -> None:
    assert values(used, "str(rank), is_running()") == ["('0', False)", "('1', False)"]


def test_a_ranks_place_needs_no_horovod(used: Session) -> None:
    assert values(used, "place(), is_running()") == ["((True, 0, 2, 0, 2), False)", "((True, 1, 2, 1, 2), False)"]


def test_a_collective_starts_it(used: Session) -> None:
    for _ in range(3):
        assert values(used, "total(), is_running()") == ["(2.0, True)"] * 2


def test_a_graph_that_was_traced_in_an_earlier_cell_starts_it(used: Session) -> None:
    for _ in range(3):
        assert values(used, "float(graph(tf.constant(1.0)))") == ["2.0", "2.0"]


def test_a_rank_that_comes_late_and_one_that_has_asked_often(used: Session) -> None:
    assert values(used, "if rank: time.sleep(2.5)\ntotal()") == ["2.0", "2.0"]


def test_a_collective_on_one_rank_is_reported_as_a_stall(used: Session) -> None:
    with pytest.raises(RunTimedOut):
        used.run("if rank == 0: total('lonely')", timeout_s=3)
    assert values(used, "total()") == ["2.0", "2.0"]


def test_a_collective_of_all_on_some_of_the_ranks_says_so(used: Session) -> None:
    with pytest.raises(RankError, match="must be entered by all ranks"):
        used.run("total()", ranks=[1])
    assert values(used, "total()") == ["2.0", "2.0"]


@pytest.mark.parametrize("failing", [0, 1])
def test_one_rank_raises_while_the_other_asks(used: Session, failing: int) -> None:
    for _ in range(5):
        with pytest.raises(RankError) as error:
            used.run(f"assert rank != {failing}, 'on purpose'\ntotal()")
        assert [failure.rank for failure in error.value.failures] == [failing]
        assert values(used, "total()") == ["2.0", "2.0"]


def test_an_interrupt_at_any_moment_of_the_start(used: Session) -> None:
    for hundredth in range(8):
        with pytest.raises(RunTimedOut):
            used.run("while True: total()", timeout_s=0.02 + hundredth / 100)
        assert values(used, "total()") == ["2.0", "2.0"]


def test_shutdown_ends_it_and_the_next_cell_has_it_again(used: Session) -> None:
    with pytest.raises(RankError, match="initialized"):
        used.run("shut_down()\ntotal()")
    used.run("shut_down()")
    assert values(used, "total()") == ["2.0", "2.0"]


def test_process_sets_of_an_init_that_the_cell_does_not_name(used: Session) -> None:
    used.run("with_sets()")
    assert values(used, "total(), len(core_of()._get_process_set_ids_and_ranks())") == ["(2.0, 2)"] * 2
    used.run(DEFINITIONS.replace("hvd.init()", "hvd.shutdown(); hvd.init()"))


def test_it_rests_after_it_was_asked_for(used: Session) -> None:
    for _ in range(5):
        used.run("total()")
        assert values(used, "is_running()") == ["False", "False"]

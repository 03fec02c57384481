"""A cell's own `hvd.init(comm, process_sets)` and HOROVOD_* variables take effect, also in the next cell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ranks.sizes import OF_ANY

from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

IMPORTS = "import horovod.tensorflow as hvd, tensorflow as tf, os\nfrom mpi4py import MPI\n"
SUM = "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name='sum'))"
SUM_OF_SET = "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, process_set=own, name='of_set'))"


# The least that have two groups, one of them of more than one rank. Three ranks are started for these tests alone.
THREE = 3
SETS = "[hvd.ProcessSet([0]), hvd.ProcessSet([1, 2])]"


def values(session: Session, code: str, ranks: tuple[int, ...] | None = None) -> list[str | None]:
    return [result.value for _, result in sorted(session.run(code, ranks).ranks.items())]


@pytest.fixture(params=OF_ANY)
def fresh(request: pytest.FixtureRequest, ranks: Callable[[int], Session]) -> Iterator[Session]:
    """Return a session on which Horovod is as it was at first, and leave it so."""
    session = ranks(request.param)
    session.run(IMPORTS)
    yield session
    session.run("hvd.shutdown()\nfor name in [n for n in os.environ if n.startswith('HOROVOD_')]: del os.environ[name]")
    assert values(session, "hvd.init(), " + SUM)[0] == f"(None, {session.world_size}.0)"


def test_process_sets_live_on(fresh: Session) -> None:
    n = fresh.world_size
    fresh.run("sets = [hvd.ProcessSet([r]) for r in range(world_size)]" if n > 1 else "sets = []")
    fresh.run("hvd.init(process_sets=sets)\nown = sets[rank] if sets else hvd.global_process_set")
    for _ in range(2):
        assert values(fresh, SUM_OF_SET) == ["1.0"] * n
        assert values(fresh, SUM) == [f"{n}.0"] * n
    assert values(fresh, "hvd.init()\n" + SUM_OF_SET) == ["1.0"] * n


@pytest.mark.parametrize(
    ("n", "rounds"),
    [(2, 5), pytest.param(THREE, 15, marks=pytest.mark.slow), pytest.param(4, 40, marks=pytest.mark.slow)],
)
def test_a_shutdown_at_once_ends_nothing_that_is_still_being_set_up(
    ranks: Callable[[int], Session], n: int, rounds: int
) -> None:
    session = ranks(n)
    session.run(IMPORTS)
    # A race, seen at the 9th of such rounds on 4 ranks before all ranks waited for each other.
    for _ in range(rounds):
        session.run("sets = [hvd.ProcessSet([r]) for r in range(world_size)]\nhvd.init(process_sets=sets)")
        session.run("hvd.shutdown()")


def test_process_sets_that_some_ranks_have_given_up_are_given_up(pair: Session) -> None:
    pair.run(IMPORTS + "hvd.init(process_sets=[hvd.ProcessSet([0])])")
    pair.run("if rank: hvd.shutdown()")
    assert values(pair, SUM) == ["2.0"] * 2


def test_process_sets_outlive_cells_on_some_ranks_and_failures(pair: Session) -> None:
    pair.run(f"{IMPORTS}sets = [hvd.ProcessSet([0]), hvd.ProcessSet([1])]\nhvd.init(process_sets=sets)")
    pair.run("own = sets[rank]")
    assert values(pair, SUM_OF_SET, ranks=(1,)) == ["1.0"]
    with pytest.raises(RankError, match="on purpose"):
        pair.run("raise ValueError('on purpose')", ranks=[1])
    assert values(pair, SUM_OF_SET) == ["1.0"] * 2
    # Rank 0 comes to the collective when rank 1 has ended Horovod, and its set with it: rank 1 is the cause.
    with pytest.raises(RankError) as error:
        pair.run(f"assert rank != 1, 'on purpose'\nimport time\ntime.sleep(0.2)\n{SUM_OF_SET}")
    assert [failure.rank for failure in error.value.failures] == [1]
    assert values(pair, SUM_OF_SET) == ["1.0"] * 2
    # A set that never existed is an error of the ranks' own.
    with pytest.raises(RankError, match="Process set does not exist or has not been registered"):
        pair.run("other = hvd.ProcessSet([rank])\nother.process_set_id = 7\n" + SUM_OF_SET.replace("own", "other"))
    assert values(pair, SUM_OF_SET) == ["1.0"] * 2
    pair.run("hvd.shutdown()")


@pytest.mark.slow  # which ranks are the cause is in tests/pure/test_runs_events.py
def test_process_sets_of_some_ranks_outlive_cells_on_these_and_failures(ranks: Callable[[int], Session]) -> None:
    session = ranks(THREE)
    session.run(f"{IMPORTS}sets = {SETS}\nhvd.init(process_sets=sets)")
    of_sets = ["1.0", "2.0", "2.0"]
    session.run("own = sets[rank > 0]")
    assert values(session, SUM_OF_SET) == of_sets
    assert values(session, SUM_OF_SET, ranks=(1, 2)) == ["2.0"] * 2
    with pytest.raises(RankError) as error:
        session.run(f"assert rank != 2, 'on purpose'\n{SUM_OF_SET}", ranks=[1, 2])
    # Rank 1 waited in a collective of the run's own ranks: rank 2 is the cause, and not that others were missing.
    assert [failure.rank for failure in error.value.failures] == [2]
    assert "on purpose" in str(error.value)
    # So is it for ranks that come to the collective when rank 2 has ended Horovod, and their set is gone with it.
    for chosen in ([1, 2], None):
        with pytest.raises(RankError) as error:
            session.run(f"assert rank != 2, 'on purpose'\nimport time\ntime.sleep(0.2)\n{SUM_OF_SET}", ranks=chosen)
        assert [failure.rank for failure in error.value.failures] == [2]
        assert values(session, SUM_OF_SET) == of_sets
    with pytest.raises(RankError, match="CollectiveOnSubset"):
        session.run(SUM, ranks=[1, 2])
    session.run("hvd.shutdown()")


def test_process_sets_that_are_added_and_removed(pair: Session) -> None:
    pair.run(IMPORTS + "hvd.init(process_sets='dynamic')\nown = hvd.add_process_set([1])")
    assert values(pair, SUM_OF_SET + " if rank else 0") == ["0", "1.0"]
    assert values(pair, "hvd.init()\n" + SUM_OF_SET + " if rank else 0") == ["0", "1.0"]
    assert values(pair, "hvd.remove_process_set(own)") == ["True"] * 2
    assert values(pair, "own.process_set_id, hvd.size()") == ["(None, 2)"] * 2
    pair.run("hvd.shutdown()\ndel os.environ['HOROVOD_DYNAMIC_PROCESS_SETS']")


@pytest.mark.parametrize(
    ("others", "change"),
    # Two that are there: the last is removed while the first is what the end of Horovod begins with.
    [((), "hvd.add_process_set([0])"), ((1, 0), "hvd.remove_process_set(sets[-1])")],
    ids=["add", "remove"],
)
def test_a_process_set_that_one_rank_alone_changes_hangs_no_later_cell(
    pair: Session, others: tuple[int, ...], change: str
) -> None:
    pids = [rank.pid for rank in pair.ranks]
    pair.run(f"{IMPORTS}import time\nhvd.init(process_sets='dynamic')")
    pair.run(f"sets = [hvd.add_process_set([one]) for one in {others}]")
    with pytest.raises(RankError, match="ValueError: on purpose"):
        pair.run(f"if rank == 0: {change}\nelse:\n    time.sleep(1)\n    raise ValueError('on purpose')")
    assert values(pair, "hvd.init()\n" + SUM) == ["2.0"] * 2
    assert [rank.pid for rank in pair.ranks] == pids
    pair.run("hvd.shutdown()\nos.environ.pop('HOROVOD_DYNAMIC_PROCESS_SETS', None)")


# The rank's own part, whose end of Horovod the other rank hears of before that of the cell: on a busy machine it does.
SLOW_END = """
from jupyter_ddl.engine import rank_state
collectives, stock = rank_state.here().collectives, rank_state.here().collectives.raised
def slowly():
    del collectives.raised
    stock()
    time.sleep(1)
collectives.raised = slowly
"""


def test_a_change_of_process_sets_that_another_ranks_end_ends_is_no_cause(pair: Session) -> None:
    pair.run(f"{IMPORTS}import time\nhvd.init(process_sets='dynamic')")
    pair.run(SLOW_END, ranks=[1])
    with pytest.raises(RankError, match="ValueError: on purpose") as error:
        pair.run("if rank == 0: hvd.add_process_set([0])\nelse:\n    time.sleep(1)\n    raise ValueError('on purpose')")
    assert [failure.rank for failure in error.value.failures] == [1]
    pair.run("hvd.shutdown()\nos.environ.pop('HOROVOD_DYNAMIC_PROCESS_SETS', None)")


def test_a_communicator_of_the_users(pair: Session) -> None:
    # The other way round.
    pair.run(IMPORTS + "hvd.init(comm=MPI.COMM_WORLD.Split(0, -rank))")
    assert values(pair, "hvd.size(), hvd.rank()") == ["(2, 1)", "(2, 0)"]
    assert values(pair, SUM) == ["2.0"] * 2
    assert values(pair, "hvd.init(comm=[rank])\nhvd.size()") == ["1"] * 2
    assert values(pair, "hvd.size(), " + SUM) == ["(1, 1.0)"] * 2
    pair.run("hvd.shutdown()")
    assert values(pair, "hvd.init()\n" + SUM) == ["2.0"] * 2


@pytest.mark.slow
def test_communicators_of_some_ranks(ranks: Callable[[int], Session]) -> None:
    session = ranks(THREE)
    session.run(IMPORTS + "part = MPI.COMM_WORLD.Split(rank > 0)\nhvd.init(comm=part)")
    assert values(session, "hvd.size(), hvd.rank()") == ["(1, 0)", "(2, 0)", "(2, 1)"]
    assert values(session, SUM) == ["1.0", "2.0", "2.0"]
    assert values(session, "hvd.init(comm=[rank])\nhvd.size()") == ["1"] * THREE
    assert values(session, "hvd.size()") == ["1"] * THREE
    session.run("hvd.shutdown()")
    assert values(session, "hvd.init()\n" + SUM) == ["3.0"] * THREE


def test_a_communicator_of_one_rank_alone_is_forgotten(pair: Session) -> None:
    assert values(pair, IMPORTS + "if rank == 0: hvd.init(comm=MPI.COMM_SELF)\nNone") == [None, None]
    assert values(pair, "hvd.size()") == ["2", "2"]
    assert values(pair, SUM) == ["2.0", "2.0"]


def test_variables_take_effect(fresh: Session, tmp_path: Path) -> None:
    for name in ("one", "two"):
        timeline = tmp_path / f"{name}.json"
        fresh.run(f"os.environ['HOROVOD_TIMELINE'] = {str(timeline)!r}\nhvd.init()\n{SUM}")
        assert "MPI_ALLREDUCE" in timeline.read_text()
    fresh.run("os.environ.pop('HOROVOD_TIMELINE')\nhvd.init()")


def test_variables_take_effect_in_the_next_cell_without_another_init(fresh: Session, tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    fresh.run(f"hvd.init()\nos.environ['HOROVOD_TIMELINE'] = {str(timeline)!r}")
    fresh.run(SUM)
    assert "MPI_ALLREDUCE" in timeline.read_text()


def test_variables_do_not_drop_process_sets(pair: Session, tmp_path: Path) -> None:
    pair.run(IMPORTS + "own = hvd.ProcessSet([0, 1][:1])\nhvd.init(process_sets=[own])")
    timeline = tmp_path / "timeline.json"
    pair.run(f"os.environ['HOROVOD_TIMELINE'] = {str(timeline)!r}\nhvd.init()\n{SUM}")
    assert json.dumps(values(pair, "own.process_set_id")) == '["1", "1"]'
    pair.run("del os.environ['HOROVOD_TIMELINE']\nhvd.shutdown()")

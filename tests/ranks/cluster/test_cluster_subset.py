"""A cell on some of the ranks: what they cannot do without the others is an error, and not a hang."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

IMPORTS = "import horovod.tensorflow as hvd, tensorflow as tf, os\nhvd.init()\n"
SUM = "float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name='sum'))"
DEADLINE_S = 30.0
SUBSETS = [
    (2, (1,)),
    pytest.param(2, (0,), marks=pytest.mark.slow),
    pytest.param(4, (1, 3), marks=pytest.mark.slow),
]


@pytest.fixture
def used(ranks: Callable[[int], Session], request: pytest.FixtureRequest) -> Session:
    session = ranks(request.param)
    session.run(IMPORTS)
    return session


def error_of(session: Session, code: str, chosen: tuple[int, ...]) -> RankError:
    began_s = time.monotonic()
    with pytest.raises(RankError) as error:
        session.run(code, ranks=chosen)
    assert time.monotonic() - began_s < DEADLINE_S
    return error.value


@pytest.mark.parametrize(("used", "chosen"), SUBSETS, indirect=["used"])
def test_a_collective_of_all(used: Session, chosen: tuple[int, ...]) -> None:
    error = error_of(used, SUM, chosen)
    assert sorted(failure.rank for failure in error.failures) == list(chosen)
    assert error.failures[0].message == (
        f"A collective of all ranks must be entered by all ranks. Received: a cell on ranks {list(chosen)} of "
        f"{used.world_size}. Run the cell on all ranks, or use a process set."
    )
    assert error.failures[0].name == "CollectiveOnSubset"
    assert used.run(SUM).ranks[0].value == f"{used.world_size}.0"


@pytest.mark.parametrize(("used", "chosen"), SUBSETS, indirect=["used"])
def test_a_collective_in_a_function_that_all_ranks_have_traced(used: Session, chosen: tuple[int, ...]) -> None:
    used.run("@tf.function\ndef total(x): return hvd.allreduce(x, op=hvd.Sum, name='traced')\n")
    assert used.run("float(total(tf.constant(1.0)))").ranks[0].value == f"{used.world_size}.0"
    error = error_of(used, "total(tf.constant(1.0))", chosen)
    assert error.failures[0].name == "CollectiveOnSubset"
    assert used.run("float(total(tf.constant(1.0)))").ranks[0].value == f"{used.world_size}.0"


@pytest.mark.parametrize(("used", "chosen"), SUBSETS, indirect=["used"])
def test_an_init_that_asks_for_something_new(used: Session, chosen: tuple[int, ...]) -> None:
    rule = "Horovod is initialised by all ranks together, and this cell runs on some of them."
    remedy = "Run the cell that calls it on all ranks."
    asks = "hvd.init() with new arguments or HOROVOD_* variables"
    error = error_of(used, "hvd.init(process_sets=[hvd.ProcessSet([0])])", chosen)
    assert (error.failures[0].name, error.failures[0].message) == ("InvalidInput", f"{rule} Received: {asks}. {remedy}")
    error = error_of(used, "os.environ['HOROVOD_CYCLE_TIME'] = '2'\nhvd.init()", chosen)
    assert error.failures[0].message == f"{rule} Received: {asks}. {remedy}"
    error = error_of(used, "hvd.shutdown()\nhvd.init()", chosen)
    assert f"{rule} Received: hvd.init()" in error.failures[0].message
    used.run("os.environ.pop('HOROVOD_CYCLE_TIME', None)")
    assert used.run(SUM).ranks[0].value == f"{used.world_size}.0"


@pytest.mark.parametrize(("used", "chosen"), SUBSETS, indirect=["used"])
def test_what_is_local_works(used: Session, chosen: tuple[int, ...]) -> None:
    result = used.run("hvd.init()\nhvd.rank(), hvd.size()", ranks=chosen)
    assert {rank: of.value for rank, of in result.ranks.items()} == {
        rank: f"({rank}, {used.world_size})" for rank in chosen
    }

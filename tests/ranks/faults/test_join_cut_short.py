"""`hvd.join()` that was cut short: the next cell with Horovod works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

SUM = "float(hvd.allreduce(tf.ones([]), op=hvd.Sum))"


@pytest.mark.parametrize("joins", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_next_cell_works(pair: Session, joins: int) -> None:
    pids = pair.run(
        "import os, time\nimport tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()\nos.getpid()"
    ).ranks
    code = f"if rank == {joins}: hvd.join()\n"
    for _ in range(2):
        with pytest.raises(RankError, match="on the way"):
            pair.run(f"{code}time.sleep(0.5)\nraise ValueError('on the way')")
        assert {rank.value for rank in pair.run(SUM).ranks.values()} == {"2.0"}
        with pytest.raises(RunTimedOut):
            pair.run(f"{code}time.sleep(60)", timeout_s=1)
        assert {rank.value for rank in pair.run(SUM).ranks.values()} == {"2.0"}
    # A whole one still ends, and says who was last.
    assert {rank.value for rank in pair.run(f"time.sleep(rank == {joins})\nint(hvd.join())").ranks.values()} == {
        str(joins)
    }
    assert [rank.value for rank in pair.run("os.getpid()").ranks.values()] == [rank.value for rank in pids.values()]

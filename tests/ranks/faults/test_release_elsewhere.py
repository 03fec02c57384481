"""A release that does not come from the cell's own follower: the panel's, `%ddl interrupt`'s, another notebook's."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RunInterrupted
from jupyter_ddl.kernel.release_policy import CELL
from jupyter_ddl.protocol.requests import Release
from jupyter_ddl.views.stack_text import render_stacks

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

WITHIN_S = 60.0
HUNG = """import time, tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
if rank == 0:
    hvd.allreduce(tf.ones(2))
try:
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep({tidies_s})
    raise
"""


# Rank 1 ends Horovod once it is released, and so rank 0's collective, perhaps before rank 0 is released itself. Where
# rank 1 tidies up, rank 0 has raised first; also longer than a follower waits before it releases the others.
@pytest.mark.parametrize(
    ("released", "tidies_s"),
    [
        ([0, 1], 0.0),
        ([1], 0.2),
        ([0, 1], 2 * CELL.grace_s),
        pytest.param([1], 0.0, marks=pytest.mark.slow),
        pytest.param([0, 1], 0.2, marks=pytest.mark.slow),
        pytest.param([1], 2 * CELL.grace_s, marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_hears_of_it_by_horovods_end_is_interrupted_too(
    pair: Session, released: list[int], tidies_s: float
) -> None:
    def are_there() -> bool:
        told = render_stacks(pair.stacks().values(), 2)
        return "hvd.allreduce" in told and "time.sleep(600)" in told

    def release() -> None:
        deadline_s = time.monotonic() + WITHIN_S
        while not are_there() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        # From that line to Horovod's core.
        time.sleep(0.5)
        pair._cluster.send(Release("", "the panel"), released, now=True)

    threading.Thread(target=release).start()
    with pytest.raises(RunInterrupted, match="was interrupted by the panel after"):
        pair.run(HUNG.format(tidies_s=tidies_s))
    assert pair.run("import horovod.tensorflow as hvd\nhvd.init()\nhvd.size()").ranks[1].value == "2"

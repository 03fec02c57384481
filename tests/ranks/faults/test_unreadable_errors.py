"""A rank raises what takes for ever to say what it is: no other rank waits for it, and a release ends it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

# What a cell that never ends is told from.
DEADLINE_S = 60.0
ENDLESS = """
import time
class Endless(Exception):
    def __str__(self):
        while True:
            time.sleep(0.1)
"""
UNREAD = "Endless: <its text could not be read: it took until the cell was released>"


def test_a_release_ends_the_text_and_keeps_the_ranks(bare: Session) -> None:
    bare.run(f"kept = rank\n{ENDLESS}")
    began_s = time.monotonic()
    with pytest.raises(RunTimedOut):
        bare.run("raise Endless", timeout_s=2.0)
    assert time.monotonic() - began_s < DEADLINE_S
    assert bare.run("kept").ranks[1].value == "1"


@pytest.mark.slow
def test_without_a_release_it_ends_too_also_that_of_a_cause(bare: Session) -> None:
    bare.run(f"kept = rank\n{ENDLESS}")
    with pytest.raises(RankError) as error:
        bare.run("raise ValueError('after it') from Endless()", timeout_s=DEADLINE_S)
    assert "ValueError: after it" in str(error.value)
    assert bare.run("kept").ranks[1].value == "1"


def test_a_rank_in_a_collective_does_not_wait_for_the_text(pair: Session) -> None:
    pair.run(f"import jupyter_ddl.keras as hvd\nimport tensorflow as tf\nhvd.init()\n{ENDLESS}")
    code = """
if rank == 0:
    raise Endless
began_s = time.monotonic()
try:
    hvd.allreduce(tf.constant(1.0))
finally:
    waited_s = time.monotonic() - began_s
"""
    with pytest.raises(RankError) as error:
        pair.run(code, timeout_s=DEADLINE_S)
    assert UNREAD in str(error.value)
    # Those that are still reading are released after 15 s.
    assert pair.pull("waited_s", [1])[1] < 10
